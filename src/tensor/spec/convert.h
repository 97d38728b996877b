#pragma once

#include <cstdint>

#include "tensor/spec/scalar.h"

// Rule 1: conversions, by integer arithmetic, so that they are the same where no instruction
// exists.
namespace fak::tensor::spec {

inline constexpr uint16_t kF16QuietNan = 0x7e00;
inline constexpr uint16_t kBf16QuietNan = 0x7fc0;

// Exact. NaN becomes a NaN.
FAK_HD inline float F16ToF32(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 31u;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 31) {
    return FloatOf(sign | kExponentBits | (mantissa << 13) | (mantissa != 0 ? 0x400000u : 0u));
  }
  if (exponent == 0) {
    // mantissa · 2^-24: both factors and the product are exact.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return FloatOf(sign | BitsOf(magnitude));
  }
  return FloatOf(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

// Nearest even. Results below 2^-14 are f16 denormals; from 65520 on infinite; NaN becomes a NaN.
FAK_HD inline uint16_t F32ToF16(float x) {
  const uint16_t sign = static_cast<uint16_t>((BitsOf(x) >> 16) & 0x8000u);
  const uint32_t magnitude = MagnitudeBits(x);
  if (magnitude > kExponentBits) {
    return static_cast<uint16_t>(sign | kF16QuietNan);
  }
  if (magnitude >= 0x477ff000u) {  // 65520
    return static_cast<uint16_t>(sign | 0x7c00u);
  }
  uint32_t whole = 0;              // the result, rounded down
  uint32_t rest = 0;               // what was cut off, in units of 1 / (2 · half)
  uint32_t one_half = 0;           // the middle between two results, in the same units
  if (magnitude >= 0x38800000u) {  // 2^-14
    whole = (magnitude - 0x38000000u) >> 13;
    rest = magnitude & 0x1fffu;
    one_half = 0x1000u;
  } else if (magnitude >= 0x33000000u) {             // 2^-25: smaller values round to zero
    const uint32_t shift = 126 - (magnitude >> 23);  // 14 to 24
    const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    whole = mantissa >> shift;
    rest = mantissa & ((1u << shift) - 1u);
    one_half = 1u << (shift - 1);
  }
  if (rest > one_half || (rest == one_half && (whole & 1u) != 0)) {
    ++whole;
  }
  return static_cast<uint16_t>(sign | whole);
}

// Exact.
FAK_HD inline float Bf16ToF32(uint16_t bits) {
  return FloatOf(static_cast<uint32_t>(bits) << 16);
}

// Nearest even, denormals kept; NaN becomes a NaN.
FAK_HD inline uint16_t F32ToBf16(float x) {
  const uint32_t bits = BitsOf(x);
  if (MagnitudeBits(x) > kExponentBits) {
    return static_cast<uint16_t>((bits >> 16) | kBf16QuietNan);
  }
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// Values on their way into f16 or bf16 KV. A finite value that is larger than the type's largest
// becomes the largest with its sign and counts as clamped: f16 beyond 65504, bf16 where rounding
// would make it infinite. Non-finite values convert as above; their row is an error (rule 2).
struct StoredKv {
  uint16_t bits;
  bool clamped;
};

FAK_HD inline StoredKv StoreKvF16(float x) {
  const uint32_t magnitude = MagnitudeBits(x);
  if (magnitude > 0x477fe000u && magnitude < kExponentBits) {  // 65504
    const uint32_t sign = (BitsOf(x) >> 16) & 0x8000u;
    return {static_cast<uint16_t>(sign | 0x7bffu), true};
  }
  return {F32ToF16(x), false};
}

FAK_HD inline StoredKv StoreKvBf16(float x) {
  const uint32_t magnitude = MagnitudeBits(x);
  if (magnitude >= 0x7f7f8000u && magnitude < kExponentBits) {
    const uint32_t sign = (BitsOf(x) >> 16) & 0x8000u;
    return {static_cast<uint16_t>(sign | 0x7f7fu), true};
  }
  return {F32ToBf16(x), false};
}

}  // namespace fak::tensor::spec
