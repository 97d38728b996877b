// The entry: which way a product takes.

// At most 4 rows and kPanelsAtOnce panels.
template <class Format>
FAK_VEC void MultiplyFewRows(const Walk<Format>& walk, uint32_t panel, uint32_t panels,
                             uint32_t row, uint32_t rows) {
  if ((rows & 4) != 0) {
    for (uint32_t p = 0; p < panels; ++p) {
      MultiplyFew<Format, 1, 4>(walk, panel + p, 1, row);
    }
    return;
  }
  if ((rows & 2) != 0) {
    for (uint32_t p = 0; p < panels; ++p) {
      MultiplyFew<Format, 1, 2>(walk, panel + p, 1, row);
    }
  }
  if ((rows & 1) != 0) {
    MultiplyFew<Format, int{kPanelsAtOnce}, 1>(walk, panel, panels, row + (rows & 2));
  }
}

template <class Format>
void Multiply(const Product& product, uint32_t panel_begin, uint32_t panel_end) {
  const Walk<Format> walk(product);
  const uint32_t rows = product.row_end - product.row_begin;
  if (rows <= kFewRows) {
    for (uint32_t panel = panel_begin; panel < panel_end; panel += kPanelsAtOnce) {
      const uint32_t left = panel_end - panel;
      MultiplyFewRows(walk, panel, left < kPanelsAtOnce ? left : kPanelsAtOnce, product.row_begin,
                      rows);
    }
    return;
  }
  Scratch<Format> scratch;
  for (uint32_t done = 0; done < rows; done += kRowsOfScratch) {
    const uint32_t left = rows - done;
    const uint32_t count = left < kRowsOfScratch ? left : kRowsOfScratch;
    for (uint32_t panel = panel_begin; panel < panel_end; panel += kTilePanels) {
      const uint32_t panels = panel_end - panel < kTilePanels ? panel_end - panel : kTilePanels;
      MultiplyMany(walk, panel, panels, product.row_begin + done, count, scratch);
    }
  }
}
