#pragma once

#include <immintrin.h>

#include <cstdint>

#include "tensor/cpu/vec.h"

// See vec.h. AVX2, FMA and F16C.
namespace fak::tensor::cpu::avx2 {

inline constexpr int kLanes = 8;

FAK_VEC __m256i LoadBits(const void* p) {
  __m256i v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
FAK_VEC __m128i LoadHalf(const void* p) {
  __m128i v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
FAK_VEC void StoreBits(void* p, __m256i v) {
  __builtin_memcpy(p, &v, sizeof v);
}
FAK_VEC void StoreHalf(void* p, __m128i v) {
  __builtin_memcpy(p, &v, sizeof v);
}

struct I32 {
  using Element = int32_t;
  static FAK_VEC I32 Zero() { return {_mm256_setzero_si256()}; }
  static FAK_VEC I32 Splat(int32_t x) { return {_mm256_set1_epi32(x)}; }
  static FAK_VEC I32 Load(const int32_t* p) { return {LoadBits(p)}; }
  FAK_VEC void Store(int32_t* p) const { StoreBits(p, v); }
  FAK_VEC void StoreLowBytes(int8_t* p) const {
    // The low bytes of each half to its first dword, then both dwords together.
    const __m256i pick =
        _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8, 12,
                         -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m256i low = _mm256_shuffle_epi8(v, pick);
    const __m128i both =
        _mm_unpacklo_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    const int64_t bytes = _mm_cvtsi128_si64(both);
    __builtin_memcpy(p, &bytes, sizeof bytes);
  }
  __m256i v;
};

FAK_VEC I32 Add(I32 a, I32 b) {
  return {_mm256_add_epi32(a.v, b.v)};
}
FAK_VEC I32 Sub(I32 a, I32 b) {
  return {_mm256_sub_epi32(a.v, b.v)};
}
FAK_VEC I32 Mul(I32 a, I32 b) {
  return {_mm256_mullo_epi32(a.v, b.v)};
}
FAK_VEC I32 Max(I32 a, I32 b) {
  return {_mm256_max_epi32(a.v, b.v)};
}
FAK_VEC I32 And(I32 a, I32 b) {
  return {_mm256_and_si256(a.v, b.v)};
}
FAK_VEC I32 Or(I32 a, I32 b) {
  return {_mm256_or_si256(a.v, b.v)};
}
FAK_VEC I32 Xor(I32 a, I32 b) {
  return {_mm256_xor_si256(a.v, b.v)};
}
template <int kCount>
FAK_VEC I32 ShiftLeft(I32 a) {
  return {_mm256_slli_epi32(a.v, kCount)};
}
template <int kCount>
FAK_VEC I32 ShiftRight(I32 a) {
  return {_mm256_srli_epi32(a.v, kCount)};
}
template <int kCount>
FAK_VEC I32 ShiftRightSigned(I32 a) {
  return {_mm256_srai_epi32(a.v, kCount)};
}

struct F32 {
  using Element = float;
  static FAK_VEC F32 Zero() { return {_mm256_setzero_ps()}; }
  static FAK_VEC F32 Splat(float x) { return {_mm256_set1_ps(x)}; }
  static FAK_VEC F32 Load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static FAK_VEC F32 LoadF16(const uint16_t* p) { return {_mm256_cvtph_ps(LoadHalf(p))}; }
  static FAK_VEC F32 LoadBf16(const uint16_t* p) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(LoadHalf(p)), 16))};
  }
  FAK_VEC void Store(float* p) const { _mm256_storeu_ps(p, v); }
  FAK_VEC void StoreF16(uint16_t* p) const {
    StoreHalf(p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  FAK_VEC void StoreBf16(uint16_t* p) const {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i half = _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, nan), 16);
    StoreHalf(p, _mm_packus_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)));
  }
  __m256 v;
};

FAK_VEC F32 Add(F32 a, F32 b) {
  return {_mm256_add_ps(a.v, b.v)};
}
FAK_VEC F32 Sub(F32 a, F32 b) {
  return {_mm256_sub_ps(a.v, b.v)};
}
FAK_VEC F32 Mul(F32 a, F32 b) {
  return {_mm256_mul_ps(a.v, b.v)};
}
FAK_VEC F32 Div(F32 a, F32 b) {
  return {_mm256_div_ps(a.v, b.v)};
}
FAK_VEC F32 Max(F32 a, F32 b) {
  return {_mm256_max_ps(a.v, b.v)};
}
FAK_VEC F32 Sqrt(F32 a) {
  return {_mm256_sqrt_ps(a.v)};
}
FAK_VEC F32 Fma(F32 a, F32 b, F32 c) {
  return {_mm256_fmadd_ps(a.v, b.v, c.v)};
}
FAK_VEC F32 SelectLess(F32 a, F32 b, F32 t, F32 f) {
  return {_mm256_blendv_ps(f.v, t.v, _mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ))};
}
FAK_VEC I32 Bits(F32 a) {
  return {_mm256_castps_si256(a.v)};
}
FAK_VEC F32 Float(I32 a) {
  return {_mm256_castsi256_ps(a.v)};
}
FAK_VEC F32 ToFloat(I32 a) {
  return {_mm256_cvtepi32_ps(a.v)};
}

FAK_VEC void Prefetch(const void* p) {
  __builtin_prefetch(p);
}

#include "tensor/cpu/vec16.inl"

}  // namespace fak::tensor::cpu::avx2
