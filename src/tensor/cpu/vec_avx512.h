#pragma once

// gcc 12 warns of its own undefined operands once they are inlined.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <cstdint>

#include "tensor/cpu/vec.h"

// See vec.h. AVX-512 F, BW, DQ, VL and VNNI.
namespace fak::tensor::cpu::avx512 {

inline constexpr int kLanes = 16;

struct I32 {
  using Element = int32_t;
  static FAK_VEC I32 Zero() { return {_mm512_setzero_si512()}; }
  static FAK_VEC I32 Splat(int32_t x) { return {_mm512_set1_epi32(x)}; }
  static FAK_VEC I32 Load(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
  FAK_VEC void Store(int32_t* p) const { _mm512_storeu_si512(p, v); }
  FAK_VEC void StoreLowBytes(int8_t* p) const {
    const __m128i bytes = _mm512_cvtepi32_epi8(v);
    __builtin_memcpy(p, &bytes, sizeof bytes);
  }
  __m512i v;
};

FAK_VEC I32 Add(I32 a, I32 b) {
  return {_mm512_add_epi32(a.v, b.v)};
}
FAK_VEC I32 Sub(I32 a, I32 b) {
  return {_mm512_sub_epi32(a.v, b.v)};
}
FAK_VEC I32 Mul(I32 a, I32 b) {
  return {_mm512_mullo_epi32(a.v, b.v)};
}
FAK_VEC I32 Max(I32 a, I32 b) {
  return {_mm512_max_epi32(a.v, b.v)};
}
FAK_VEC I32 And(I32 a, I32 b) {
  return {_mm512_and_si512(a.v, b.v)};
}
FAK_VEC I32 Or(I32 a, I32 b) {
  return {_mm512_or_si512(a.v, b.v)};
}
FAK_VEC I32 Xor(I32 a, I32 b) {
  return {_mm512_xor_si512(a.v, b.v)};
}
template <int kCount>
FAK_VEC I32 ShiftLeft(I32 a) {
  return {_mm512_slli_epi32(a.v, kCount)};
}
template <int kCount>
FAK_VEC I32 ShiftRight(I32 a) {
  return {_mm512_srli_epi32(a.v, kCount)};
}
template <int kCount>
FAK_VEC I32 ShiftRightSigned(I32 a) {
  return {_mm512_srai_epi32(a.v, kCount)};
}

struct F32 {
  using Element = float;
  static FAK_VEC F32 Zero() { return {_mm512_setzero_ps()}; }
  static FAK_VEC F32 Splat(float x) { return {_mm512_set1_ps(x)}; }
  static FAK_VEC F32 Load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static FAK_VEC F32 LoadF16(const uint16_t* p) {
    __m256i half;
    __builtin_memcpy(&half, p, sizeof half);
    return {_mm512_cvtph_ps(half)};
  }
  static FAK_VEC F32 LoadBf16(const uint16_t* p) {
    __m256i half;
    __builtin_memcpy(&half, p, sizeof half);
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))};
  }
  FAK_VEC void Store(float* p) const { _mm512_storeu_ps(p, v); }
  FAK_VEC void StoreF16(uint16_t* p) const {
    const __m256i half = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __builtin_memcpy(p, &half, sizeof half);
  }
  // By integers: the BF16 instructions flush denormals.
  FAK_VEC void StoreBf16(uint16_t* p) const {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __m256i half =
        _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_mov_epi32(up, nan, quiet), 16));
    __builtin_memcpy(p, &half, sizeof half);
  }
  __m512 v;
};

FAK_VEC F32 Add(F32 a, F32 b) {
  return {_mm512_add_ps(a.v, b.v)};
}
FAK_VEC F32 Sub(F32 a, F32 b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
FAK_VEC F32 Mul(F32 a, F32 b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
FAK_VEC F32 Div(F32 a, F32 b) {
  return {_mm512_div_ps(a.v, b.v)};
}
FAK_VEC F32 Max(F32 a, F32 b) {
  return {_mm512_max_ps(a.v, b.v)};
}
FAK_VEC F32 Sqrt(F32 a) {
  return {_mm512_sqrt_ps(a.v)};
}
FAK_VEC F32 Fma(F32 a, F32 b, F32 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
FAK_VEC F32 SelectLess(F32 a, F32 b, F32 t, F32 f) {
  return {_mm512_mask_mov_ps(f.v, _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), t.v)};
}
FAK_VEC I32 Bits(F32 a) {
  return {_mm512_castps_si512(a.v)};
}
FAK_VEC F32 Float(I32 a) {
  return {_mm512_castsi512_ps(a.v)};
}
FAK_VEC F32 ToFloat(I32 a) {
  return {_mm512_cvtepi32_ps(a.v)};
}

FAK_VEC void Prefetch(const void* p) {
  __builtin_prefetch(p);
}

#include "tensor/cpu/vec16.inl"

}  // namespace fak::tensor::cpu::avx512
