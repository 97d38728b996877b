// Walks panels, rows and chunks with the tiles of matmul_tiles.inl.

// Where a product has its chunks and records.
template <class Format>
struct Walk {
  static constexpr BlockLayout kLayout = LayoutOf(Format::kDType);
  static constexpr uint32_t kBlocks = kChunk / Format::kBlock;  // of a whole chunk

  explicit FAK_VEC Walk(const Product& of)
      : product(of),
        chunks((of.x.cols + kChunk - 1) / kChunk),
        last_blocks((of.x.cols - (chunks - 1) * kChunk) / Format::kBlock),
        panel_bytes(uint64_t{chunks - 1} * kLayout.ChunkBytes(kBlocks) +
                    kLayout.ChunkBytes(last_blocks)) {}

  // The i-th chunk to be summed.
  FAK_VEC uint32_t ChunkAt(uint32_t i) const { return product.wrong_order ? chunks - 1 - i : i; }
  FAK_VEC int BlocksOf(uint32_t chunk) const {
    return static_cast<int>(chunk + 1 == chunks ? last_blocks : kBlocks);
  }
  FAK_VEC const std::byte* WeightsOf(uint32_t panel, uint32_t chunk) const {
    return product.weights + panel * panel_bytes + chunk * uint64_t{kLayout.ChunkBytes(kBlocks)};
  }
  FAK_VEC const std::byte* WordsOf(const std::byte* chunk, int blocks) const {
    return chunk + kLayout.HeadBytes(static_cast<uint32_t>(blocks));
  }
  FAK_VEC const typename Format::Record* RecordsOf(uint32_t chunk, uint32_t row) const {
    return reinterpret_cast<const typename Format::Record*>(product.x.data) +
           uint64_t{chunk} * product.x.rows + row;
  }

  const Product& product;
  uint32_t chunks;
  uint32_t last_blocks;
  uint64_t panel_bytes;
};

FAK_VEC void StoreOutputs(const Product& product, uint32_t panel, uint32_t row, const float* y) {
  const uint32_t first = panel * kPanelRows;
  const uint32_t left = product.outputs - first;
  const int n = static_cast<int>(left < kPanelRows ? left : kPanelRows);
  float* out = product.out + row * product.out_stride + first;
  F32x16 value = F32x16::Load(y);
  if (product.maybe_bias != nullptr) {
    value = Add(value, LoadPartial<F32x16>(product.maybe_bias + first, n));
  }
  if (n == 16) {
    value.Store(out);
  } else {
    StorePartial(value, out, n);
  }
}

// The outputs of a tile that grew chunk by chunk: 16 lanes a row of activations.
template <int kPanels, int kRows>
struct Sums {
  alignas(64) float y[kPanels][kRows][16];
};

template <int kPanels, int kRows>
FAK_VEC void StoreSums(const Product& product, uint32_t panel, uint32_t panels, uint32_t row,
                       const Sums<kPanels, kRows>& sums) {
  for (uint32_t p = 0; p < panels; ++p) {
    for (uint32_t r = 0; r < kRows; ++r) {
      StoreOutputs(product, panel + p, row + r, sums.y[p][r]);
    }
  }
}

// Few rows: weights go from memory to registers to sums, with no stop in between. One row of
// activations takes kPanels at once (the first stands in for missing ones); several rows take the
// streams one by one, for want of registers.
template <class Format, int kPanels, int kRows>
void MultiplyFew(const Walk<Format>& walk, uint32_t panel, uint32_t panels, uint32_t row) {
  constexpr int kStreams = kRows == 1 ? kPanels * kStreamsOfPanel : 1;
  using Scales = typename Format::Scales;
  Scales scales[kPanels];
  Sums<kPanels, kRows> sums = {};
  for (uint32_t i = 0; i < walk.chunks; ++i) {
    const uint32_t chunk = walk.ChunkAt(i);
    const int blocks = walk.BlocksOf(chunk);
    const std::byte* words[kPanels];
    for (uint32_t p = 0; p < kPanels; ++p) {
      const std::byte* weights = walk.WeightsOf(p < panels ? panel + p : panel, chunk);
      PrepareScales<Format>(weights, blocks, scales[p]);
      words[p] = walk.WordsOf(weights, blocks);
    }
    for (int first = 0; first < kPanels * kStreamsOfPanel; first += kStreams) {
      Stream<Scales> streams[kStreams];
      F32 y[kStreams][kRows];
      FAK_UNROLL
      for (int s = 0; s < kStreams; ++s) {
        const int p = (first + s) / kStreamsOfPanel;
        const int lane = (first + s) % kStreamsOfPanel * kLanes;
        streams[s] = {words[p] + 4 * lane, &scales[p], lane};
        for (int r = 0; r < kRows; ++r) {
          y[s][r] = F32::Load(sums.y[p][r] + lane);
        }
      }
      TileChunk<Format>(streams, blocks, walk.RecordsOf(chunk, row), y);
      FAK_UNROLL
      for (int s = 0; s < kStreams; ++s) {
        for (int r = 0; r < kRows; ++r) {
          y[s][r].Store(sums.y[(first + s) / kStreamsOfPanel][r] + streams[s].lane);
        }
      }
    }
  }
  StoreSums(walk.product, panel, panels, row, sums);
}
