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

// Asks for what lies kBytesAhead after block j; the lines of a panel are shared by its streams.
template <class Format>
FAK_VEC void PrefetchBlock(const Stream<typename Format::Scales>& stream, int j) {
  constexpr int kLines =
      static_cast<int>((LayoutOf(Format::kDType).ChunkBytes(kChunk / Format::kBlock) + 511) / 512);
  constexpr int kLinesOfStream = (kLines + kStreamsOfPanel - 1) / kStreamsOfPanel;
  const std::byte* at =
      stream.words + kBytesAhead + 64 * (kLines * j) + stream.lane / kLanes * 64 * kLinesOfStream;
  FAK_UNROLL
  for (int i = 0; i < kLinesOfStream; ++i) {
    Prefetch(at + 64 * i);
  }
}

// sum[r] += Σ w q over 4 kGroups activations of each row. Of several rows, each takes kGroupsAtOnce
// before the next one's turn: a sum is slow to take its next term, or registers are few.
template <int kGroups, int kMax, class W, class Record, int kRows>
FAK_VEC void DotRows(const W* w, const Record* x, int first, I32 (&sum)[kRows]) {
  constexpr int kStep = kRows > 1 && kGroupsAtOnce < kGroups ? kGroupsAtOnce : kGroups;
  FAK_UNROLL
  for (int g = 0; g < kGroups; g += kStep) {
    FAK_UNROLL
    for (int r = 0; r < kRows; ++r) {
      sum[r] = Dot<kStep, kMax>(w + g, x[r].q + first + 4 * g, sum[r]);
    }
  }
}

// --- Blocks of 32 ---

// Rule 6 for block j: b with what it adds.
template <class Format>
FAK_VEC F32 AddBlock(F32 d, F32 m, I32 sum, const Record32& x, int j, F32 b) {
  const F32 scale = F32::Splat(x.scale[j]);
  b = Fma(Mul(d, scale), ToFloat(sum), b);
  if constexpr (Format::kMin) {
    b = Fma(Mul(m, scale), F32::Splat(x.sum[j]), b);
  }
  return b;
}

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
      PrefetchBlock<Format>(streams[s], j);
      typename Format::Weights w[8];
      Format::Unpack(streams[s].words, j, w);
      const F32 d = F32::Load(streams[s].scales->d[j] + streams[s].lane);
      const F32 m =
          Format::kMin ? F32::Load(streams[s].scales->m[j] + streams[s].lane) : F32::Zero();
      I32 sum[kRows];
      FAK_UNROLL
      for (int r = 0; r < kRows; ++r) {
        sum[r] = Format::Start(x[r], j);
      }
      DotRows<8, Format::kMax>(w, x, 32 * j, sum);
      FAK_UNROLL
      for (int r = 0; r < kRows; ++r) {
        b[s][r] = AddBlock<Format>(d, m, sum[r], x[r], j, b[s][r]);
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

// Rule 6, the end of a chunk: b with its minimum, y with b.
template <class Format>
FAK_VEC F32 AddChunk(const Scales256& scales, int lane, const Record256& x, F32 b, F32 y) {
  if constexpr (Format::kMin) {
    const I32 sum = MinimumSum<Format>(scales, lane, x);
    b = Fma(F32::Load(scales.minus_dmin + lane), ToFloat(sum), b);
  }
  return Fma(F32::Splat(x.scale), b, y);
}

// Adds scale · Σ w q over kSub elements, the kHalf-th of block j.
template <class Format, int kHalf, int kRows>
FAK_VEC void AddScaledDots(const typename Format::Weights* w, I32 scale, const Record256* x, int j,
                           I32 (&part)[kRows]) {
  I32 sum[kRows];
  FAK_UNROLL
  for (int r = 0; r < kRows; ++r) {
    sum[r] = Format::Start(x[r], 32 / Format::kSub * j + kHalf);
  }
  DotRows<Format::kSub / 4, Format::kMax>(w + 4 * kHalf, x, 32 * j + 16 * kHalf, sum);
  FAK_UNROLL
  for (int r = 0; r < kRows; ++r) {
    part[r] = Add(part[r], Mul(sum[r], scale));
  }
}

template <class Format, int kStep, int kStreams, int kRows>
FAK_VEC void TileStep(const Stream<Scales256> (&streams)[kStreams], int first, const Record256* x,
                      I32 (&part)[kStreams][kRows]) {
  const int j = first + kStep;
  FAK_UNROLL
  for (int s = 0; s < kStreams; ++s) {
    PrefetchBlock<Format>(streams[s], j);
    typename Format::Weights w[8];
    Format::template Unpack<kStep>(streams[s].words, first, w);
    constexpr int kScales = 32 / Format::kSub;
    const auto& scale = streams[s].scales->scale;
    AddScaledDots<Format, 0>(w, I32::Load(scale[kScales * j] + streams[s].lane), x, j, part[s]);
    if constexpr (kScales == 2) {
      AddScaledDots<Format, 1>(w, I32::Load(scale[2 * j + 1] + streams[s].lane), x, j, part[s]);
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
      y[s][r] = AddChunk<Format>(scales, streams[s].lane, x[r], b[s][r], y[s][r]);
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
