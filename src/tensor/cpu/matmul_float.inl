// Rule 7: F32, F16 and BF16 weights. Elements are in the order of their columns, 16 rows each.

struct FormatF32 {
  static constexpr DType kDType = DType::kF32;
  static constexpr uint32_t kBytes = 4;
  static FAK_VEC F32 Load(const std::byte* p) {
    return F32::Load(reinterpret_cast<const float*>(p));
  }
};
struct FormatF16 {
  static constexpr DType kDType = DType::kF16;
  static constexpr uint32_t kBytes = 2;
  static FAK_VEC F32 Load(const std::byte* p) {
    return F32::LoadF16(reinterpret_cast<const uint16_t*>(p));
  }
};
struct FormatBf16 {
  static constexpr DType kDType = DType::kBf16;
  static constexpr uint32_t kBytes = 2;
  static FAK_VEC F32 Load(const std::byte* p) {
    return F32::LoadBf16(reinterpret_cast<const uint16_t*>(p));
  }
};

// The chain of rule 7 over n columns: kPanels panels, kRows rows.
template <class Format, int kPanels, int kRows>
FAK_VEC void TileFloat(const std::byte* const (&weights)[kPanels], uint32_t n, const RecordFloat* x,
                       F32 (&sum)[kPanels * kStreamsOfPanel][kRows]) {
  for (uint32_t k = 0; k < n; ++k) {
    F32 value[kRows];
    FAK_UNROLL
    for (int r = 0; r < kRows; ++r) {
      value[r] = F32::Splat(x[r].x[k]);
    }
    FAK_UNROLL
    for (int s = 0; s < kPanels * kStreamsOfPanel; ++s) {
      const uint32_t lane = static_cast<uint32_t>(s % kStreamsOfPanel * kLanes);
      const F32 w = Format::Load(weights[s / kStreamsOfPanel] + (16 * k + lane) * Format::kBytes);
      FAK_UNROLL
      for (int r = 0; r < kRows; ++r) {
        sum[s][r] = Fma(w, value[r], sum[s][r]);
      }
    }
  }
}

template <class Format, int kPanels, int kRows>
FAK_VEC void MultiplyFloatTile(const Product& product, uint64_t panel_bytes, uint32_t panel,
                               uint32_t row) {
  constexpr int kStreams = kPanels * kStreamsOfPanel;
  constexpr uint32_t kSpan = 512;  // columns of one chain
  const uint32_t cols = product.x.cols;
  const uint32_t spans = (cols + kSpan - 1) / kSpan;
  F32 y[kStreams][kRows];
  for (auto& stream : y) {
    for (F32& value : stream) {
      value = F32::Zero();
    }
  }
  for (uint32_t i = 0; i < spans; ++i) {
    const uint32_t begin = (product.wrong_order ? spans - 1 - i : i) * kSpan;
    const uint32_t end = cols - begin < kSpan ? cols : begin + kSpan;
    F32 sum[kStreams][kRows];
    for (auto& stream : sum) {
      for (F32& value : stream) {
        value = F32::Zero();
      }
    }
    for (uint32_t k = begin; k < end; k += kChunk) {
      const std::byte* weights[kPanels];
      for (int p = 0; p < kPanels; ++p) {
        weights[p] = product.weights + (panel + static_cast<uint32_t>(p)) * panel_bytes +
                     uint64_t{k} * 16 * Format::kBytes;
      }
      const auto* x = reinterpret_cast<const RecordFloat*>(product.x.data) +
                      uint64_t{k / kChunk} * product.x.rows + row;
      TileFloat<Format, kPanels, kRows>(weights, end - k < kChunk ? end - k : kChunk, x, sum);
    }
    for (int s = 0; s < kStreams; ++s) {
      for (int r = 0; r < kRows; ++r) {
        y[s][r] = Add(y[s][r], sum[s][r]);
      }
    }
  }
  Sums<kPanels, kRows> sums;
  for (int s = 0; s < kStreams; ++s) {
    for (int r = 0; r < kRows; ++r) {
      y[s][r].Store(sums.y[s / kStreamsOfPanel][r] + s % kStreamsOfPanel * kLanes);
    }
  }
  StoreSums(product, panel, kPanels, row, sums);
}

// All rows with one number of panels; kRows at a time, then fewer.
template <class Format, int kPanels, int kRows>
FAK_VEC void MultiplyFloatRows(const Product& product, uint64_t panel_bytes, uint32_t panel,
                               uint32_t row, uint32_t rows) {
  for (; rows >= kRows; rows -= kRows, row += kRows) {
    MultiplyFloatTile<Format, kPanels, kRows>(product, panel_bytes, panel, row);
  }
  if constexpr (kRows > 1) {
    MultiplyFloatRows<Format, kPanels, kRows / 2>(product, panel_bytes, panel, row, rows);
  }
}

template <class Format>
void MultiplyFloat(const Product& product, uint32_t panel_begin, uint32_t panel_end) {
  constexpr uint32_t kRowsInCache = 64;
  const uint64_t panel_bytes = (uint64_t{product.x.cols} * 16 * Format::kBytes + 63) / 64 * 64;
  uint32_t row = product.row_begin;
  while (row < product.row_end) {
    const uint32_t left = product.row_end - row;
    const uint32_t rows = left < kRowsInCache ? left : kRowsInCache;
    uint32_t panel = panel_begin;
    if (rows == 1) {
      for (; panel + kPanelsAtOnce <= panel_end; panel += kPanelsAtOnce) {
        MultiplyFloatTile<Format, int{kPanelsAtOnce}, 1>(product, panel_bytes, panel, row);
      }
    }
    for (; panel + kFloatPanels <= panel_end; panel += kFloatPanels) {
      MultiplyFloatRows<Format, kFloatPanels, kFloatRows>(product, panel_bytes, panel, row, rows);
    }
    if constexpr (kFloatPanels > 1) {
      for (; panel < panel_end; ++panel) {
        MultiplyFloatRows<Format, 1, kFloatRows>(product, panel_bytes, panel, row, rows);
      }
    }
    row += rows;
  }
}
