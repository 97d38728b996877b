// Rule 4, into the records of layout.h. Included inside an ISA's namespace.

// Largest magnitude of 16 values, as bits.
FAK_VEC I32x16 Magnitudes(F32x16 x) {
  return And(Bits(x), I32x16::Splat(INT32_MAX));
}

struct BlockScale {
  float scale;
  float inverse;
  bool zero;  // all q are 0
};
FAK_VEC BlockScale ScaleOf(int32_t amax_bits) {
  if (amax_bits < 0x0d800000) {  // 2^-100
    return {0.0f, 0.0f, true};
  }
  float amax;
  __builtin_memcpy(&amax, &amax_bits, sizeof amax);
  if (amax_bits >= 0x7f800000) {
    return {__builtin_nanf(""), 0.0f, true};
  }
  return {amax / 127.0f, 127.0f / amax, false};
}

// 16 values to q; returns them as integers.
FAK_VEC I32x16 QuantiseSixteen(F32x16 x, const BlockScale& scale, int8_t* q) {
  I32x16 bits = I32x16::Zero();
  if (!scale.zero) {
    bits = Bits(Fma(x, F32x16::Splat(scale.inverse), F32x16::Splat(12582912.0f)));
  }
  bits.StoreLowBytes(q);
  return ShiftRightSigned<24>(ShiftLeft<24>(bits));
}

FAK_VEC void QuantiseInto(const float* x, uint32_t n, Record32& out) {
  __builtin_memset(&out, 0, sizeof out);
  for (uint32_t j = 0; j < n / 32; ++j) {
    const F32x16 a = F32x16::Load(x + 32 * j);
    const F32x16 b = F32x16::Load(x + 32 * j + 16);
    const BlockScale scale = ScaleOf(ReduceMax(Max(Magnitudes(a), Magnitudes(b))));
    const I32x16 qa = QuantiseSixteen(a, scale, out.q + 32 * j);
    const I32x16 qb = QuantiseSixteen(b, scale, out.q + 32 * j + 16);
    const int32_t sum = ReduceAdd(Add(qa, qb));
    out.scale[j] = scale.scale;
    out.sum[j] = static_cast<float>(sum);
    out.sum_by_128[j] = -128 * sum;
    out.sum_by_16[j] = -16 * sum;
    out.sum_by_8[j] = -8 * sum;
  }
}

FAK_VEC void QuantiseInto(const float* x, uint32_t, Record256& out) {
  I32x16 magnitude = I32x16::Zero();
  for (int i = 0; i < 256; i += 16) {
    magnitude = Max(magnitude, Magnitudes(F32x16::Load(x + i)));
  }
  const BlockScale scale = ScaleOf(ReduceMax(magnitude));
  __builtin_memset(&out, 0, sizeof out);
  out.scale = scale.scale;
  for (int j = 0; j < 16; ++j) {
    const I32x16 q = QuantiseSixteen(F32x16::Load(x + 16 * j), scale, out.q + 16 * j);
    const int32_t sum = ReduceAdd(q);
    out.sum16[j] = static_cast<int16_t>(sum);
    out.sum16_by_32[j] = -32 * sum;
  }
  for (int j = 0; j < 8; ++j) {
    const int32_t sum = out.sum16[2 * j] + out.sum16[2 * j + 1];
    out.sum32[j] = static_cast<int16_t>(sum);
    out.sum32_by_128[j] = -128 * sum;
  }
}

FAK_VEC void QuantiseInto(const float* x, uint32_t n, RecordFloat& out) {
  __builtin_memcpy(out.x, x, n * sizeof *x);
  __builtin_memset(out.x + n, 0, (kChunk - n) * sizeof *x);
}

template <class Record>
FAK_VEC void QuantiseRow(const float* x, const Activations& out, uint32_t row) {
  auto* record = reinterpret_cast<Record*>(out.data) + row;
  for (uint32_t first = 0; first < out.cols; first += kChunk, record += out.rows) {
    const uint32_t left = out.cols - first;
    QuantiseInto(x + first, left < kChunk ? left : kChunk, *record);
  }
}

inline void Quantise(const float* x, const Activations& out, uint32_t row) {
  switch (out.type) {
    case ActivationClass::kFloat: return QuantiseRow<RecordFloat>(x, out, row);
    case ActivationClass::kInt8x32: return QuantiseRow<Record32>(x, out, row);
    case ActivationClass::kInt8x256: return QuantiseRow<Record256>(x, out, row);
  }
}
