#pragma once

#include <cstdint>

#include "tensor/spec/scalar.h"

// Rule 3: sums over a row in 16 lanes and a tree, and RMSNorm.
namespace fak::tensor::spec {

inline constexpr int kLanes = 16;
inline constexpr int kChunk = 512;  // elements of a row that are summed before chunks are added

// a[i] = l[i] + l[i + 8]; b[i] = a[i] + a[i + 4]; (b0 + b2) + (b1 + b3).
FAK_HD inline float Tree16(const float* lanes) {
  float a[8];
  for (int i = 0; i < 8; ++i) {
    a[i] = lanes[i] + lanes[i + 8];
  }
  float b[4];
  for (int i = 0; i < 4; ++i) {
    b[i] = a[i] + a[i + 4];
  }
  return (b[0] + b[2]) + (b[1] + b[3]);
}

// Lane i mod 16 takes element i, in index order, from +0; then the tree.
FAK_HD inline float LaneSum(const float* x, int64_t n) {
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) {
    lanes[i % kLanes] = lanes[i % kLanes] + x[i];
  }
  return Tree16(lanes);
}

FAK_HD inline float LaneSumOfSquares(const float* x, int64_t n) {
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) {
    lanes[i % kLanes] = Fma(x[i], x[i], lanes[i % kLanes]);
  }
  return Tree16(lanes);
}

FAK_HD inline float SumOfSquares(const float* x, int64_t n) {
  float total = 0.0f;
  for (int64_t first = 0; first < n; first += kChunk) {
    const int64_t count = n - first < kChunk ? n - first : kChunk;
    total = total + LaneSumOfSquares(x + first, count);
  }
  return total;
}

// y = (x · r) · weight, r = 1 / sqrt(sum of squares / n + eps). Also the norm of one head's q or k
// (n = its dim). y may be x. n < 2^24.
FAK_HD inline void RmsNorm(const float* x, const float* weight, int64_t n, float eps, float* y) {
  const float mean = SumOfSquares(x, n) / static_cast<float>(n);
  const float r = 1.0f / Sqrt(mean + eps);
  for (int64_t i = 0; i < n; ++i) {
    y[i] = (x[i] * r) * weight[i];
  }
}

}  // namespace fak::tensor::spec
