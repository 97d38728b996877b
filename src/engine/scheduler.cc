#include "engine/scheduler.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/result.h"

namespace fak::engine {

using kv::BlockId;

namespace {

bool Scores(const Sequence& sequence) {
  return sequence.score_prompt && !sequence.prompt_done();
}

uint32_t LogitRows(const Slice& slice) {
  return Scores(*slice.sequence) ? slice.rows : 1;
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, kv::BlockPool& pool, kv::PrefixTree& tree,
                     const Clock& clock, CopyBlock copy_block)
    : options_(options),
      pool_(pool),
      tree_(tree),
      clock_(clock),
      copy_block_(std::move(copy_block)) {}

void Scheduler::Add(Sequence& sequence) {
  CHECK(sequence.state == Sequence::State::kWaiting && sequence.blocks.empty());
  CHECK(BlocksFor(static_cast<uint32_t>(sequence.tokens.size())) <= pool_.total())
      << "a prompt that can't fit was admitted";
  if (!served_.contains(sequence.tenant)) {
    // A tenant that comes back gets no credit for its absence.
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [tenant, rows] : served_) {
      least = std::min(least, rows);
    }
    served_.emplace(sequence.tenant, served_.empty() ? 0.0 : least);
  }
  waiting_.push_back(&sequence);
}

void Scheduler::Remember(const Sequence& sequence, uint32_t positions) {
  if (options_.enable_prefix_caching && !sequence.uncached && positions > 0) {
    tree_.Insert(sequence.salt, std::span(sequence.tokens).first(positions), sequence.blocks);
  }
}

void Scheduler::Remove(Sequence& sequence, bool keep) {
  if (sequence.state == Sequence::State::kEnded) {
    return;
  }
  if (keep) {
    Remember(sequence, sequence.computed);
  }
  ReleaseBlocks(sequence);
  std::erase(running_, &sequence);
  std::erase(waiting_, &sequence);
  std::erase_if(plan_, [&sequence](const Slice& slice) { return slice.sequence == &sequence; });
  sequence.state = Sequence::State::kEnded;
  const auto same_tenant = [&sequence](const Sequence* other) {
    return other->tenant == sequence.tenant;
  };
  if (std::none_of(running_.begin(), running_.end(), same_tenant) &&
      std::none_of(waiting_.begin(), waiting_.end(), same_tenant)) {
    served_.erase(sequence.tenant);
  }
  for (Sequence* other : waiting_) {
    if (other->maybe_leader == &sequence) {
      other->maybe_leader = nullptr;
    }
  }
  for (Sequence* other : running_) {
    if (other->maybe_leader == &sequence) {
      other->maybe_leader = nullptr;
    }
  }
}

void Scheduler::ReleaseBlocks(Sequence& sequence) {
  // The tail first: the pool hands out the latest freed, so heads of prompts stay longest.
  for (auto block = sequence.blocks.rbegin(); block != sequence.blocks.rend(); ++block) {
    pool_.Release(*block);
  }
  sequence.blocks.clear();
  sequence.computed = 0;
}

bool Scheduler::EnsureFree(uint32_t blocks) {
  if (pool_.free() < blocks) {
    tree_.Evict(blocks - pool_.free());
  }
  return pool_.free() >= blocks;
}

// Makes blocks for positions [computed, end) exist and belong to this sequence alone.
bool Scheduler::MakeRoom(Sequence& sequence, uint32_t end) {
  const uint32_t filled = sequence.computed % options_.block_size;
  const bool copy = filled != 0 && pool_.shared(sequence.blocks.back());
  const uint32_t held = static_cast<uint32_t>(sequence.blocks.size());
  const uint32_t wanted = BlocksFor(end) - std::min(BlocksFor(end), held) + (copy ? 1 : 0);
  if (!EnsureFree(wanted)) {
    return false;
  }
  if (copy && pool_.shared(sequence.blocks.back())) {
    const BlockId own = pool_.Allocate();
    copy_block_(sequence.blocks.back(), own, filled);
    pool_.Release(sequence.blocks.back());
    sequence.blocks.back() = own;
  }
  while (sequence.blocks.size() < BlocksFor(end)) {
    sequence.blocks.push_back(pool_.Allocate());
  }
  return true;
}

void Scheduler::RunningInsert(Sequence& sequence) {
  const auto before = [](const Sequence* a, const Sequence* b) {
    return std::tie(a->priority, a->arrival) < std::tie(b->priority, b->arrival);
  };
  running_.insert(std::upper_bound(running_.begin(), running_.end(), &sequence, before), &sequence);
  sequence.state = Sequence::State::kRunning;
}

void Scheduler::Preempt(Sequence& sequence) {
  const auto planned = std::find_if(plan_.begin(), plan_.end(), [&sequence](const Slice& slice) {
    return slice.sequence == &sequence;
  });
  if (planned != plan_.end()) {
    rows_left_ += planned->rows;
    logit_rows_left_ += LogitRows(*planned);
    plan_.erase(planned);
  }
  Remember(sequence, sequence.computed);
  ReleaseBlocks(sequence);
  std::erase(running_, &sequence);
  sequence.state = Sequence::State::kWaiting;
  ++sequence.preemptions;
  ++preemptions_;
  waiting_.push_back(&sequence);
}

// Puts as many rows of the sequence into the plan as fit. False when the step is full for it.
bool Scheduler::Schedule(Sequence& sequence) {
  uint32_t rows = std::min(sequence.pending(), rows_left_);
  if (options_.long_prefill_token_threshold != 0) {
    rows = std::min(rows, options_.long_prefill_token_threshold);
  }
  if (Scores(sequence)) {
    rows = std::min(rows, logit_rows_left_);
  }
  if (rows == 0 || logit_rows_left_ == 0) {
    return false;
  }
  while (!MakeRoom(sequence, sequence.computed + rows)) {
    if (running_.size() == 1) {
      // Only the cache is in its way, with blocks that hang on its own path: a tail to be copied
      // before it is written, or twins of blocks that it computed itself. Preempted, it would meet
      // them again.
      tree_.Clear();
      if (MakeRoom(sequence, sequence.computed + rows)) {
        break;
      }
      // It fits alone, so somebody outside holds blocks, as `fak verify` does to have it preempted.
    }
    Sequence& victim = *running_.back();
    Preempt(victim);
    if (&victim == &sequence) {
      return false;
    }
  }
  plan_.push_back({&sequence, rows});
  rows_left_ -= rows;
  logit_rows_left_ -= LogitRows(plan_.back());
  return true;
}

void Scheduler::TakeCached(Sequence& sequence) {
  if (const Sequence* leader = sequence.maybe_leader;
      leader != nullptr && leader->prompt_done() && sequence.preemptions == 0) {
    // All but the last token of the prompt, whose logits each choice needs for itself.
    sequence.computed = sequence.prompt_tokens - 1;
    const uint32_t blocks = BlocksFor(sequence.computed);
    sequence.blocks.assign(leader->blocks.begin(), leader->blocks.begin() + blocks);
    for (const BlockId block : sequence.blocks) {
      pool_.Hold(block);
    }
    sequence.cached_tokens = leader->cached_tokens;
    return;
  }
  if (!options_.enable_prefix_caching || sequence.score_prompt) {
    return;
  }
  auto match =
      tree_.Find(sequence.salt, sequence.tokens, static_cast<uint32_t>(sequence.tokens.size()) - 1);
  sequence.blocks = std::move(match.blocks);
  sequence.computed = match.tokens;
  if (sequence.preemptions == 0) {
    sequence.cached_tokens = std::min(match.tokens, sequence.prompt_tokens);
  }
}

bool Scheduler::Admit(Sequence& sequence) {
  TakeCached(sequence);
  const uint32_t all = BlocksFor(static_cast<uint32_t>(sequence.tokens.size()));
  const uint32_t wanted = all - static_cast<uint32_t>(sequence.blocks.size()) + 1;
  // The whole prompt must fit beside what runs now, or admitting would only preempt others. Alone
  // it always may try.
  if (!running_.empty() && wanted > pool_.free() + pool_.cached_only()) {
    ReleaseBlocks(sequence);
    return false;
  }
  std::erase(waiting_, &sequence);
  RunningInsert(sequence);
  Schedule(sequence);
  return true;
}

Sequence* Scheduler::NextWaiting() const {
  Sequence* best = nullptr;
  std::tuple<int64_t, double, uint64_t> best_rank;
  const int64_t now_ns = clock_.NowNs();
  for (Sequence* sequence : waiting_) {
    if (sequence->maybe_leader != nullptr && !sequence->maybe_leader->prompt_done()) {
      continue;
    }
    const std::tuple<int64_t, double, uint64_t> rank{
        sequence->priority - (now_ns - sequence->arrival_ns) / options_.aging_ns,
        served_.find(sequence->tenant)->second, sequence->arrival};
    if (best == nullptr || rank < best_rank) {
      best = sequence;
      best_rank = rank;
    }
  }
  return best;
}

std::span<const Slice> Scheduler::Plan() {
  plan_.clear();
  rows_left_ = options_.max_num_batched_tokens;
  logit_rows_left_ = options_.logit_rows_max();
  // Scheduling may preempt, which changes running_: walk a copy and skip who left it.
  for (const bool generating : {true, false}) {
    const std::vector<Sequence*> order = running_;
    for (Sequence* sequence : order) {
      if (sequence->state == Sequence::State::kRunning &&
          (sequence->pending() == 1) == generating) {
        Schedule(*sequence);
      }
    }
  }
  const uint64_t preempted_before = preemptions_;
  while (rows_left_ > 0 && logit_rows_left_ > 0 && running_.size() < options_.max_num_seqs &&
         preemptions_ == preempted_before) {
    Sequence* const next = NextWaiting();
    if (next == nullptr || !Admit(*next)) {
      break;
    }
  }
  return plan_;
}

void Scheduler::Commit() {
  for (const Slice& slice : plan_) {
    Sequence& sequence = *slice.sequence;
    const bool was_prompt = !sequence.prompt_done();
    sequence.computed += slice.rows;
    served_.find(sequence.tenant)->second +=
        static_cast<double>(slice.rows) / sequence.tenant_weight;
    if (was_prompt) {
      Remember(sequence, sequence.computed - sequence.computed % options_.block_size);
    }
  }
}

uint64_t Scheduler::backlog_tokens() const {
  uint64_t tokens = 0;
  for (const std::vector<Sequence*>* list : {&waiting_, &running_}) {
    for (const Sequence* sequence : *list) {
      tokens += sequence->pending();
    }
  }
  return tokens;
}

}  // namespace fak::engine
