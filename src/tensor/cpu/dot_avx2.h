#pragma once

#include "tensor/cpu/vec_avx2.h"

// See matmul_kernels.inl: integer dot products by vpmaddubsw, whose 16-bit sums must not saturate.
namespace fak::tensor::cpu::avx2 {

// Native vectors of weights and rows of activations in a tile.
inline constexpr int kTileStreams = 1;
inline constexpr int kTileRows = 4;
// Up to so many rows are computed without unpacking weights into memory first.
inline constexpr uint32_t kFewRows = 4;
// Groups of 4 products that a sum takes before another row has its turn (DotRows).
inline constexpr int kGroupsAtOnce = 4;
// Panels that one row of activations meets at once: memory gives more to several streams.
inline constexpr uint32_t kPanelsAtOnce = 2;
// How far ahead of the weights in use a few rows ask for more.
inline constexpr int kBytesAhead = 2048;
// Panels and rows of a tile of float weights.
inline constexpr int kFloatPanels = 1;
inline constexpr int kFloatRows = 4;

struct Bytes {
  static FAK_VEC Bytes Load(const std::byte* p) { return {LoadBits(p)}; }
  static FAK_VEC Bytes Splat(int x) { return {_mm256_set1_epi8(static_cast<char>(x))}; }
  FAK_VEC void Store(std::byte* p) const { StoreBits(p, v); }
  __m256i v;
};
FAK_VEC Bytes And(Bytes a, Bytes b) {
  return {_mm256_and_si256(a.v, b.v)};
}
FAK_VEC Bytes OrAnd(Bytes a, Bytes b, Bytes mask) {
  return {_mm256_or_si256(a.v, _mm256_and_si256(b.v, mask.v))};
}
template <int kCount>
FAK_VEC Bytes Shift(Bytes a) {
  if constexpr (kCount > 0) {
    return {_mm256_slli_epi32(a.v, kCount)};
  } else if constexpr (kCount < 0) {
    return {_mm256_srli_epi32(a.v, -kCount)};
  } else {
    return a;
  }
}

// |w| · (x with w's sign). -128 is 128 as an unsigned byte, so nothing is lost; 2 · 128 · 127 fits.
struct SignedBytes {
  static constexpr int kOffset = 0;
  static FAK_VEC SignedBytes Of(Bytes w) { return {w}; }
  static FAK_VEC SignedBytes Load(const std::byte* p) { return {Bytes::Load(p)}; }
  FAK_VEC void Store(std::byte* p) const { value.Store(p); }
  Bytes value;
};

FAK_VEC SignedBytes Lookup(const int8_t (&table)[16], Bytes index) {
  return {{_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(LoadHalf(table)), index.v)}};
}

FAK_VEC __m256i SplatFour(const int8_t* x) {
  int32_t four;
  __builtin_memcpy(&four, x, sizeof four);
  return _mm256_set1_epi32(four);
}

// As many pairs of products as 16 bits hold are summed before they are widened.
template <int kGroups, int kMax>
FAK_VEC I32 Dot(const Bytes* w, const int8_t* x, I32 sum) {
  constexpr int kFit = 32767 / (2 * 127 * kMax);
  constexpr int kRun = kFit < kGroups ? kFit : kGroups;
  static_assert(kGroups % kRun == 0);
  FAK_UNROLL
  for (int first = 0; first < kGroups; first += kRun) {
    __m256i pairs = _mm256_maddubs_epi16(w[first].v, SplatFour(x + 4 * first));
    FAK_UNROLL
    for (int i = 1; i < kRun; ++i) {
      const int g = first + i;
      pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(w[g].v, SplatFour(x + 4 * g)));
    }
    sum.v = _mm256_add_epi32(sum.v, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  return sum;
}
template <int kGroups, int kMax>
FAK_VEC I32 Dot(const SignedBytes* w, const int8_t* x, I32 sum) {
  FAK_UNROLL
  for (int g = 0; g < kGroups; ++g) {
    const __m256i magnitude = _mm256_abs_epi8(w[g].value.v);
    const __m256i signed_x = _mm256_sign_epi8(SplatFour(x + 4 * g), w[g].value.v);
    const __m256i pairs = _mm256_maddubs_epi16(magnitude, signed_x);
    sum.v = _mm256_add_epi32(sum.v, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  return sum;
}

FAK_VEC I32 DotPairs(I32 a, I32 b, I32 sum) {
  return {_mm256_add_epi32(sum.v, _mm256_madd_epi16(a.v, b.v))};
}

}  // namespace fak::tensor::cpu::avx2
