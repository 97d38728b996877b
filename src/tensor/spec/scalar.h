#pragma once

#include <cstdint>
#include <cstring>

// Numerics, environment (docs/formats/numerics.md rules 0 and 2): the few operations that all other
// rules are written with. The headers of this folder are the specification in code: plain scalar
// loops, one function a rule, for the host and for CUDA devices. Never optimised; every kernel is
// compared with them.
#ifdef __FAST_MATH__
#error "fak's results are specified to the bit: build without -ffast-math"
#endif

#ifdef __CUDACC__
#define FAK_HD __host__ __device__
#else
#define FAK_HD
#endif

namespace fak::tensor::spec {

// 1.5 · 2^23. Adding it to |x| <= 2^22 rounds x to an integer, nearest even, in the low bits.
inline constexpr float kMagic = 12582912.0f;
// The same for doubles: 1.5 · 2^52.
inline constexpr double kMagic64 = 6755399441055744.0;

inline constexpr uint32_t kSignBit = 0x80000000u;
inline constexpr uint32_t kExponentBits = 0x7f800000u;
inline constexpr uint32_t kQuietNanBits = 0x7fc00000u;

FAK_HD inline uint32_t BitsOf(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

FAK_HD inline float FloatOf(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

FAK_HD inline uint64_t BitsOf(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

FAK_HD inline double DoubleOf(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// a · b + c with one rounding.
FAK_HD inline float Fma(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

FAK_HD inline double Fma(double a, double b, double c) {
#ifdef __CUDA_ARCH__
  return __fma_rn(a, b, c);
#else
  return __builtin_fma(a, b, c);
#endif
}

FAK_HD inline float Sqrt(float x) {
#ifdef __CUDA_ARCH__
  return __fsqrt_rn(x);
#else
  return __builtin_sqrtf(x);
#endif
}

// |x| by its bits: also of NaN, and never through a comparison.
FAK_HD inline uint32_t MagnitudeBits(float x) {
  return BitsOf(x) & ~kSignBit;
}

// Rule 2: infinite or NaN.
FAK_HD inline bool IsNonFinite(float x) {
  return (BitsOf(x) & kExponentBits) == kExponentBits;
}

FAK_HD inline bool RowIsFinite(const float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (IsNonFinite(x[i])) {
      return false;
    }
  }
  return true;
}

}  // namespace fak::tensor::spec
