#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/spec/scalar.h"

// Rule 4: activations to int8, row by row, in blocks of 256 or 32.
namespace fak::tensor::spec {

// Consecutive activations under one scale, for a quantised weight type: 256 for those with blocks
// of 256, else 32.
FAK_HD constexpr int ActivationBlock(DType type) {
  switch (type) {
    case DType::kQ2K:
    case DType::kQ3K:
    case DType::kQ4K:
    case DType::kQ5K:
    case DType::kQ6K:
    case DType::kIq4Xs: return 256;
    default: return 32;
  }
}

// One block of n values: writes q[0..n), returns the scale. A block that holds a non-finite value
// gets scale NaN, so that every output that used it is NaN.
FAK_HD inline float QuantiseBlock(const float* x, int64_t n, int8_t* q) {
  uint32_t amax_bits = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t magnitude = MagnitudeBits(x[i]);
    amax_bits = magnitude > amax_bits ? magnitude : amax_bits;
  }
  const bool tiny = amax_bits < 0x0d800000u;  // 2^-100
  if (tiny || amax_bits >= kExponentBits) {
    for (int64_t i = 0; i < n; ++i) {
      q[i] = 0;
    }
    return tiny ? 0.0f : FloatOf(kQuietNanBits);
  }
  const float amax = FloatOf(amax_bits);
  const float inverse = 127.0f / amax;
  for (int64_t i = 0; i < n; ++i) {
    q[i] = static_cast<int8_t>(static_cast<uint8_t>(BitsOf(Fma(x[i], inverse, kMagic)) & 0xffu));
  }
  return amax / 127.0f;
}

// A row: q[0..n) and one scale a block; the last block may be shorter.
FAK_HD inline void QuantiseRow(const float* x, int64_t n, int block, int8_t* q, float* scales) {
  for (int64_t first = 0; first < n; first += block) {
    const int64_t count = n - first < block ? n - first : block;
    scales[first / block] = QuantiseBlock(x + first, count, q + first);
  }
}

}  // namespace fak::tensor::spec
