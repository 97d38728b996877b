#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "tensor/cpu/vec.h"

// See vec.h. The baseline of AArch64; with the dot product instructions, where the translation
// unit is compiled for them, under another name.
#ifdef __ARM_FEATURE_DOTPROD
#define FAK_NEON neon_dotprod
#else
#define FAK_NEON neon
#endif
namespace fak::tensor::cpu::FAK_NEON {

inline constexpr int kLanes = 4;

struct I32 {
  using Element = int32_t;
  static FAK_VEC I32 Zero() { return {vdupq_n_s32(0)}; }
  static FAK_VEC I32 Splat(int32_t x) { return {vdupq_n_s32(x)}; }
  static FAK_VEC I32 Load(const int32_t* p) { return {vld1q_s32(p)}; }
  FAK_VEC void Store(int32_t* p) const { vst1q_s32(p, v); }
  FAK_VEC void StoreLowBytes(int8_t* p) const {
    const int8x8_t bytes = vmovn_s16(vcombine_s16(vmovn_s32(v), vdup_n_s16(0)));
    const int32_t four = vget_lane_s32(vreinterpret_s32_s8(bytes), 0);
    __builtin_memcpy(p, &four, sizeof four);
  }
  int32x4_t v;
};

FAK_VEC I32 Add(I32 a, I32 b) {
  return {vaddq_s32(a.v, b.v)};
}
FAK_VEC I32 Sub(I32 a, I32 b) {
  return {vsubq_s32(a.v, b.v)};
}
FAK_VEC I32 Mul(I32 a, I32 b) {
  return {vmulq_s32(a.v, b.v)};
}
FAK_VEC I32 Max(I32 a, I32 b) {
  return {vmaxq_s32(a.v, b.v)};
}
FAK_VEC I32 And(I32 a, I32 b) {
  return {vandq_s32(a.v, b.v)};
}
FAK_VEC I32 Or(I32 a, I32 b) {
  return {vorrq_s32(a.v, b.v)};
}
FAK_VEC I32 Xor(I32 a, I32 b) {
  return {veorq_s32(a.v, b.v)};
}
template <int kCount>
FAK_VEC I32 ShiftLeft(I32 a) {
  return {vshlq_n_s32(a.v, kCount)};
}
template <int kCount>
FAK_VEC I32 ShiftRight(I32 a) {
  return {vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a.v), kCount))};
}
template <int kCount>
FAK_VEC I32 ShiftRightSigned(I32 a) {
  return {vshrq_n_s32(a.v, kCount)};
}

struct F32 {
  using Element = float;
  static FAK_VEC F32 Zero() { return {vdupq_n_f32(0.0f)}; }
  static FAK_VEC F32 Splat(float x) { return {vdupq_n_f32(x)}; }
  static FAK_VEC F32 Load(const float* p) { return {vld1q_f32(p)}; }
  static FAK_VEC F32 LoadF16(const uint16_t* p) {
    return {vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)))};
  }
  static FAK_VEC F32 LoadBf16(const uint16_t* p) {
    return {vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16))};
  }
  FAK_VEC void Store(float* p) const { vst1q_f32(p, v); }
  FAK_VEC void StoreF16(uint16_t* p) const { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v))); }
  FAK_VEC void StoreBf16(uint16_t* p) const {
    const uint32x4_t bits = vreinterpretq_u32_f32(v);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t up = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
    const uint32x4_t number = vceqq_f32(v, v);
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    vst1_u16(p, vshrn_n_u32(vbslq_u32(number, up, quiet), 16));
  }
  float32x4_t v;
};

FAK_VEC F32 Add(F32 a, F32 b) {
  return {vaddq_f32(a.v, b.v)};
}
FAK_VEC F32 Sub(F32 a, F32 b) {
  return {vsubq_f32(a.v, b.v)};
}
FAK_VEC F32 Mul(F32 a, F32 b) {
  return {vmulq_f32(a.v, b.v)};
}
FAK_VEC F32 Div(F32 a, F32 b) {
  return {vdivq_f32(a.v, b.v)};
}
// Not vmaxq_f32: it orders -0 below +0 and passes NaN on.
FAK_VEC F32 Max(F32 a, F32 b) {
  return {vbslq_f32(vcgtq_f32(a.v, b.v), a.v, b.v)};
}
FAK_VEC F32 Sqrt(F32 a) {
  return {vsqrtq_f32(a.v)};
}
FAK_VEC F32 Fma(F32 a, F32 b, F32 c) {
  return {vfmaq_f32(c.v, a.v, b.v)};
}
FAK_VEC F32 SelectLess(F32 a, F32 b, F32 t, F32 f) {
  return {vbslq_f32(vcltq_f32(a.v, b.v), t.v, f.v)};
}
FAK_VEC I32 Bits(F32 a) {
  return {vreinterpretq_s32_f32(a.v)};
}
FAK_VEC F32 Float(I32 a) {
  return {vreinterpretq_f32_s32(a.v)};
}
FAK_VEC F32 ToFloat(I32 a) {
  return {vcvtq_f32_s32(a.v)};
}

FAK_VEC void Prefetch(const void* p) {
  __builtin_prefetch(p);
}

#include "tensor/cpu/vec16.inl"

}  // namespace fak::tensor::cpu::FAK_NEON
