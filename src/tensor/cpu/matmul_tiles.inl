// Hot path: bench/micro/matmul_bench.cc. The products of matmul.h for one ISA; included inside its
// namespace.
//
// A stream is the part of a panel whose rows are the lanes of one native vector. A tile is some
// streams times some rows of activations: weights are unpacked into registers once for all of its
// rows; the b and y of rule 6 are one vector for each. How large a tile is says which outputs are
// computed together, never in which order one of them is.

inline constexpr int kStreamsOfPanel = 16 / kLanes;

// A chunk of weights, from the stream's first lane on.
template <class Scales>
struct Stream {
  const std::byte* words;
  const Scales* scales;
  int lane;
};

// A format whose chunk lies unpacked in scratch memory: 64 vectors of bytes, block by block.
template <class Format>
struct Unpacked : Format {
  using Weights = typename Format::Weights;
  static constexpr int kSteps = 1;
  static FAK_VEC void Unpack(const std::byte* words, int j, Weights (&w)[8]) {
    for (int g = 0; g < 8; ++g) {
      w[g] = Weights::Load(words + 64 * (8 * j + g));
    }
  }
  template <int kStep>
  static FAK_VEC void Unpack(const std::byte* words, int j, Weights (&w)[8]) {
    Unpack(words, j, w);
  }
};

// --- Blocks of 32 ---

template <class Format, int kStreams, int kRows>
FAK_VEC void TileChunk(const Stream<Scales32> (&streams)[kStreams], int blocks, const Record32* x,
                       F32 (&y)[kStreams][kRows]) {
  F32 b[kStreams][kRows];
  for (auto& stream : b) {
    for (F32& value : stream) {
      value = F32::Zero();
    }
  }
  for (int j = 0; j < blocks; ++j) {
    FAK_UNROLL
    for (int s = 0; s < kStreams; ++s) {
      typename Format::Weights w[8];
      Format::Unpack(streams[s].words, j, w);
      const F32 d = F32::Load(streams[s].scales->d[j] + streams[s].lane);
      const F32 m =
          Format::kMin ? F32::Load(streams[s].scales->m[j] + streams[s].lane) : F32::Zero();
      FAK_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const I32 sum = Dot<8, Format::kMax>(w, x[r].q + 32 * j, Format::Start(x[r], j));
        const F32 scale = F32::Splat(x[r].scale[j]);
        b[s][r] = Fma(Mul(d, scale), ToFloat(sum), b[s][r]);
        if constexpr (Format::kMin) {
          b[s][r] = Fma(Mul(m, scale), F32::Splat(x[r].sum[j]), b[s][r]);
        }
      }
    }
  }
  for (int s = 0; s < kStreams; ++s) {
    for (int r = 0; r < kRows; ++r) {
      y[s][r] = Add(y[s][r], b[s][r]);
    }
  }
}

template <class Format>
FAK_VEC void PrepareScales(const std::byte* chunk, int blocks, Scales32& out) {
  const auto* halves = reinterpret_cast<const uint16_t*>(chunk);
  for (int j = 0; j < blocks; ++j) {
    F32x16::LoadF16(halves + 16 * j).Store(out.d[j]);
  }
  if constexpr (Format::kMin) {
    for (int j = 0; j < blocks; ++j) {
      F32x16::LoadF16(halves + 16 * (blocks + j)).Store(out.m[j]);
    }
  }
}

// --- Blocks of 256 ---

// Σ over one block of 32 of scale · sum, added to part.
template <class Format>
FAK_VEC I32 ScaledDot(const typename Format::Weights (&w)[8], const I32 (&scale)[2],
                      const Record256& x, int j, I32 part) {
  const int8_t* q = x.q + 32 * j;
  if constexpr (Format::kSub == 32) {
    return Add(part, Mul(Dot<8, Format::kMax>(w, q, Format::Start(x, j)), scale[0]));
  } else {
    const I32 first = Dot<4, Format::kMax>(w, q, Format::Start(x, 2 * j));
    const I32 second = Dot<4, Format::kMax>(w + 4, q + 16, Format::Start(x, 2 * j + 1));
    return Add(Add(part, Mul(first, scale[0])), Mul(second, scale[1]));
  }
}

template <class Format>
FAK_VEC I32 MinimumSum(const Scales256& scales, int lane, const Record256& x) {
  I32 sum = I32::Zero();
  FAK_UNROLL
  for (int i = 0; i < 128 / Format::kSub; ++i) {
    int32_t pair;
    __builtin_memcpy(&pair, (Format::kSub == 32 ? x.sum32 : x.sum16) + 2 * i, sizeof pair);
    sum = DotPairs(I32::Load(scales.min_pair[i] + lane), I32::Splat(pair), sum);
  }
  return sum;
}

template <class Format, int kStep, int kStreams, int kRows>
FAK_VEC void TileStep(const Stream<Scales256> (&streams)[kStreams], int first, const Record256* x,
                      I32 (&part)[kStreams][kRows]) {
  const int j = first + kStep;
  FAK_UNROLL
  for (int s = 0; s < kStreams; ++s) {
    typename Format::Weights w[8];
    Format::template Unpack<kStep>(streams[s].words, first, w);
    constexpr int kScales = 32 / Format::kSub;
    const auto& rows = streams[s].scales->scale;
    const I32 scale[2] = {I32::Load(rows[kScales * j] + streams[s].lane),
                          I32::Load(rows[kScales * j + kScales - 1] + streams[s].lane)};
    FAK_UNROLL
    for (int r = 0; r < kRows; ++r) {
      part[s][r] = ScaledDot<Format>(w, scale, x[r], j, part[s][r]);
    }
  }
}

// b takes the integer sum of a part, which starts anew.
template <class Format, int kStreams, int kRows>
FAK_VEC void ConvertPart(const Stream<Scales256> (&streams)[kStreams], I32 (&part)[kStreams][kRows],
                         F32 (&b)[kStreams][kRows]) {
  FAK_UNROLL
  for (int s = 0; s < kStreams; ++s) {
    const F32 d = F32::Load(streams[s].scales->d + streams[s].lane);
    FAK_UNROLL
    for (int r = 0; r < kRows; ++r) {
      b[s][r] = Fma(d, ToFloat(ShiftRightSigned<Format::kShift>(part[s][r])), b[s][r]);
      part[s][r] = I32::Zero();
    }
  }
}

template <class Format, int kStep, int kStreams, int kRows>
FAK_VEC void TileSteps(const Stream<Scales256> (&streams)[kStreams], int first, const Record256* x,
                       I32 (&part)[kStreams][kRows], F32 (&b)[kStreams][kRows]) {
  if constexpr (kStep < Format::kSteps) {
    constexpr int kPartBlocks = 8 / Format::kSumParts;
    TileStep<Format, kStep>(streams, first, x, part);
    if ((first + kStep) % kPartBlocks == kPartBlocks - 1) {
      ConvertPart<Format>(streams, part, b);
    }
    TileSteps<Format, kStep + 1>(streams, first, x, part, b);
  }
}

template <class Format, int kStreams, int kRows>
FAK_VEC void TileChunk(const Stream<Scales256> (&streams)[kStreams], int, const Record256* x,
                       F32 (&y)[kStreams][kRows]) {
  I32 part[kStreams][kRows];
  F32 b[kStreams][kRows];
  for (int s = 0; s < kStreams; ++s) {
    for (int r = 0; r < kRows; ++r) {
      part[s][r] = I32::Zero();
      b[s][r] = F32::Zero();
    }
  }
  for (int first = 0; first < 8; first += Format::kSteps) {
    TileSteps<Format, 0>(streams, first, x, part, b);
  }
  FAK_UNROLL
  for (int s = 0; s < kStreams; ++s) {
    const Scales256& scales = *streams[s].scales;
    FAK_UNROLL
    for (int r = 0; r < kRows; ++r) {
      if constexpr (Format::kMin) {
        const I32 sum = MinimumSum<Format>(scales, streams[s].lane, x[r]);
        b[s][r] = Fma(F32::Load(scales.minus_dmin + streams[s].lane), ToFloat(sum), b[s][r]);
      }
      y[s][r] = Fma(F32::Splat(x[r].scale), b[s][r], y[s][r]);
    }
  }
}

template <class Format>
FAK_VEC void PrepareScales(const std::byte* chunk, int, Scales256& out) {
  const std::byte* words = chunk + LayoutOf(Format::kDType).HeadBytes(1);
  for (int lane = 0; lane < 16; lane += kLanes) {
    const auto* halves = reinterpret_cast<const uint16_t*>(chunk) + lane;
    F32::LoadF16(halves).Store(out.d + lane);
    if constexpr (Format::kMin) {
      const I32 sign = I32::Splat(INT32_MIN);
      Float(Xor(Bits(F32::LoadF16(halves + 16)), sign)).Store(out.minus_dmin + lane);
    }
    Format::Prepare(halves, words + 4 * lane, out.scale[0] + lane, out.min_pair[0] + lane);
  }
}
