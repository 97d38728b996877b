#pragma once

#include <cstdint>

#include "tensor/spec/scalar.h"

// Rule 8: exp and what is made of it, in f32.
namespace fak::tensor::spec {

// 2^f for |f| <= 1/2, as the bits of a float in [0.7, 1.42].
FAK_HD inline uint32_t Exp2FractionBits(float f) {
  float p = 0x1.41fbbcp-13f;
  p = Fma(p, f, 0x1.5f3e54p-10f);
  p = Fma(p, f, 0x1.3b2d4cp-7f);
  p = Fma(p, f, 0x1.c6aee8p-5f);
  p = Fma(p, f, 0x1.ebfbdcp-3f);
  p = Fma(p, f, 0x1.62e43p-1f);
  p = Fma(p, f, 1.0f);
  return BitsOf(p);
}

// 2^x. Below -125: +0; from 128 on: +inf; NaN: NaN. At most 0.94 ulp off.
FAK_HD inline float Exp2(float x) {
  if (x != x) {
    return FloatOf(kQuietNanBits);
  }
  if (x < -125.0f) {
    return 0.0f;
  }
  if (x >= 128.0f) {
    return FloatOf(kExponentBits);
  }
  const float t = x + kMagic;
  const float f = x - (t - kMagic);
  return FloatOf(Exp2FractionBits(f) + (BitsOf(t) << 23));
}

// e^x. Below -86.5: +0; from 88.72 on: +inf; NaN: NaN. At most 1.08 ulp off.
FAK_HD inline float Exp(float x) {
  if (x != x) {
    return FloatOf(kQuietNanBits);
  }
  if (x < -86.5f) {
    return 0.0f;
  }
  if (x >= 88.72f) {
    return FloatOf(kExponentBits);
  }
  constexpr float kHigh = 0x1.715476p+0f;  // log2(e) in two parts
  constexpr float kLow = 0x1.4ae0cp-26f;
  const float t = Fma(x, kHigh, kMagic);
  const float n = t - kMagic;
  const float f = Fma(x, kLow, Fma(x, kHigh, -n));
  return FloatOf(Exp2FractionBits(f) + (BitsOf(t) << 23));
}

FAK_HD inline float Silu(float x) {
  return x / (1.0f + Exp(-x));
}

// The tanh form, 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))), written as a logistic function.
FAK_HD inline float GeluTanh(float x) {
  const float u = x * Fma(0.044715f, x * x, 1.0f);
  return x / (1.0f + Exp(-1.5957691f * u));
}

FAK_HD inline float Tanh(float x) {
  const float a = FloatOf(MagnitudeBits(x));
  if (a < 0.625f) {
    const float z = x * x;
    float p = -5.70498872745e-3f;
    p = Fma(p, z, 2.06390887954e-2f);
    p = Fma(p, z, -5.37397155531e-2f);
    p = Fma(p, z, 1.33314422036e-1f);
    p = Fma(p, z, -3.33332819422e-1f);
    return Fma(p * z, x, x);
  }
  const float y = 1.0f - 2.0f / (Exp(2.0f * a) + 1.0f);
  return FloatOf(BitsOf(y) | (BitsOf(x) & kSignBit));
}

// Gated units: the activation of the gate times the up projection.
FAK_HD inline float SiluGate(float gate, float up) {
  return Silu(gate) * up;
}
FAK_HD inline float GeluGate(float gate, float up) {
  return GeluTanh(gate) * up;
}

// cap · tanh(x / cap) with inverse = 1 / cap rounded once: final logits of models that cap them.
FAK_HD inline float SoftCap(float x, float cap, float inverse) {
  return cap * Tanh(x * inverse);
}

}  // namespace fak::tensor::spec
