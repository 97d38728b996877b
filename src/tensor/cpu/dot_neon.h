#pragma once

#include "tensor/cpu/vec_neon.h"

// See matmul_kernels.inl: integer dot products with SDOT, or by widening products without it.
namespace fak::tensor::cpu::FAK_NEON {

// Native vectors of weights and rows of activations in a tile.
inline constexpr int kTileStreams = 2;
inline constexpr int kTileRows = 4;
// Up to so many rows are computed without unpacking weights into memory first.
inline constexpr uint32_t kFewRows = 4;
// Groups of 4 products that a sum takes before another row has its turn (DotRows).
inline constexpr int kGroupsAtOnce = 4;
// Panels that one row of activations meets at once: memory gives more to several streams.
inline constexpr uint32_t kPanelsAtOnce = 1;
// How far ahead of the weights in use a few rows ask for more.
inline constexpr int kBytesAhead = 2048;
// Panels and rows of a tile of float weights.
inline constexpr int kFloatPanels = 1;
inline constexpr int kFloatRows = 4;

struct Bytes {
  static FAK_VEC Bytes Load(const std::byte* p) {
    return {vld1q_u8(reinterpret_cast<const uint8_t*>(p))};
  }
  static FAK_VEC Bytes Splat(int x) { return {vdupq_n_u8(static_cast<uint8_t>(x))}; }
  FAK_VEC void Store(std::byte* p) const { vst1q_u8(reinterpret_cast<uint8_t*>(p), v); }
  uint8x16_t v;
};
FAK_VEC Bytes And(Bytes a, Bytes b) {
  return {vandq_u8(a.v, b.v)};
}
FAK_VEC Bytes OrAnd(Bytes a, Bytes b, Bytes mask) {
  return {vorrq_u8(a.v, vandq_u8(b.v, mask.v))};
}
template <int kCount>
FAK_VEC Bytes Shift(Bytes a) {
  const uint32x4_t lanes = vreinterpretq_u32_u8(a.v);
  if constexpr (kCount > 0) {
    return {vreinterpretq_u8_u32(vshlq_n_u32(lanes, kCount))};
  } else if constexpr (kCount < 0) {
    return {vreinterpretq_u8_u32(vshrq_n_u32(lanes, -kCount))};
  } else {
    return a;
  }
}

struct SignedBytes {
  static constexpr int kOffset = 0;
  static FAK_VEC SignedBytes Of(Bytes w) { return {w}; }
  static FAK_VEC SignedBytes Load(const std::byte* p) { return {Bytes::Load(p)}; }
  FAK_VEC void Store(std::byte* p) const { value.Store(p); }
  Bytes value;
};

FAK_VEC SignedBytes Lookup(const int8_t (&table)[16], Bytes index) {
  return {{vreinterpretq_u8_s8(vqtbl1q_s8(vld1q_s8(table), index.v))}};
}

FAK_VEC int8x16_t Raw(Bytes w) {
  return vreinterpretq_s8_u8(w.v);
}
FAK_VEC int8x16_t Raw(SignedBytes w) {
  return vreinterpretq_s8_u8(w.value.v);
}

// Unsigned weights are below 128, so that signed products serve both.
template <int kGroups, int kMax, class W>
FAK_VEC I32 DotBytes(const W* w, const int8_t* x, I32 sum) {
#ifdef __ARM_FEATURE_DOTPROD
  FAK_UNROLL
  for (int g = 0; g < kGroups; g += 4) {
    const int8x16_t four = vld1q_s8(x + 4 * g);
    sum.v = vdotq_laneq_s32(sum.v, Raw(w[g]), four, 0);
    sum.v = vdotq_laneq_s32(sum.v, Raw(w[g + 1]), four, 1);
    sum.v = vdotq_laneq_s32(sum.v, Raw(w[g + 2]), four, 2);
    sum.v = vdotq_laneq_s32(sum.v, Raw(w[g + 3]), four, 3);
  }
#else
  // As many products as 16 bits hold are summed before they are widened.
  constexpr int kFit = 32767 / (127 * kMax);
  constexpr int kRun = kFit < kGroups ? kFit : kGroups;
  static_assert(kGroups % kRun == 0);
  FAK_UNROLL
  for (int first = 0; first < kGroups; first += kRun) {
    int16x8_t low = vdupq_n_s16(0);
    int16x8_t high = vdupq_n_s16(0);
    FAK_UNROLL
    for (int i = 0; i < kRun; ++i) {
      const int g = first + i;
      int32_t four;
      __builtin_memcpy(&four, x + 4 * g, sizeof four);
      const int8x16_t splat = vreinterpretq_s8_s32(vdupq_n_s32(four));
      const int8x16_t weights = Raw(w[g]);
      low = vmlal_s8(low, vget_low_s8(weights), vget_low_s8(splat));
      high = vmlal_high_s8(high, weights, splat);
    }
    sum.v = vaddq_s32(sum.v, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
  }
#endif
  return sum;
}
template <int kGroups, int kMax>
FAK_VEC I32 Dot(const Bytes* w, const int8_t* x, I32 sum) {
  return DotBytes<kGroups, kMax>(w, x, sum);
}
template <int kGroups, int kMax>
FAK_VEC I32 Dot(const SignedBytes* w, const int8_t* x, I32 sum) {
  return DotBytes<kGroups, 128>(w, x, sum);
}

FAK_VEC I32 DotPairs(I32 a, I32 b, I32 sum) {
  const int16x8_t x = vreinterpretq_s16_s32(a.v);
  const int16x8_t y = vreinterpretq_s16_s32(b.v);
  const int32x4_t low = vmull_s16(vget_low_s16(x), vget_low_s16(y));
  return {vaddq_s32(sum.v, vpaddq_s32(low, vmull_high_s16(x, y)))};
}

}  // namespace fak::tensor::cpu::FAK_NEON
