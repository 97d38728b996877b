#pragma once

#include <cstdint>

#include "tensor/spec/functions.h"
#include "tensor/spec/functions64.h"
#include "tensor/spec/router.h"
#include "tensor/spec/scalar.h"

// From a row of logits to a token: integer weights, so that every sum is exact in any order. The
// order of the steps is in docs/formats/numerics.md "Sampling".
namespace fak::tensor::spec {

inline constexpr uint64_t kWeightOne = uint64_t{1} << 40;  // weight of the likeliest token

// floor(exp(logit − max) · 2^40). max is MaxOf the row; a logit of -inf weighs 0,
// NaN never gets here (rule 2).
FAK_HD inline uint64_t SampleWeight(float logit, float max) {
  return static_cast<uint64_t>(Exp(logit - max) * 0x1p40f);
}

FAK_HD inline uint64_t WeightSum(const float* logits, int64_t n, float max) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    sum += SampleWeight(logits[i], max);
  }
  return sum;
}

// Penalties on one logit of a token that occurred: repetition (in prompt or output), then frequency
// times its occurrences in the output, then presence if there were any.
FAK_HD inline float Penalise(float logit, float repetition, float frequency, float presence,
                             uint32_t in_output) {
  float x = logit > 0.0f ? logit / repetition : logit * repetition;
  if (in_output > 0) {
    x = Fma(-frequency, static_cast<float>(in_output), x);
    x = x - presence;
  }
  return x;
}

// min_p: tokens that weigh less than this are dropped; the likeliest weighs kWeightOne.
FAK_HD inline uint64_t MinPThreshold(float min_p) {
  return static_cast<uint64_t>(min_p * 0x1p40f);
}

// top_p, typical_p (0 < p < 1): tokens are taken in rank order until their weights sum to this or
// more. total is the weight of all that were left.
FAK_HD inline uint64_t MassTarget(float p, uint64_t total) {
  return static_cast<uint64_t>(static_cast<double>(p) * static_cast<double>(total));
}

// The draw: the token (ids ascending among those left) at which the running sum of weights first
// exceeds this, floor(bits · total / 2^64).
FAK_HD inline uint64_t DrawTarget(uint64_t bits, uint64_t total) {
  const uint64_t a = bits >> 32;
  const uint64_t b = bits & 0xffffffffu;
  const uint64_t c = total >> 32;
  const uint64_t d = total & 0xffffffffu;
  const uint64_t middle = ((b * d) >> 32) + ((a * d) & 0xffffffffu) + ((b * c) & 0xffffffffu);
  return a * c + ((a * d) >> 32) + ((b * c) >> 32) + (middle >> 32);
}

// log(Σ exp(logits)) of the raw logits, from their exact weights: max + ln(sum) − 40 ln 2.
FAK_HD inline double LogSumExp(float max, uint64_t weight_sum) {
  const double whole = Log64(static_cast<double>(weight_sum));
  return static_cast<double>(max) + Fma(-40.0, kLn2, whole);
}

// A token's log probability, rounded once to f32.
FAK_HD inline float LogProb(float logit, double log_sum_exp) {
  return static_cast<float>(static_cast<double>(logit) - log_sum_exp);
}

// typical_p: how far a token's surprise, −logprob, is from the mean surprise. Tokens are ranked by
// this, least first, ties by lowest id. entropy: the chain over ids ascending of
// fma(weight, −logprob, ·) from +0, divided by the weights' sum, all in f64.
FAK_HD inline double EntropyStep(double chain, uint64_t weight, float logprob) {
  return weight == 0 ? chain
                     : Fma(static_cast<double>(weight), -static_cast<double>(logprob), chain);
}
FAK_HD inline double Atypicality(float logprob, double entropy) {
  const double gap = -static_cast<double>(logprob) - entropy;
  return gap < 0.0 ? -gap : gap;
}

}  // namespace fak::tensor::spec
