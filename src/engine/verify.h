#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/verify_cells.h"
#include "engine/verify_trace.h"
#include "tensor/cpu_backend.h"

namespace fak::engine {

// One cell of the matrix, run and compared with the reference of its KV type and prompt.
struct CellResult {
  VerifyCell cell;
  uint32_t prompt_tokens = 0;
  std::vector<std::string> kernels;  // "verb: kernel" lines, as Executable::Kernels()
  Comparison comparison;
  std::string failure;  // not empty: the path that the cell promises was not walked
  double seconds = 0.0;

  bool exact() const { return comparison.differing() == 0 && failure.empty(); }
};

// Something that must differ from the reference. One that does not shows that the comparison is
// broken, so that no cell's result means anything.
struct ControlResult {
  std::string name;
  Comparison comparison;
  bool noticed = false;
};

struct VerifyReport {
  std::string numerics;  // of the back end: "portable-1"
  std::vector<CellResult> cells;
  std::vector<ControlResult> controls;

  bool exact() const;
};

struct VerifyOptions {
  VerifyCover cover = VerifyCover::kPairs;
  std::vector<tensor::Isa> isas = {};  // that cells run; empty: all of this machine
  // Null: CreateCpuBackend. Tests put faults in here, and --device another back end in place of the
  // CPU's. References have 0 threads, the control of another order `wrong_order`; both need the
  // CPU.
  std::function<Result<std::unique_ptr<tensor::Backend>>(const tensor::CpuOptions&)> make_backend;
  // What is done, of all that is to do, and what comes next. May be null.
  std::function<void(std::string_view next, uint32_t done, uint32_t all)> on_progress;
  std::function<void(const CellResult&)> on_cell;  // may be null
};

// Walks the matrix over a model file: every cell's KV and logits must have the bits of the
// reference, which is batch 1, the whole prompt at once, cold, the scalar kernels. Then three
// controls that must differ: another prompt, a flipped bit of KV, a product summed in another
// order. One engine is in memory at a time; the caller's thread does the stepping. Blocks: seconds
// for a tiny model, minutes for a small one. Errors: the model's (LoadEngine), kUnsupported when
// its context is shorter than the longest prompt.
[[nodiscard]] Result<VerifyReport> Verify(const std::string& path, const VerifyOptions& options);

}  // namespace fak::engine
