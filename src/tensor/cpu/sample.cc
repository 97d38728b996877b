// Hot path: bench/micro/sample_bench.cc.
#include "tensor/cpu/sample.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tensor/spec/random.h"
#include "tensor/spec/router.h"
#include "tensor/spec/sampling.h"
#include "tensor/spec/scalar.h"

namespace fak::tensor::cpu {
namespace {

constexpr float kGreedyBelow = 1e-5f;
constexpr uint32_t kChunk = 1024;  // tokens whose weights are computed at a time
// Tokens whose largest logit is noted, so that cuts pass by those that have nothing for them.
constexpr uint32_t kGroup = 128;

bool Before(const auto& a, const auto& b) {
  return a.key < b.key || (a.key == b.key && a.token < b.token);
}

uint32_t Size(std::span<const float> x) {
  return static_cast<uint32_t>(x.size());
}

}  // namespace

void LogitPeak::Add(const Kernels& kernels, std::span<const float> part, uint32_t first) {
  LogitPeak other;
  other.finite = kernels.all_finite(part.data(), Size(part));
  other.max = kernels.max_of(part.data(), Size(part));
  if (other.max >= max) {
    other.token = first + kernels.arg_max(part.data(), Size(part));
  }
  Join(other);
}

void LogitPeak::Join(const LogitPeak& other) {
  finite &= other.finite;
  if (other.max > max || (other.max == max && other.token < token)) {
    max = other.max;
    token = other.token;
  }
}

void Sampler::Sample(std::span<const float> logits, const LogitPeak& peak, const SampleSpec& spec,
                     SampleResult& result) {
  result.token = -1;
  result.logprob = 0.0f;
  result.rank = 0;
  result.top.clear();
  if (!peak.finite) {
    return;
  }
  if (spec.score_token >= 0) {
    result.token = spec.score_token;
  } else {
    const std::span<const float> adjusted = Adjust(logits, spec);
    const uint32_t best = adjusted.data() == logits.data()
                              ? peak.token
                              : kernels_.arg_max(adjusted.data(), Size(adjusted));
    if (spec::IsNonFinite(adjusted[best])) {
      return;  // nothing allowed, or a bias beyond all reason
    }
    if (spec.temperature < kGreedyBelow) {
      result.token = static_cast<int32_t>(best);
    } else {
      const std::span<const float> tempered = Temper(adjusted, spec.temperature);
      if (spec::IsNonFinite(tempered[best])) {
        return;
      }
      result.token = Draw(tempered, tempered[best], spec);
    }
  }
  if (spec.top_logprobs >= 0 || spec.score_token >= 0) {
    ReportLogprobs(logits, peak.max, result.token, spec, result);
  }
}

void Sampler::ReportLogprobs(std::span<const float> logits, float max, int32_t token,
                             const SampleSpec& spec, SampleResult& result) {
  const uint32_t n = Size(logits);
  const double log_sum_exp = spec::LogSumExp(max, kernels_.weight_sum(logits.data(), max, n));
  const float logit = logits[static_cast<size_t>(token)];
  result.logprob = spec::LogProb(logit, log_sum_exp);
  result.rank = 1 + kernels_.count_above(logits.data(), logit, n);
  for (int32_t i = 0; i < token; ++i) {
    result.rank += logits[static_cast<size_t>(i)] == logit ? 1 : 0;
  }
  if (spec.top_logprobs > 0) {
    FillTop(logits, std::min(static_cast<uint32_t>(spec.top_logprobs), n), log_sum_exp, result);
  }
}

void Sampler::FillTop(std::span<const float> logits, uint32_t n, double log_sum_exp,
                      SampleResult& result) {
  const auto before = [](const TokenLogprob& a, const TokenLogprob& b) {
    return spec::RanksBefore(a.logprob, a.token, b.logprob, b.token);
  };
  // The worst of the n best so far is at the front. Chunks that hold nothing better are passed by.
  heap_.clear();
  for (size_t first = 0; first < logits.size(); first += kChunk) {
    const std::span<const float> chunk =
        logits.subspan(first, std::min<size_t>(kChunk, logits.size() - first));
    if (heap_.size() == n &&
        kernels_.count_above(chunk.data(), heap_.front().logprob, Size(chunk)) == 0) {
      continue;
    }
    for (size_t i = 0; i < chunk.size(); ++i) {
      const TokenLogprob entry{static_cast<int32_t>(first + i), chunk[i]};
      if (heap_.size() < n) {
        heap_.push_back(entry);
        std::push_heap(heap_.begin(), heap_.end(), before);
      } else if (before(entry, heap_.front())) {
        std::pop_heap(heap_.begin(), heap_.end(), before);
        heap_.back() = entry;
        std::push_heap(heap_.begin(), heap_.end(), before);
      }
    }
  }
  std::sort_heap(heap_.begin(), heap_.end(), before);
  for (const TokenLogprob& entry : heap_) {
    result.top.push_back({entry.token, spec::LogProb(entry.logprob, log_sum_exp)});
  }
}

// Bias, mask and penalties. The logits themselves if there are none.
std::span<const float> Sampler::Adjust(std::span<const float> logits, const SampleSpec& spec) {
  const bool penalised =
      !spec.counts.empty() && (spec.repetition_penalty != 1.0f || spec.frequency_penalty != 0.0f ||
                               spec.presence_penalty != 0.0f);
  if (spec.bias.empty() && spec.allowed.empty() && !penalised) {
    return logits;
  }
  adjusted_.assign(logits.begin(), logits.end());
  for (const TokenBias& entry : spec.bias) {
    adjusted_[static_cast<size_t>(entry.token)] += entry.bias;
  }
  if (!spec.allowed.empty()) {
    for (size_t t = 0; t < adjusted_.size(); ++t) {
      if (((spec.allowed[t / 64] >> (t % 64)) & 1) == 0) {
        adjusted_[t] = -std::numeric_limits<float>::infinity();
      }
    }
  }
  if (penalised) {
    for (const TokenCount& entry : spec.counts) {
      float& logit = adjusted_[static_cast<size_t>(entry.token)];
      logit = spec::Penalise(logit, spec.repetition_penalty, spec.frequency_penalty,
                             spec.presence_penalty, entry.in_output);
    }
  }
  return adjusted_;
}

std::span<const float> Sampler::Temper(std::span<const float> adjusted, float temperature) {
  if (temperature == 1.0f) {
    return adjusted;
  }
  adjusted_.resize(adjusted.size());
  kernels_.divide(adjusted.data(), temperature, Size(adjusted), adjusted_.data());
  return adjusted_;
}

int32_t Sampler::Draw(std::span<const float> tempered, float max, const SampleSpec& spec) {
  const uint64_t bits = spec::SampleBits(spec.seed, spec.choice, spec.position);
  const bool cut_k = spec.top_k > 0 && spec.top_k < static_cast<int32_t>(tempered.size());
  const bool cut_p = spec.top_p < 1.0f;
  const bool cut_typical = spec.typical_p < 1.0f;
  if (!cut_k && !cut_p && !cut_typical && spec.min_p <= 0.0f) {
    return DrawFromAll(tempered, max, bits);
  }
  NoteGroups(tempered);
  const Floor floor = FloorOf(spec.min_p, max);
  if (cut_k) {
    GatherTop(tempered, max, floor, static_cast<uint32_t>(spec.top_k));
  } else if (cut_p && !cut_typical && spec.min_p <= 0.0f) {
    GatherMass(tempered, max, floor, spec.top_p);
    return DrawFromCandidates(bits);
  } else {
    Gather(tempered, max, floor);
  }
  if (cut_typical) {
    KeepTypical(spec.typical_p, max);
  }
  if (cut_p) {
    KeepMass(spec::MassTarget(spec.top_p, CandidateWeight()));
  }
  return DrawFromCandidates(bits);
}

int32_t Sampler::DrawFromAll(std::span<const float> tempered, float max, uint64_t bits) {
  chunk_sums_.clear();
  uint64_t total = 0;
  for (size_t first = 0; first < tempered.size(); first += kChunk) {
    const uint32_t n = static_cast<uint32_t>(std::min<size_t>(kChunk, tempered.size() - first));
    chunk_sums_.push_back(kernels_.weight_sum(tempered.data() + first, max, n));
    total += chunk_sums_.back();
  }
  uint64_t rest = spec::DrawTarget(bits, total);
  size_t chunk = 0;
  while (chunk_sums_[chunk] <= rest) {
    rest -= chunk_sums_[chunk];
    ++chunk;
  }
  size_t token = chunk * kChunk;
  for (uint64_t weight = spec::SampleWeight(tempered[token], max); weight <= rest;
       weight = spec::SampleWeight(tempered[token], max)) {
    rest -= weight;
    ++token;
  }
  return static_cast<int32_t>(token);
}

int32_t Sampler::DrawFromCandidates(uint64_t bits) const {
  uint64_t rest = spec::DrawTarget(bits, CandidateWeight());
  size_t i = 0;
  while (candidates_[i].weight <= rest) {
    rest -= candidates_[i].weight;
    ++i;
  }
  return candidates_[i].token;
}

void Sampler::NoteGroups(std::span<const float> tempered) {
  group_maxima_.clear();
  for (size_t first = 0; first < tempered.size(); first += kGroup) {
    const std::span<const float> group =
        tempered.subspan(first, std::min<size_t>(kGroup, tempered.size() - first));
    group_maxima_.push_back(kernels_.max_of(group.data(), Size(group)));
  }
}

// What min_p leaves. The logit is a bound from below, so that little is lost by its not being
// exact.
Sampler::Floor Sampler::FloorOf(float min_p, float max) {
  const uint64_t weight = std::max<uint64_t>(1, min_p > 0.0f ? spec::MinPThreshold(min_p) : 0);
  const double logit = double{max} + std::log(static_cast<double>(weight) * 0x1p-40) - 0.01;
  return {weight,
          std::nextafter(static_cast<float>(logit), -std::numeric_limits<float>::infinity())};
}

// A logit that at least k tokens reach, and not many more: the k-th largest of the groups' maxima.
float Sampler::ReachedBy(uint32_t k) {
  if (k > group_maxima_.size()) {
    return -std::numeric_limits<float>::infinity();
  }
  group_order_ = group_maxima_;
  const auto kth = group_order_.begin() + (k - 1);
  std::nth_element(group_order_.begin(), kth, group_order_.end(), std::greater<>());
  return *kth;
}

// candidates_ = all tokens that reach the floor.
void Sampler::Gather(std::span<const float> tempered, float max, const Floor& floor) {
  candidates_.clear();
  uint64_t weights[kGroup];
  for (size_t g = 0; g < group_maxima_.size(); ++g) {
    if (group_maxima_[g] < floor.logit) {
      continue;
    }
    const size_t first = g * kGroup;
    const size_t n = std::min<size_t>(kGroup, tempered.size() - first);
    kernels_.weights(tempered.data() + first, max, static_cast<uint32_t>(n), weights);
    for (size_t i = 0; i < n; ++i) {
      const float x = tempered[first + i];
      if (x >= floor.logit && weights[i] >= floor.weight) {
        candidates_.push_back(
            {-static_cast<double>(x), weights[i], static_cast<int32_t>(first + i), x});
      }
    }
  }
}

// The first k in rank order of what reaches the floor.
void Sampler::GatherTop(std::span<const float> tempered, float max, const Floor& floor,
                        uint32_t k) {
  const float reached = std::max(ReachedBy(k), floor.logit);
  Gather(tempered, max, {floor.weight, reached});
  // Some of the k may have weighed too little.
  if (candidates_.size() < k && reached > floor.logit) {
    Gather(tempered, max, floor);
  }
  KeepTopK(k);
}

// The first in rank order that have the share top_p of all weight.
void Sampler::GatherMass(std::span<const float> tempered, float max, const Floor& floor,
                         float top_p) {
  const uint64_t target =
      spec::MassTarget(top_p, kernels_.weight_sum(tempered.data(), max, Size(tempered)));
  for (uint32_t k = 64; true; k *= 8) {
    const float reached = std::max(ReachedBy(k), floor.logit);
    Gather(tempered, max, {floor.weight, reached});
    if (CandidateWeight() >= target || reached == floor.logit) {
      break;
    }
  }
  KeepMass(target);
}

uint64_t Sampler::CandidateWeight() const {
  uint64_t sum = 0;
  for (const Candidate& candidate : candidates_) {
    sum += candidate.weight;
  }
  return sum;
}

void Sampler::KeepTopK(uint32_t k) {
  if (candidates_.size() <= k) {
    return;
  }
  order_ = candidates_;
  const auto last = order_.begin() + (k - 1);
  std::nth_element(order_.begin(), last, order_.end(),
                   [](const Candidate& a, const Candidate& b) { return Before(a, b); });
  const Candidate cut = *last;
  std::erase_if(candidates_, [&](const Candidate& c) { return Before(cut, c); });
}

// Keeps the first in rank order whose weights sum to the target, and always the first.
void Sampler::KeepMass(uint64_t target) {
  order_ = candidates_;
  auto begin = order_.begin();
  auto end = order_.end();
  const auto before = [](const Candidate& a, const Candidate& b) { return Before(a, b); };
  // [begin, end) holds the cut; `target` is what its members must still sum to.
  while (end - begin > 1) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, before);
    uint64_t left = 0;
    for (auto it = begin; it != middle; ++it) {
      left += it->weight;
    }
    if (left >= target) {
      end = middle;
    } else {
      target -= left;
      begin = middle;
    }
  }
  const Candidate cut = *begin;
  std::erase_if(candidates_, [&](const Candidate& c) { return Before(cut, c); });
}

void Sampler::KeepTypical(float typical_p, float max) {
  const uint64_t total = CandidateWeight();
  const double log_sum_exp = spec::LogSumExp(max, total);
  const auto logprob = [&](const Candidate& c) { return spec::LogProb(c.tempered, log_sum_exp); };
  double entropy = 0.0;
  for (const Candidate& candidate : candidates_) {
    entropy = spec::EntropyStep(entropy, candidate.weight, logprob(candidate));
  }
  entropy = entropy / static_cast<double>(total);
  for (Candidate& candidate : candidates_) {
    candidate.key = spec::Atypicality(logprob(candidate), entropy);
  }
  KeepMass(spec::MassTarget(typical_p, total));
  for (Candidate& candidate : candidates_) {
    candidate.key = -static_cast<double>(candidate.tempered);
  }
}

}  // namespace fak::tensor::cpu
