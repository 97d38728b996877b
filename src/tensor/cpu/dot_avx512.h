#pragma once

#include "tensor/cpu/vec_avx512.h"

// See matmul_kernels.inl: integer dot products with VNNI.
namespace fak::tensor::cpu::avx512 {

// Native vectors of weights and rows of activations in a tile.
inline constexpr int kTileStreams = 2;
inline constexpr int kTileRows = 4;
// Up to so many rows are computed without unpacking weights into memory first.
inline constexpr uint32_t kFewRows = 4;
// Groups of 4 products that a sum takes before another row has its turn (DotRows).
inline constexpr int kGroupsAtOnce = 1;
// Panels that one row of activations meets at once: memory gives more to several streams.
inline constexpr uint32_t kPanelsAtOnce = 4;
// How far ahead of the weights in use a few rows ask for more.
inline constexpr int kBytesAhead = 2048;
// Panels and rows of a tile of float weights.
inline constexpr int kFloatPanels = 2;
inline constexpr int kFloatRows = 8;

struct Bytes {
  static FAK_VEC Bytes Load(const std::byte* p) { return {_mm512_loadu_si512(p)}; }
  static FAK_VEC Bytes Splat(int x) { return {_mm512_set1_epi8(static_cast<char>(x))}; }
  FAK_VEC void Store(std::byte* p) const { _mm512_storeu_si512(p, v); }
  __m512i v;
};
FAK_VEC Bytes And(Bytes a, Bytes b) {
  return {_mm512_and_si512(a.v, b.v)};
}
// a | (b & mask)
FAK_VEC Bytes OrAnd(Bytes a, Bytes b, Bytes mask) {
  return {_mm512_ternarylogic_epi32(a.v, b.v, mask.v, 0xf8)};
}
template <int kCount>  // to the left, or by -kCount to the right; of whole lanes
FAK_VEC Bytes Shift(Bytes a) {
  if constexpr (kCount > 0) {
    return {_mm512_slli_epi32(a.v, kCount)};
  } else if constexpr (kCount < 0) {
    return {_mm512_srli_epi32(a.v, -kCount)};
  } else {
    return a;
  }
}

// The instruction takes unsigned times signed: signed weights get 128 added, and sums that they
// enter start at -128 Σ x.
struct SignedBytes {
  static constexpr int kOffset = 128;
  static FAK_VEC SignedBytes Of(Bytes w) {
    return {{_mm512_xor_si512(w.v, _mm512_set1_epi8(-128))}};
  }
  static FAK_VEC SignedBytes Load(const std::byte* p) { return {Bytes::Load(p)}; }
  FAK_VEC void Store(std::byte* p) const { offset.Store(p); }
  Bytes offset;
};

// Signed bytes table[index], index < 16.
FAK_VEC SignedBytes Lookup(const int8_t (&table)[16], Bytes index) {
  __m128i row;
  __builtin_memcpy(&row, table, sizeof row);
  return SignedBytes::Of({_mm512_shuffle_epi8(_mm512_broadcast_i32x4(row), index.v)});
}

FAK_VEC __m512i SplatFour(const int8_t* x) {
  int32_t four;
  __builtin_memcpy(&four, x, sizeof four);
  return _mm512_set1_epi32(four);
}

template <int kGroups, int kMax>
FAK_VEC I32 Dot(const Bytes* w, const int8_t* x, I32 sum) {
  FAK_UNROLL
  for (int g = 0; g < kGroups; ++g) {
    sum.v = _mm512_dpbusd_epi32(sum.v, w[g].v, SplatFour(x + 4 * g));
  }
  return sum;
}
template <int kGroups, int kMax>
FAK_VEC I32 Dot(const SignedBytes* w, const int8_t* x, I32 sum) {
  FAK_UNROLL
  for (int g = 0; g < kGroups; ++g) {
    sum.v = _mm512_dpbusd_epi32(sum.v, w[g].offset.v, SplatFour(x + 4 * g));
  }
  return sum;
}

// sum + a.low16 · b.low16 + a.high16 · b.high16, signed.
FAK_VEC I32 DotPairs(I32 a, I32 b, I32 sum) {
  return {_mm512_dpwssd_epi32(sum.v, a.v, b.v)};
}

}  // namespace fak::tensor::cpu::avx512
