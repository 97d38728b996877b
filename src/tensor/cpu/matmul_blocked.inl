// Many rows: a chunk of some panels is unpacked into scratch memory (the first cache) once for up
// to kRowsOfScratch rows, and met by tiles of kTileStreams times kTileRows outputs.

inline constexpr uint32_t kRowsOfScratch = 64;
inline constexpr uint32_t kTilePanels = (kTileStreams + kStreamsOfPanel - 1) / kStreamsOfPanel;

template <class Format>
struct alignas(64) ChunkScratch {
  std::byte words[64][64];  // 4 bytes of 16 rows, in the order of the columns
  typename Format::Scales scales;
};
template <class Format>
struct alignas(64) Scratch {
  ChunkScratch<Format> chunk[kTilePanels];
  float y[kTilePanels][kRowsOfScratch][16];
};

// The part of unpacked weights that a native vector holds.
template <class Format>
struct Slice {
  const ChunkScratch<Format>* chunk;
  int lane;

  FAK_VEC typename Format::Weights Word(int i) const {
    return Format::Weights::Load(chunk->words[i] + 4 * lane);
  }
};

template <class Format, int kStep>
FAK_VEC void UnpackSteps(const std::byte* words, int first, int lane, std::byte (*out)[64]) {
  if constexpr (kStep < Format::kSteps) {
    typename Format::Weights w[8];
    Format::template Unpack<kStep>(words, first, w);
    FAK_UNROLL
    for (int g = 0; g < 8; ++g) {
      w[g].Store(out[8 * (first + kStep) + g] + 4 * lane);
    }
    UnpackSteps<Format, kStep + 1>(words, first, lane, out);
  }
}

template <class Format>
FAK_VEC void UnpackChunk(const std::byte* chunk, int blocks, ChunkScratch<Format>& out) {
  PrepareScales<Format>(chunk, blocks, out.scales);
  const std::byte* words =
      chunk + LayoutOf(Format::kDType).HeadBytes(static_cast<uint32_t>(blocks));
  for (int lane = 0; lane < 16; lane += kLanes) {
    if constexpr (Format::kBlock == 32) {
      for (int j = 0; j < blocks; ++j) {
        typename Format::Weights w[8];
        Format::Unpack(words + 4 * lane, j, w);
        FAK_UNROLL
        for (int g = 0; g < 8; ++g) {
          w[g].Store(out.words[8 * j + g] + 4 * lane);
        }
      }
    } else {
      for (int first = 0; first < 8; first += Format::kSteps) {
        UnpackSteps<Format, 0>(words + 4 * lane, first, lane, out.words);
      }
    }
  }
}

// sum[s][r] += Σ w q over the 4 kGroups columns from 4 `group` on. kGroupsAtOnce of them go into a
// sum before the next one's turn: where an instruction takes long to add its product, sums take
// turns.
template <class Format, int kGroups, int kStreams, int kRows>
FAK_VEC void DotTile(const Slice<Format> (&w)[kStreams], int group,
                     const typename Format::Record* x, I32 (&sum)[kStreams][kRows]) {
  constexpr int kStep = kGroupsAtOnce < kGroups ? kGroupsAtOnce : kGroups;
  FAK_UNROLL
  for (int g = group; g < group + kGroups; g += kStep) {
    typename Format::Weights words[kStreams][kStep];
    FAK_UNROLL
    for (int s = 0; s < kStreams; ++s) {
      FAK_UNROLL
      for (int i = 0; i < kStep; ++i) {
        words[s][i] = w[s].Word(g + i);
      }
    }
    FAK_UNROLL
    for (int r = 0; r < kRows; ++r) {
      FAK_UNROLL
      for (int s = 0; s < kStreams; ++s) {
        sum[s][r] = Dot<kStep, Format::kMax>(words[s], x[r].q + 4 * g, sum[s][r]);
      }
    }
  }
}

// One chunk of rule 6 for blocks of 32: y = y + b.
template <class Format, int kStreams, int kRows>
FAK_VEC void TileOfChunk(const Slice<Format> (&w)[kStreams], int blocks, const Record32* x,
                         F32 (&y)[kStreams][kRows]) {
  F32 b[kStreams][kRows];
  FAK_UNROLL
  for (int s = 0; s < kStreams; ++s) {
    FAK_UNROLL
    for (int r = 0; r < kRows; ++r) {
      b[s][r] = F32::Zero();
    }
  }
  for (int j = 0; j < blocks; ++j) {
    I32 sum[kStreams][kRows];
    FAK_UNROLL
    for (int r = 0; r < kRows; ++r) {
      FAK_UNROLL
      for (int s = 0; s < kStreams; ++s) {
        sum[s][r] = Format::Start(x[r], j);
      }
    }
    DotTile<Format, 8>(w, 8 * j, x, sum);
    FAK_UNROLL
    for (int s = 0; s < kStreams; ++s) {
      const Scales32& scales = w[s].chunk->scales;
      const F32 d = F32::Load(scales.d[j] + w[s].lane);
      const F32 m = Format::kMin ? F32::Load(scales.m[j] + w[s].lane) : F32::Zero();
      FAK_UNROLL
      for (int r = 0; r < kRows; ++r) {
        b[s][r] = AddBlock<Format>(d, m, sum[s][r], x[r], j, b[s][r]);
      }
    }
  }
  FAK_UNROLL
  for (int s = 0; s < kStreams; ++s) {
    FAK_UNROLL
    for (int r = 0; r < kRows; ++r) {
      y[s][r] = Add(y[s][r], b[s][r]);
    }
  }
}

// The scaled integer sum over `blocks` blocks of 32 from block j on.
template <class Format, int kStreams, int kRows>
FAK_VEC void SumPart(const Slice<Format> (&w)[kStreams], int j, int blocks, const Record256* x,
                     I32 (&part)[kStreams][kRows]) {
  constexpr int kScales = 32 / Format::kSub;
  FAK_UNROLL
  for (int s = 0; s < kStreams; ++s) {
    FAK_UNROLL
    for (int r = 0; r < kRows; ++r) {
      part[s][r] = I32::Zero();
    }
  }
  for (int i = kScales * j; i < kScales * (j + blocks); ++i) {
    I32 sum[kStreams][kRows];
    FAK_UNROLL
    for (int r = 0; r < kRows; ++r) {
      FAK_UNROLL
      for (int s = 0; s < kStreams; ++s) {
        sum[s][r] = Format::Start(x[r], i);
      }
    }
    DotTile<Format, Format::kSub / 4>(w, Format::kSub / 4 * i, x, sum);
    FAK_UNROLL
    for (int s = 0; s < kStreams; ++s) {
      const I32 scale = I32::Load(w[s].chunk->scales.scale[i] + w[s].lane);
      FAK_UNROLL
      for (int r = 0; r < kRows; ++r) {
        part[s][r] = Add(part[s][r], Mul(sum[s][r], scale));
      }
    }
  }
}

// The same for blocks of 256: y = fma(d_x, b, y).
template <class Format, int kStreams, int kRows>
FAK_VEC void TileOfChunk(const Slice<Format> (&w)[kStreams], int, const Record256* x,
                         F32 (&y)[kStreams][kRows]) {
  F32 b[kStreams][kRows];
  FAK_UNROLL
  for (int p = 0; p < Format::kSumParts; ++p) {
    I32 part[kStreams][kRows];
    SumPart(w, 8 / Format::kSumParts * p, 8 / Format::kSumParts, x, part);
    FAK_UNROLL
    for (int s = 0; s < kStreams; ++s) {
      const F32 d = F32::Load(w[s].chunk->scales.d + w[s].lane);
      FAK_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const F32 value = ToFloat(ShiftRightSigned<Format::kShift>(part[s][r]));
        b[s][r] = Fma(d, value, p == 0 ? F32::Zero() : b[s][r]);
      }
    }
  }
  FAK_UNROLL
  for (int s = 0; s < kStreams; ++s) {
    FAK_UNROLL
    for (int r = 0; r < kRows; ++r) {
      y[s][r] = AddChunk<Format>(w[s].chunk->scales, w[s].lane, x[r], b[s][r], y[s][r]);
    }
  }
}

// Brings the next chunk of each panel into the first cache while this one is computed with, a part
// a tile, so that unpacking does not wait for memory.
struct Lookahead {
  const std::byte* chunk[kTilePanels];
  uint32_t bytes_a_step;
  uint32_t bytes;
  uint32_t done = 0;

  FAK_VEC void Step() {
    const uint32_t stop = done + bytes_a_step < bytes ? done + bytes_a_step : bytes;
    for (; done < stop; done += 64) {
      FAK_UNROLL
      for (uint32_t p = 0; p < kTilePanels; ++p) {
        Prefetch(chunk[p] + done);
      }
    }
  }
};

// kRows rows at a time, then the rest with smaller tiles. `first` is the slices' first lane,
// counted over all panels of the scratch memory.
template <class Format, int kStreams, int kRows>
FAK_VEC void TileRows(Scratch<Format>& scratch, int first, int blocks,
                      const typename Format::Record* x, uint32_t row, uint32_t rows,
                      Lookahead& next) {
  Slice<Format> w[kStreams];
  float* base[kStreams];
  for (int s = 0; s < kStreams; ++s) {
    const int lane = first + s * kLanes;
    w[s] = {&scratch.chunk[lane / 16], lane % 16};
    base[s] = scratch.y[lane / 16][0] + lane % 16;
  }
  for (; row + kRows <= rows; row += kRows) {
    next.Step();
    F32 y[kStreams][kRows];
    FAK_UNROLL
    for (int s = 0; s < kStreams; ++s) {
      FAK_UNROLL
      for (int r = 0; r < kRows; ++r) {
        y[s][r] = F32::Load(base[s] + 16 * (row + static_cast<uint32_t>(r)));
      }
    }
    TileOfChunk(w, blocks, x + row, y);
    FAK_UNROLL
    for (int s = 0; s < kStreams; ++s) {
      FAK_UNROLL
      for (int r = 0; r < kRows; ++r) {
        y[s][r].Store(base[s] + 16 * (row + static_cast<uint32_t>(r)));
      }
    }
  }
  if constexpr (kRows > 1) {
    TileRows<Format, kStreams, kRows / 2>(scratch, first, blocks, x, row, rows, next);
  }
}

// The tile has kTilePanels panels; if there are fewer, the first stands in for the missing ones.
template <class Format>
void MultiplyMany(const Walk<Format>& walk, uint32_t panel, uint32_t panels, uint32_t row,
                  uint32_t rows, Scratch<Format>& scratch) {
  for (auto& panel_sums : scratch.y) {
    for (uint32_t r = 0; r < rows; ++r) {
      F32x16::Zero().Store(panel_sums[r]);
    }
  }
  const uint32_t steps = (rows + kTileRows - 1) / kTileRows;
  constexpr uint32_t kBytes = Walk<Format>::kLayout.ChunkBytes(Walk<Format>::kBlocks);
  for (uint32_t i = 0; i < walk.chunks; ++i) {
    const uint32_t chunk = walk.ChunkAt(i);
    const int blocks = walk.BlocksOf(chunk);
    const bool last = i + 1 == walk.chunks;
    Lookahead next = {.chunk = {}, .bytes_a_step = (kBytes + steps - 1) / steps, .bytes = kBytes};
    for (uint32_t p = 0; p < kTilePanels; ++p) {
      UnpackChunk(walk.WeightsOf(p < panels ? panel + p : panel, chunk), blocks, scratch.chunk[p]);
      next.chunk[p] =
          walk.WeightsOf(panel + p + (last ? kTilePanels : 0), walk.ChunkAt(last ? 0 : i + 1));
    }
    for (int lane = 0; lane < static_cast<int>(16 * kTilePanels); lane += kTileStreams * kLanes) {
      TileRows<Format, kTileStreams, kTileRows>(scratch, lane, blocks, walk.RecordsOf(chunk, row),
                                                0, rows, next);
    }
  }
  for (uint32_t p = 0; p < panels; ++p) {
    for (uint32_t r = 0; r < rows; ++r) {
      StoreOutputs(walk.product, panel + p, row + r, scratch.y[p][r]);
    }
  }
}
