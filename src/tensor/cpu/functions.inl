// Numerics rule 8 over 16 lanes. Included inside an ISA's namespace.

FAK_VEC F32x16 Splat16(float x) {
  return F32x16::Splat(x);
}

inline constexpr float kMagic = 12582912.0f;

FAK_VEC F32x16 Negative(F32x16 x) {
  return Float(Xor(Bits(x), I32x16::Splat(INT32_MIN)));
}

// 2^f · 2^n, |f| <= 1/2, n the integer in the low bits of t.
FAK_VEC F32x16 Exp2Parts(F32x16 f, F32x16 t) {
  F32x16 p = Splat16(0x1.41fbbcp-13f);
  p = Fma(p, f, Splat16(0x1.5f3e54p-10f));
  p = Fma(p, f, Splat16(0x1.3b2d4cp-7f));
  p = Fma(p, f, Splat16(0x1.c6aee8p-5f));
  p = Fma(p, f, Splat16(0x1.ebfbdcp-3f));
  p = Fma(p, f, Splat16(0x1.62e43p-1f));
  p = Fma(p, f, Splat16(1.0f));
  return Float(Add(Bits(p), ShiftLeft<23>(Bits(t))));
}

// y where low <= x < high; 0 below, infinity from high on, NaN for NaN.
FAK_VEC F32x16 WithinBounds(F32x16 x, float low, float high, F32x16 y) {
  const F32x16 above = Add(x, Splat16(__builtin_inff()));
  return SelectLess(x, Splat16(low), F32x16::Zero(), SelectLess(x, Splat16(high), y, above));
}

FAK_VEC F32x16 Exp2(F32x16 x) {
  const F32x16 t = Add(x, Splat16(kMagic));
  const F32x16 f = Sub(x, Sub(t, Splat16(kMagic)));
  return WithinBounds(x, -125.0f, 128.0f, Exp2Parts(f, t));
}

FAK_VEC F32x16 Exp(F32x16 x) {
  const F32x16 high = Splat16(0x1.715476p+0f);
  const F32x16 t = Fma(x, high, Splat16(kMagic));
  const F32x16 n = Sub(t, Splat16(kMagic));
  const F32x16 f = Fma(x, Splat16(0x1.4ae0cp-26f), Fma(x, high, Negative(n)));
  return WithinBounds(x, -86.5f, 88.72f, Exp2Parts(f, t));
}

FAK_VEC F32x16 Silu(F32x16 x) {
  return Div(x, Add(Splat16(1.0f), Exp(Negative(x))));
}

FAK_VEC F32x16 GeluTanh(F32x16 x) {
  const F32x16 u = Mul(x, Fma(Splat16(0.044715f), Mul(x, x), Splat16(1.0f)));
  return Div(x, Add(Splat16(1.0f), Exp(Mul(Splat16(-1.5957691f), u))));
}

FAK_VEC I32x16 Magnitude(F32x16 x) {
  return And(Bits(x), I32x16::Splat(INT32_MAX));
}

// The largest lane; NaN lanes are passed over.
FAK_VEC float LargestLane(F32x16 v) {
  alignas(64) float lanes[16];
  v.Store(lanes);
  float largest = -__builtin_inff();
  for (int i = 0; i < 16; ++i) {
    largest = lanes[i] > largest ? lanes[i] : largest;
  }
  return largest;
}
