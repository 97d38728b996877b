#pragma once

#include <cstdint>

#include "tensor/spec/functions.h"
#include "tensor/spec/reduce.h"
#include "tensor/spec/scalar.h"

// Rule 11: the choice among n values, and a mixture-of-experts layer's router.
namespace fak::tensor::spec {

// True if value a with id i ranks before value b with id j: larger first, ties (also -0 and +0) by
// lowest id.
FAK_HD inline bool RanksBefore(float a, int64_t i, float b, int64_t j) {
  return a > b || (a == b && i < j);
}

FAK_HD inline int64_t ArgMax(const float* x, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i) {
    best = x[i] > x[best] ? i : best;
  }
  return best;
}

// The largest value. Of two zeros it may be either: nothing that is made of it feels the
// difference.
FAK_HD inline float MaxOf(const float* x, int64_t n) {
  return x[ArgMax(x, n)];
}

// Writes the ids of the k first in rank order.
FAK_HD inline void TopK(const float* x, int64_t n, int64_t k, int32_t* ids) {
  for (int64_t rank = 0; rank < k; ++rank) {
    int64_t best = -1;
    for (int64_t i = 0; i < n; ++i) {
      const bool taken = rank > 0 && !RanksBefore(x[ids[rank - 1]], ids[rank - 1], x[i], i);
      if (!taken && (best < 0 || RanksBefore(x[i], i, x[best], best))) {
        best = i;
      }
    }
    ids[rank] = static_cast<int32_t>(best);
  }
}

// logits of all n experts -> the k chosen, in rank order, and their weights. normalise: the weights
// of the chosen are divided by their sum; scale multiplies them after that (1: left out).
FAK_HD inline void Route(const float* logits, int64_t n, int64_t k, bool normalise, float scale,
                         int32_t* ids, float* weights) {
  const float max = MaxOf(logits, n);
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) {
    lanes[i % kLanes] = lanes[i % kLanes] + Exp(logits[i] - max);
  }
  const float sum = Tree16(lanes);
  TopK(logits, n, k, ids);
  float chosen = 0.0f;
  for (int64_t rank = 0; rank < k; ++rank) {
    weights[rank] = Exp(logits[ids[rank]] - max) / sum;
    chosen = chosen + weights[rank];
  }
  for (int64_t rank = 0; rank < k; ++rank) {
    if (normalise) {
      weights[rank] = weights[rank] / chosen;
    }
    if (scale != 1.0f) {
      weights[rank] = weights[rank] * scale;
    }
  }
}

// The chosen experts' outputs are added in rank order, from +0, by this step.
FAK_HD inline float AddExpert(float sum, float weight, float y) {
  return Fma(weight, y, sum);
}

}  // namespace fak::tensor::spec
