#include "perf/sim_replica.h"

#include <algorithm>
#include <utility>

namespace fak::perf {

size_t SimCache::Match(std::span<const uint64_t> keys) const {
  size_t match = 0;
  while (match < keys.size() && blocks_.contains(keys[match])) {
    ++match;
  }
  return match;
}

bool SimCache::Hold(std::span<const uint64_t> keys, int64_t more, std::vector<uint64_t>& evicted) {
  int64_t wanted = more;
  int64_t unheld_of_ours = 0;
  for (const uint64_t key : keys) {
    const auto at = blocks_.find(key);
    wanted += at == blocks_.end() ? 1 : 0;
    unheld_of_ours += at != blocks_.end() && at->second.holders == 0 ? 1 : 0;
  }
  if (wanted > free_ + static_cast<int64_t>(unheld_.size()) - unheld_of_ours) {
    return false;
  }
  for (const uint64_t key : keys) {
    if (const auto at = blocks_.find(key); at != blocks_.end()) {
      if (at->second.holders++ == 0) {
        unheld_.erase(at->second.unheld);
      }
    }
  }
  for (; free_ < wanted; ++free_) {
    evicted.push_back(unheld_.front());
    blocks_.erase(unheld_.front());
    unheld_.pop_front();
  }
  free_ -= wanted;
  for (const uint64_t key : keys) {
    if (const auto [at, added] = blocks_.try_emplace(key); added) {
      at->second.holders = 1;
    }
  }
  return true;
}

void SimCache::Release(std::span<const uint64_t> keys, int64_t more) {
  free_ += more;
  for (size_t i = keys.size(); i-- > 0;) {
    Block& block = blocks_.at(keys[i]);
    if (--block.holders == 0) {
      block.unheld = unheld_.insert(unheld_.end(), keys[i]);
    }
  }
}

int64_t SimBlocks(const TraceRequest& request) {
  const int64_t tokens = request.prompt_tokens + request.output_tokens;
  return (tokens + kTraceBlockTokens - 1) / kTraceBlockTokens;
}

int64_t SimReplica::MoreBlocks(const TraceRequest& request) const {
  return SimBlocks(request) - static_cast<int64_t>(request.keys.size());
}

// Takes the first that waits, if there is room.
bool SimReplica::Admit() {
  const auto sequences = static_cast<int64_t>(prompts_.size() + generating_.size());
  if (waiting_.empty() || sequences >= engine_.sequences_max) {
    return false;
  }
  const size_t number = waiting_.front();
  const TraceRequest& request = requests_[number];
  const size_t cached = cache_.Match(request.keys);
  std::vector<uint64_t> evicted;
  if (!cache_.Hold(request.keys, MoreBlocks(request), evicted)) {
    return false;
  }
  waiting_.pop_front();
  if (!evicted.empty()) {
    changes_.push_back({.stored = false, .keys = std::move(evicted)});
  }
  const int64_t left = std::max<int64_t>(
      1, request.prompt_tokens - static_cast<int64_t>(cached) * kTraceBlockTokens);
  prompts_.push_back({.request = number,
                      .uncached_tokens = left,
                      .prompt_left = left,
                      .output_left = request.output_tokens,
                      .cached_blocks = cached});
  return true;
}

std::optional<int64_t> SimReplica::Next(int64_t now_us) {
  int64_t budget = engine_.step_tokens - static_cast<int64_t>(generating_.size());
  int64_t prompt_tokens = 0;
  for (size_t i = 0; budget > 0 && (i < prompts_.size() || Admit()); ++i) {
    prompts_[i].step_tokens = std::min(budget, prompts_[i].prompt_left);
    prompt_tokens += prompts_[i].step_tokens;
    budget -= prompts_[i].step_tokens;
  }
  if (prompt_tokens == 0 && generating_.empty()) {
    return std::nullopt;
  }
  Step step{.start_us = now_us};
  step.each_us =
      std::max(engine_.step_us, prompt_tokens * 1'000'000 / engine_.prefill_tokens_per_s) +
      static_cast<int64_t>(generating_.size()) * engine_.sequence_us;
  if (prompt_tokens == 0) {
    step.count =
        std::min_element(generating_.begin(), generating_.end(), [](const auto& a, const auto& b) {
          return a.output_left < b.output_left;
        })->output_left;
  }
  computed_tokens_ += prompt_tokens;
  step_ = step;
  return step.start_us + step.count * step.each_us;
}

std::optional<int64_t> SimReplica::CutShort(int64_t now_us) {
  if (!step_ || step_->count <= 1) {
    return std::nullopt;
  }
  const int64_t made = (now_us - step_->start_us + step_->each_us - 1) / step_->each_us;
  const int64_t count = std::max<int64_t>(1, made);
  if (count >= step_->count) {
    return std::nullopt;
  }
  step_->count = count;
  return step_->start_us + count * step_->each_us;
}

void SimReplica::Finish(std::vector<Ended>& ended) {
  const auto end = [&](const Sequence& sequence) {
    const TraceRequest& request = requests_[sequence.request];
    cache_.Release(request.keys, MoreBlocks(request));
    ended.push_back({sequence.request, true, sequence.uncached_tokens});
  };
  for (Sequence& sequence : generating_) {
    sequence.output_left -= step_->count;
    if (sequence.output_left == 0) {
      end(sequence);
    }
  }
  std::erase_if(generating_, [](const Sequence& sequence) { return sequence.output_left == 0; });
  for (Sequence& sequence : prompts_) {
    sequence.prompt_left -= std::exchange(sequence.step_tokens, 0);
  }
  while (!prompts_.empty() && prompts_.front().prompt_left == 0) {
    Sequence& sequence = prompts_.front();
    changes_.push_back(
        {.stored = true, .request = sequence.request, .first = sequence.cached_blocks});
    ended.push_back({sequence.request, false, sequence.uncached_tokens});
    if (--sequence.output_left == 0) {
      end(sequence);
    } else {
      generating_.push_back(sequence);
    }
    prompts_.pop_front();
  }
  step_.reset();
}

std::vector<SimReplica::Change> SimReplica::TakeChanges() {
  return std::exchange(changes_, {});
}

int64_t SimReplica::backlog_tokens() const {
  int64_t tokens = 0;
  for (const Sequence& sequence : prompts_) {
    tokens += sequence.prompt_left;
  }
  for (const size_t number : waiting_) {
    const TraceRequest& request = requests_[number];
    const auto cached = static_cast<int64_t>(cache_.Match(request.keys));
    tokens += std::max<int64_t>(1, request.prompt_tokens - cached * kTraceBlockTokens);
  }
  return tokens;
}

int64_t SimReplica::in_flight() const {
  return static_cast<int64_t>(waiting_.size() + prompts_.size() + generating_.size());
}

}  // namespace fak::perf
