#include "tensor/cpu/sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tensor/spec/random.h"
#include "tensor/spec/router.h"
#include "tensor/spec/sampling.h"

namespace fak::tensor::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> Logits(uint32_t n, float spread, uint64_t seed) {
  std::vector<float> logits(n);
  for (uint32_t i = 0; i < n; ++i) {
    // Sum of four uniforms: a few stand out, most lie in the middle.
    float x = 0.0f;
    for (uint32_t k = 0; k < 4; ++k) {
      x += static_cast<float>(spec::SampleBits(seed, k, i) >> 40) * 0x1p-24f - 0.5f;
    }
    logits[i] = x * spread;
  }
  return logits;
}

// docs/formats/numerics.md "Sampling", step by step and by sorting.
class Reference {
 public:
  Reference(std::vector<float> logits, const SampleSpec& spec)
      : spec_(spec), l_(std::move(logits)) {}

  int32_t Draw() {
    Adjust();
    const auto best = static_cast<size_t>(spec::ArgMax(l_.data(), Size()));
    if (spec::IsNonFinite(l_[best])) {
      return -1;
    }
    if (spec_.temperature < 1e-5f) {
      return static_cast<int32_t>(best);
    }
    for (float& l : l_) {
      l = l / spec_.temperature;
    }
    max_ = spec::MaxOf(l_.data(), Size());
    for (size_t i = 0; i < l_.size(); ++i) {
      weights_.push_back(spec::SampleWeight(l_[i], max_));
      left_.push_back(i);
    }
    if (spec_.min_p > 0.0f) {
      std::erase_if(left_,
                    [&](size_t i) { return weights_[i] < spec::MinPThreshold(spec_.min_p); });
    }
    if (spec_.top_k > 0) {
      SortByLogit();
      left_.resize(std::min(left_.size(), static_cast<size_t>(spec_.top_k)));
    }
    if (spec_.typical_p < 1.0f) {
      SortByTypicality();
      CutMass(spec_.typical_p);
    }
    if (spec_.top_p < 1.0f) {
      SortByLogit();
      CutMass(spec_.top_p);
    }
    std::ranges::sort(left_);
    const uint64_t target =
        spec::DrawTarget(spec::SampleBits(spec_.seed, spec_.choice, spec_.position), Total());
    uint64_t sum = 0;
    for (const size_t i : left_) {
      sum += weights_[i];
      if (sum > target) {
        return static_cast<int32_t>(i);
      }
    }
    return -1;
  }

 private:
  int64_t Size() const { return static_cast<int64_t>(l_.size()); }

  void Adjust() {
    for (const TokenBias& b : spec_.bias) {
      l_[static_cast<size_t>(b.token)] += b.bias;
    }
    for (size_t i = 0; i < l_.size() && !spec_.allowed.empty(); ++i) {
      if (((spec_.allowed[i / 64] >> (i % 64)) & 1) == 0) {
        l_[i] = -kInf;
      }
    }
    for (const TokenCount& c : spec_.counts) {
      float& l = l_[static_cast<size_t>(c.token)];
      l = spec::Penalise(l, spec_.repetition_penalty, spec_.frequency_penalty,
                         spec_.presence_penalty, c.in_output);
    }
  }
  void SortByLogit() {
    std::ranges::sort(left_, [&](size_t a, size_t b) {
      return spec::RanksBefore(l_[a], static_cast<int64_t>(a), l_[b], static_cast<int64_t>(b));
    });
  }
  void SortByTypicality() {
    const double log_sum_exp = spec::LogSumExp(max_, Total());
    std::ranges::sort(left_);
    double entropy = 0.0;
    for (const size_t i : left_) {
      entropy = spec::EntropyStep(entropy, weights_[i], spec::LogProb(l_[i], log_sum_exp));
    }
    entropy = entropy / static_cast<double>(Total());
    const auto key = [&](size_t i) {
      return spec::Atypicality(spec::LogProb(l_[i], log_sum_exp), entropy);
    };
    std::ranges::stable_sort(left_, [&](size_t a, size_t b) { return key(a) < key(b); });
  }
  void CutMass(float p) {
    const uint64_t target = spec::MassTarget(p, Total());
    uint64_t sum = 0;
    size_t kept = 0;
    do {
      sum += weights_[left_[kept++]];
    } while (sum < target && kept < left_.size());
    left_.resize(kept);
  }
  uint64_t Total() const {
    uint64_t sum = 0;
    for (const size_t i : left_) {
      sum += weights_[i];
    }
    return sum;
  }

  SampleSpec spec_;
  std::vector<float> l_;
  float max_ = 0.0f;
  std::vector<uint64_t> weights_;
  std::vector<size_t> left_;
};

class EverySampler : public ::testing::TestWithParam<Isa> {
 protected:
  SampleResult Sample(const std::vector<float>& logits, const SampleSpec& spec) {
    LogitPeak peak;
    peak.Add(KernelsFor(GetParam()), logits, 0);
    SampleResult result;
    sampler_.Sample(logits, peak, spec, result);
    return result;
  }
  Sampler sampler_{KernelsFor(GetParam())};
};
INSTANTIATE_TEST_SUITE_P(Sampler, EverySampler, ::testing::ValuesIn(CpuIsas()),
                         [](const auto& isa) { return std::string(IsaName(isa.param)); });

TEST_P(EverySampler, FindsTheSamePeakInAnyPartsOfARow) {
  const Kernels& kernels = KernelsFor(GetParam());
  std::vector<float> logits = Logits(1000, 10.0f, 9);
  logits[777] = 50.0f;
  logits[300] = 50.0f;
  logits[301] = 50.0f;
  for (const uint32_t part : {1u, 7u, 128u, 999u}) {
    LogitPeak forward;
    LogitPeak backward;
    for (uint32_t first = 0; first < 1000; first += part) {
      const uint32_t n = std::min(part, 1000 - first);
      forward.Add(kernels, std::span(logits).subspan(first, n), first);
      const uint32_t last = 1000 - first - n;
      LogitPeak other;
      other.Add(kernels, std::span(logits).subspan(last, n), last);
      backward.Join(other);
    }
    for (const LogitPeak& peak : {forward, backward}) {
      EXPECT_TRUE(peak.finite);
      EXPECT_EQ(peak.max, 50.0f);
      EXPECT_EQ(peak.token, 300u) << part;
    }
  }
  logits[13] = -kInf;
  LogitPeak peak;
  peak.Add(kernels, std::span(logits).first(500), 0);
  peak.Add(kernels, std::span(logits).subspan(500), 500);
  EXPECT_FALSE(peak.finite);
}

TEST_P(EverySampler, DrawsWhatTheSpecificationDraws) {
  const std::vector<TokenCount> counts = {{3, 2, true}, {10, 0, true}, {77, 5, false}};
  const std::vector<TokenBias> bias = {{5, 4.0f}, {9, -kInf}};
  std::vector<uint64_t> allowed(313, 0xf0f0f0f0ff00ff0full);
  const std::vector<SampleSpec> specs = {
      {},
      {.temperature = 0.0f},
      {.temperature = 0.3f},
      {.temperature = 2.5f},
      {.top_k = 1},
      {.top_k = 40},
      {.top_k = 100000},
      {.top_p = 0.9f},
      {.top_p = 0.999f},
      {.top_p = 1e-6f},
      {.min_p = 0.05f},
      {.min_p = 1.0f},
      {.typical_p = 0.5f},
      {.top_k = 50, .top_p = 0.8f},
      {.temperature = 0.8f, .top_k = 60, .top_p = 0.95f, .min_p = 0.02f, .typical_p = 0.9f},
      {.top_k = 3, .min_p = 0.3f},
      {.top_k = 15, .top_p = 0.97f, .min_p = 0.0001f},
      {.top_p = 0.9f, .min_p = 0.01f},
      {.top_p = 0.9f, .typical_p = 0.7f},
      {.temperature = 30.0f, .top_p = 0.99f},
      {.temperature = 0.05f, .top_k = 18, .top_p = 0.99f},
      {.presence_penalty = 0.7f,
       .frequency_penalty = 0.4f,
       .repetition_penalty = 1.3f,
       .counts = counts},
      {.temperature = 0.0f, .bias = bias},
      {.top_p = 0.7f, .bias = bias, .allowed = allowed},
      {.top_k = 20, .repetition_penalty = 0.5f, .counts = counts, .allowed = allowed},
  };
  for (const uint32_t n : {80u, 1000u, 2500u, 20000u}) {
    for (const float spread : {0.5f, 8.0f, 60.0f}) {
      const std::vector<float> logits = Logits(n, spread, n);
      for (size_t s = 0; s < specs.size(); ++s) {
        for (uint64_t position = 0; position < (n < 20000 ? 12 : 3); ++position) {
          SampleSpec spec = specs[s];
          spec.seed = 99;
          spec.position = position;
          ASSERT_EQ(Sample(logits, spec).token, Reference(logits, spec).Draw())
              << "spec " << s << " of " << n << " tokens, spread " << spread;
        }
      }
    }
  }
}

// Ties in value are everywhere when logits come from coarse weights.
TEST_P(EverySampler, BreaksTiesByLowestIdAsTheSpecificationDoes) {
  std::vector<float> logits = Logits(1500, 10.0f, 4);
  for (float& l : logits) {
    l = std::round(l);
  }
  for (uint64_t position = 0; position < 50; ++position) {
    for (const SampleSpec& base :
         {SampleSpec{.temperature = 0.0f}, SampleSpec{.top_k = 7}, SampleSpec{.top_p = 0.6f},
          SampleSpec{.typical_p = 0.4f}, SampleSpec{.top_k = 300, .top_p = 0.5f}}) {
      SampleSpec spec = base;
      spec.position = position;
      ASSERT_EQ(Sample(logits, spec).token, Reference(logits, spec).Draw());
    }
  }
}

// Exact draws: chi-square against the probabilities, 63 degrees of freedom; its 99.9 % point is
// 103.
TEST_P(EverySampler, DrawsInProportionToTheWeights) {
  const std::vector<float> logits = Logits(64, 4.0f, 8);
  double sum = 0.0;
  for (const float l : logits) {
    sum += std::exp(static_cast<double>(l));
  }
  constexpr int kDraws = 40000;
  std::vector<int> counts(64, 0);
  for (int i = 0; i < kDraws; ++i) {
    const SampleSpec spec{
        .seed = 7, .choice = static_cast<uint32_t>(i % 3), .position = static_cast<uint64_t>(i)};
    ++counts[static_cast<size_t>(Sample(logits, spec).token)];
  }
  double chi_square = 0.0;
  for (size_t i = 0; i < 64; ++i) {
    const double expected = kDraws * std::exp(static_cast<double>(logits[i])) / sum;
    chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  EXPECT_LT(chi_square, 103.0);
  EXPECT_GT(chi_square, 33.0);  // the 0.1 % point: too even isn't random either
}

TEST_P(EverySampler, ReportsLogprobsOfTheRawLogits) {
  const std::vector<float> logits = Logits(3000, 12.0f, 21);
  double sum = 0.0;
  for (const float l : logits) {
    sum += std::exp(static_cast<double>(l));
  }
  const std::vector<TokenBias> bias = {{1234, 100.0f}};
  const SampleResult result =
      Sample(logits, {.temperature = 0.5f, .bias = bias, .top_logprobs = 20});
  EXPECT_EQ(result.token, 1234);
  EXPECT_NEAR(result.logprob, logits[1234] - std::log(sum), 1e-5);
  std::vector<int32_t> order(3000);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](int32_t a, int32_t b) {
    return spec::RanksBefore(logits[static_cast<size_t>(a)], a, logits[static_cast<size_t>(b)], b);
  });
  ASSERT_EQ(result.top.size(), 20u);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(result.top[i].token, order[i]);
    EXPECT_NEAR(result.top[i].logprob, logits[static_cast<size_t>(order[i])] - std::log(sum), 1e-5);
  }
  EXPECT_EQ(order[result.rank - 1], 1234);
}

TEST_P(EverySampler, ScoresAGivenTokenAndDrawsNothing) {
  const std::vector<float> logits = {1.0f, 3.0f, 3.0f, -2.0f};
  const SampleResult result = Sample(logits, {.score_token = 2, .top_logprobs = 2});
  EXPECT_EQ(result.token, 2);
  EXPECT_EQ(result.rank, 2u) << "after token 1, which is equal and has the lower id";
  ASSERT_EQ(result.top.size(), 2u);
  EXPECT_EQ(result.top[0].token, 1);
  EXPECT_EQ(result.top[1].token, 2);
  EXPECT_EQ(result.logprob, result.top[1].logprob);
  EXPECT_EQ(Sample(logits, {.score_token = 0, .top_logprobs = -1}).rank, 3u);
}

TEST_P(EverySampler, DrawsNothingWhereNothingIsLeft) {
  const std::vector<float> logits = Logits(100, 5.0f, 3);
  const std::vector<uint64_t> nothing(2, 0);
  EXPECT_EQ(Sample(logits, {.allowed = nothing}).token, -1);
  EXPECT_EQ(Sample(logits, {.temperature = 0.0f, .allowed = nothing}).token, -1);
  for (const float bad : {std::nanf(""), kInf, -kInf}) {
    std::vector<float> broken = logits;
    broken[50] = bad;
    EXPECT_EQ(Sample(broken, {}).token, -1);
    EXPECT_EQ(Sample(broken, {.temperature = 0.0f, .top_logprobs = 3}).token, -1);
    EXPECT_EQ(Sample(broken, {.score_token = 3}).token, -1);
  }
}

TEST_P(EverySampler, KeepsWhatASingleAllowedTokenIs) {
  const std::vector<float> logits = Logits(1000, 50.0f, 3);
  std::vector<uint64_t> allowed(16, 0);
  allowed[700 / 64] = uint64_t{1} << (700 % 64);
  for (const SampleSpec& base :
       {SampleSpec{}, SampleSpec{.temperature = 0.0f}, SampleSpec{.top_k = 5},
        SampleSpec{.top_p = 0.1f}, SampleSpec{.min_p = 0.5f}, SampleSpec{.typical_p = 0.2f}}) {
    SampleSpec spec = base;
    spec.allowed = allowed;
    EXPECT_EQ(Sample(logits, spec).token, 700);
  }
}

// The cuts drop tokens of weight 0 first; that changes nothing as long as none of them ranks before
// a token that weighs something. Weights reach 0 near 27.7 nats.
TEST(SampleWeight, ReachesZeroOnceAndStaysThere) {
  bool zero = false;
  for (float x = -27.7f; x > -27.8f; x = std::nextafter(x, -100.0f)) {
    const bool here = spec::SampleWeight(x, 0.0f) == 0;
    EXPECT_TRUE(here || !zero) << x;
    zero = here;
  }
  EXPECT_TRUE(zero);
}

}  // namespace
}  // namespace fak::tensor::cpu
