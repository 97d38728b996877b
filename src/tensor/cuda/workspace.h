#pragma once

#include <cstdint>
#include <vector>

#include "tensor/backend.h"
#include "tensor/program.h"

namespace fak::tensor::cuda {

// Rows, times the experts of each, that a step may hold: a dimension of CUDA's grids.
inline constexpr uint64_t kGridRowsMax = 65535;

// Where everything that a step needs lies in the one workspace arena: offsets in bytes. A function
// of program and limits alone, so that it can be priced before loading.
struct WorkspaceLayout {
  std::vector<uint64_t> values;  // of value n of the program: rows_max rows of its width
  // Inputs of the product at work, and their scales.
  uint64_t floats = 0;
  uint64_t int8x32 = 0;
  uint64_t scales32 = 0;
  uint64_t int8x256 = 0;
  uint64_t scales256 = 0;
  uint64_t products = 0;  // that wait for a norm or to be gated: floats
  uint64_t ups = 0;
  uint64_t router_logits = 0;
  uint64_t router_ids = 0;
  uint64_t router_weights = 0;
  uint64_t logits = 0;
  uint64_t partials = 0;  // attention's results by split
  uint64_t partial_floats = 0;
  uint64_t finite = 0;      // a byte a row
  uint64_t step = 0;        // what the host says of a step
  uint64_t step_bytes = 0;  // at most
  uint32_t rope_pairs = 0;  // of a row, at most
  uint32_t top_k = 0;       // at most; 0: no experts

  uint64_t bytes = 0;
};

WorkspaceLayout LayOutWorkspace(const Program& program, const StepLimits& limits);

}  // namespace fak::tensor::cuda
