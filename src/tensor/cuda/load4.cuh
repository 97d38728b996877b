#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/kv_spec.h"
#include "tensor/spec/convert.h"

// Stored floats as f32, exactly (numerics rule 1).
namespace fak::tensor::cuda {

struct F32 {
  using Stored = float;
  static __device__ float Widen(float x) { return x; }
};
struct F16 {
  using Stored = uint16_t;
  // The instruction is exact, denormals too; only a NaN's bits may differ, which nothing compares.
  static __device__ float Widen(uint16_t x) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x));
    return wide;
  }
};
struct Bf16 {
  using Stored = uint16_t;
  static __device__ float Widen(uint16_t x) { return spec::Bf16ToF32(x); }
};

// Four values; `at` is aligned to all of them.
__device__ inline void Load4(const float* at, float* out) {
  const float4 four = *reinterpret_cast<const float4*>(at);
  out[0] = four.x, out[1] = four.y, out[2] = four.z, out[3] = four.w;
}
template <class Type>
__device__ inline void WidenFour(const typename Type::Stored* at, float* out) {
  if constexpr (sizeof(typename Type::Stored) == 4) {
    Load4(at, out);
  } else {
    const ushort4 four = *reinterpret_cast<const ushort4*>(at);
    out[0] = Type::Widen(four.x), out[1] = Type::Widen(four.y);
    out[2] = Type::Widen(four.z), out[3] = Type::Widen(four.w);
  }
}

// chain = fma(w[k], x[k], chain) for k ascending. `four`: both are aligned to four values.
template <class Type>
__device__ inline float Chain(const typename Type::Stored* w, const float* x, uint32_t n, bool four,
                              float chain) {
  uint32_t k = 0;
  for (; four && k + 4 <= n; k += 4) {
    float a[4];
    float b[4];
    WidenFour<Type>(w + k, a);
    Load4(x + k, b);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      chain = spec::Fma(a[i], b[i], chain);
    }
  }
  for (; k < n; ++k) {
    chain = spec::Fma(Type::Widen(w[k]), x[k], chain);
  }
  return chain;
}

}  // namespace fak::tensor::cuda
