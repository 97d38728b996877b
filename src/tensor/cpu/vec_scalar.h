#pragma once

#include <cstdint>

#include "tensor/cpu/vec.h"
#include "tensor/spec/convert.h"
#include "tensor/spec/scalar.h"

// See vec.h. The compiler's own vectors of 4 for what C++ has an operator, the functions of spec/,
// lane by lane, for the rest: what every machine can run.
namespace fak::tensor::cpu::scalar {

inline constexpr int kLanes = 4;

typedef int32_t IntLanes __attribute__((vector_size(16)));
typedef uint32_t UintLanes __attribute__((vector_size(16)));
typedef float FloatLanes __attribute__((vector_size(16)));

struct I32 {
  using Element = int32_t;
  static FAK_VEC I32 Zero() { return {IntLanes{}}; }
  static FAK_VEC I32 Splat(int32_t x) { return {IntLanes{x, x, x, x}}; }
  static FAK_VEC I32 Load(const int32_t* p) {
    I32 r;
    __builtin_memcpy(&r.v, p, sizeof r.v);
    return r;
  }
  FAK_VEC void Store(int32_t* p) const { __builtin_memcpy(p, &v, sizeof v); }
  FAK_VEC void StoreLowBytes(int8_t* p) const {
    for (int i = 0; i < kLanes; ++i) {
      p[i] = static_cast<int8_t>(v[i]);
    }
  }
  IntLanes v;
};

struct F32 {
  using Element = float;
  static FAK_VEC F32 Zero() { return {FloatLanes{}}; }
  static FAK_VEC F32 Splat(float x) { return {FloatLanes{x, x, x, x}}; }
  static FAK_VEC F32 Load(const float* p) {
    F32 r;
    __builtin_memcpy(&r.v, p, sizeof r.v);
    return r;
  }
  static FAK_VEC F32 LoadF16(const uint16_t* p) {
    F32 r;
    for (int i = 0; i < kLanes; ++i) {
      r.v[i] = spec::F16ToF32(p[i]);
    }
    return r;
  }
  static FAK_VEC F32 LoadBf16(const uint16_t* p) {
    F32 r;
    for (int i = 0; i < kLanes; ++i) {
      r.v[i] = spec::Bf16ToF32(p[i]);
    }
    return r;
  }
  FAK_VEC void Store(float* p) const { __builtin_memcpy(p, &v, sizeof v); }
  FAK_VEC void StoreF16(uint16_t* p) const {
    for (int i = 0; i < kLanes; ++i) {
      p[i] = spec::F32ToF16(v[i]);
    }
  }
  FAK_VEC void StoreBf16(uint16_t* p) const {
    for (int i = 0; i < kLanes; ++i) {
      p[i] = spec::F32ToBf16(v[i]);
    }
  }
  FloatLanes v;
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
FAK_VEC I32 And(I32 a, I32 b) {
  return {a.v & b.v};
}
FAK_VEC I32 Or(I32 a, I32 b) {
  return {a.v | b.v};
}
FAK_VEC I32 Xor(I32 a, I32 b) {
  return {a.v ^ b.v};
}
FAK_VEC I32 Max(I32 a, I32 b) {
  return {a.v > b.v ? a.v : b.v};
}
template <int kCount>
FAK_VEC I32 ShiftLeft(I32 a) {
  return {reinterpret_cast<IntLanes>(reinterpret_cast<UintLanes>(a.v) << kCount)};
}
template <int kCount>
FAK_VEC I32 ShiftRight(I32 a) {
  return {reinterpret_cast<IntLanes>(reinterpret_cast<UintLanes>(a.v) >> kCount)};
}
template <int kCount>
FAK_VEC I32 ShiftRightSigned(I32 a) {
  return {a.v >> kCount};
}

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
FAK_VEC F32 SelectLess(F32 a, F32 b, F32 t, F32 f) {
  return {a.v < b.v ? t.v : f.v};
}
FAK_VEC F32 Sqrt(F32 a) {
  for (int i = 0; i < kLanes; ++i) {
    a.v[i] = spec::Sqrt(a.v[i]);
  }
  return a;
}
FAK_VEC F32 Fma(F32 a, F32 b, F32 c) {
  for (int i = 0; i < kLanes; ++i) {
    c.v[i] = spec::Fma(a.v[i], b.v[i], c.v[i]);
  }
  return c;
}
FAK_VEC I32 Bits(F32 a) {
  return {reinterpret_cast<IntLanes>(a.v)};
}
FAK_VEC F32 Float(I32 a) {
  return {reinterpret_cast<FloatLanes>(a.v)};
}
FAK_VEC F32 ToFloat(I32 a) {
  return {__builtin_convertvector(a.v, FloatLanes)};
}

FAK_VEC void Prefetch(const void* p) {
  __builtin_prefetch(p);
}

#include "tensor/cpu/vec16.inl"

}  // namespace fak::tensor::cpu::scalar
