// Hot path: bench/micro/sample_bench.cc. The end of a step: which sequences stayed finite, and what
// is drawn from the logits.
#include <cstdint>

#include "tensor/cpu/executable.h"

namespace fak::tensor::cpu {

void CpuExecutable::TestRows(const Rows& x) {
  const float* const rows = Value(x);
  ForRows(n_rows_, x.width, [&](uint32_t row, int) {
    row_finite_[row] &= kernels_.all_finite(rows + uint64_t{row} * x.width, x.width) ? 1 : 0;
  });
}

void CpuExecutable::SampleRows() {
  const uint32_t vocabulary = program_.vocabulary;
  const float* const logits = FloatsAt(layout_.logits);
  n_results_ = static_cast<uint32_t>(step_.samples.size());
  ForRows(n_logit_rows_, vocabulary, [&](uint32_t i, int worker) {
    LogitPeak peak;
    for (const Scratch& scratch : scratch_) {
      peak.Join(scratch.peaks[i]);
    }
    if (!peak.finite) {
      row_finite_[step_.logit_rows[i]] = 0;
    }
    if (!step_.samples.empty()) {
      const std::span<const float> row(logits + uint64_t{i} * vocabulary, vocabulary);
      samplers_[static_cast<size_t>(worker)].Sample(row, peak, step_.samples[i], results_[i]);
    }
  });
}

}  // namespace fak::tensor::cpu
