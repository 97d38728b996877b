#pragma once

#include <cstdint>

#include "tensor/cpu/vec.h"
#include "tensor/spec/convert.h"
#include "tensor/spec/scalar.h"

// See vec.h. One lane, with the operations of spec/.
namespace fak::tensor::cpu::scalar {

inline constexpr int kLanes = 1;

struct I32 {
  using Element = int32_t;
  static FAK_VEC I32 Zero() { return {0}; }
  static FAK_VEC I32 Splat(int32_t x) { return {x}; }
  static FAK_VEC I32 Load(const int32_t* p) { return {*p}; }
  FAK_VEC void Store(int32_t* p) const { *p = v; }
  FAK_VEC void StoreLowBytes(int8_t* p) const { *p = static_cast<int8_t>(v); }
  int32_t v;
};

FAK_VEC I32 Add(I32 a, I32 b) {
  return {a.v + b.v};
}
FAK_VEC I32 Sub(I32 a, I32 b) {
  return {a.v - b.v};
}
FAK_VEC I32 Mul(I32 a, I32 b) {
  return {a.v * b.v};
}
FAK_VEC I32 Max(I32 a, I32 b) {
  return {a.v > b.v ? a.v : b.v};
}
FAK_VEC I32 And(I32 a, I32 b) {
  return {a.v & b.v};
}
FAK_VEC I32 Or(I32 a, I32 b) {
  return {a.v | b.v};
}
FAK_VEC I32 Xor(I32 a, I32 b) {
  return {a.v ^ b.v};
}
template <int kCount>
FAK_VEC I32 ShiftLeft(I32 a) {
  return {static_cast<int32_t>(static_cast<uint32_t>(a.v) << kCount)};
}
template <int kCount>
FAK_VEC I32 ShiftRight(I32 a) {
  return {static_cast<int32_t>(static_cast<uint32_t>(a.v) >> kCount)};
}
template <int kCount>
FAK_VEC I32 ShiftRightSigned(I32 a) {
  return {a.v >> kCount};
}

struct F32 {
  using Element = float;
  static FAK_VEC F32 Zero() { return {0.0f}; }
  static FAK_VEC F32 Splat(float x) { return {x}; }
  static FAK_VEC F32 Load(const float* p) { return {*p}; }
  static FAK_VEC F32 LoadF16(const uint16_t* p) { return {spec::F16ToF32(*p)}; }
  static FAK_VEC F32 LoadBf16(const uint16_t* p) { return {spec::Bf16ToF32(*p)}; }
  FAK_VEC void Store(float* p) const { *p = v; }
  FAK_VEC void StoreF16(uint16_t* p) const { *p = spec::F32ToF16(v); }
  FAK_VEC void StoreBf16(uint16_t* p) const { *p = spec::F32ToBf16(v); }
  float v;
};

FAK_VEC F32 Add(F32 a, F32 b) {
  return {a.v + b.v};
}
FAK_VEC F32 Sub(F32 a, F32 b) {
  return {a.v - b.v};
}
FAK_VEC F32 Mul(F32 a, F32 b) {
  return {a.v * b.v};
}
FAK_VEC F32 Div(F32 a, F32 b) {
  return {a.v / b.v};
}
FAK_VEC F32 Max(F32 a, F32 b) {
  return {a.v > b.v ? a.v : b.v};
}
FAK_VEC F32 Sqrt(F32 a) {
  return {spec::Sqrt(a.v)};
}
FAK_VEC F32 Fma(F32 a, F32 b, F32 c) {
  return {spec::Fma(a.v, b.v, c.v)};
}
FAK_VEC F32 SelectLess(F32 a, F32 b, F32 t, F32 f) {
  return a.v < b.v ? t : f;
}
FAK_VEC I32 Bits(F32 a) {
  return {static_cast<int32_t>(spec::BitsOf(a.v))};
}
FAK_VEC F32 Float(I32 a) {
  return {spec::FloatOf(static_cast<uint32_t>(a.v))};
}
FAK_VEC F32 ToFloat(I32 a) {
  return {static_cast<float>(a.v)};
}

FAK_VEC void Prefetch(const void* p) {
  __builtin_prefetch(p);
}

#include "tensor/cpu/vec16.inl"

}  // namespace fak::tensor::cpu::scalar
