// Hot path: it is its own benchmark (`fak bench roofline`). Included once an ISA, inside its
// namespace, behind its vectors (vec.h) and
//   FAK_REGISTER     constraint of an asm operand that is a vector
//   kDotSums         chains of dot products that run side by side, and
//   kDotOps          operations of a DotStep()
//   DotStep(sum, w, x)   the products of bytes and their sums; w may change its register only
//   kFmaSums         chains of fused multiplications
// Chains are as many as hide an instruction's latency and fit the registers.

// The compiler must take it that the value may have changed, and costs nothing.
#define FAK_OPAQUE(vector) __asm__("" : "+" FAK_REGISTER((vector).v))

inline constexpr int kLineLoads = 16 / kLanes;  // of a cache line of 64 bytes

// The xor of the lanes of Read()'s sums; elsewhere lanes may be alike, so that it would be 0.
FAK_VEC uint32_t XorOf(I32 v) {
  int32_t lanes[kLanes];
  v.Store(lanes);
  uint32_t all = 0;
  for (int i = 0; i < kLanes; ++i) {
    all ^= static_cast<uint32_t>(lanes[i]);
  }
  return all;
}
FAK_VEC uint32_t SumOf(I32 v) {
  int32_t lanes[kLanes];
  v.Store(lanes);
  uint32_t all = 0;
  for (int i = 0; i < kLanes; ++i) {
    all += static_cast<uint32_t>(lanes[i]);
  }
  return all;
}

template <int kStreams, int kAhead>
uint32_t Read(const std::byte* data, uint64_t bytes) {
  const uint64_t part = bytes / kStreams;
  I32 sums[kLineLoads];
  for (int i = 0; i < kLineLoads; ++i) {
    sums[i] = I32::Zero();
  }
  for (uint64_t at = 0; at < part; at += 64) {
    FAK_UNROLL
    for (int s = 0; s < kStreams; ++s) {
      const std::byte* const line = data + part * static_cast<uint64_t>(s) + at;
      if constexpr (kAhead > 0) {
        __builtin_prefetch(line + kAhead);
      }
      FAK_UNROLL
      for (int i = 0; i < kLineLoads; ++i) {
        sums[i] = Xor(sums[i], I32::Load(reinterpret_cast<const int32_t*>(line) + kLanes * i));
      }
    }
  }
  uint32_t all = 0;
  for (int i = 0; i < kLineLoads; ++i) {
    all ^= XorOf(sums[i]);
  }
  return all;
}

uint32_t DotRounds(uint64_t rounds) {
  I32 w = I32::Splat(0x01020304);
  I32 x = I32::Splat(0x01010101);
  FAK_OPAQUE(w);
  FAK_OPAQUE(x);
  I32 sums[kDotSums];
  FAK_UNROLL
  for (int i = 0; i < kDotSums; ++i) {
    sums[i] = I32::Splat(i);
  }
  for (uint64_t round = 0; round < rounds; ++round) {
    FAK_UNROLL
    for (int i = 0; i < kDotSums; ++i) {
      DotStep(sums[i], w, x);
    }
  }
  uint32_t all = 0;
  FAK_UNROLL
  for (int i = 0; i < kDotSums; ++i) {
    all += SumOf(sums[i]);
  }
  return all;
}

uint32_t FmaRounds(uint64_t rounds) {
  F32 a = F32::Splat(0.5f);
  F32 b = F32::Splat(1.0f);
  FAK_OPAQUE(a);
  FAK_OPAQUE(b);
  F32 sums[kFmaSums];
  FAK_UNROLL
  for (int i = 0; i < kFmaSums; ++i) {
    sums[i] = F32::Splat(static_cast<float>(i));
  }
  for (uint64_t round = 0; round < rounds; ++round) {
    FAK_UNROLL
    for (int i = 0; i < kFmaSums; ++i) {
      sums[i] = Fma(sums[i], a, b);
    }
  }
  F32 all = sums[0];
  FAK_UNROLL
  for (int i = 1; i < kFmaSums; ++i) {
    all = Add(all, sums[i]);
  }
  return SumOf(Bits(all));
}

constexpr PeakLoops MakePeakLoops() {
  return {
      .read = {Read<1, 0>, Read<1, 1024>, Read<2, 1024>, Read<4, 0>, Read<4, 1024>, Read<8, 1024>},
      .dot = DotRounds,
      .fma = FmaRounds,
      .dot_ops = uint64_t{kDotSums} * kDotOps,
      .fma_ops = uint64_t{kFmaSums} * kLanes * 2,
  };
}
