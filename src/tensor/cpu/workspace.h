#pragma once

#include <cstdint>
#include <vector>

#include "tensor/backend.h"
#include "tensor/cpu/matmul.h"
#include "tensor/program.h"

namespace fak::tensor::cpu {

inline constexpr ActivationClass kActivationClasses[] = {
    ActivationClass::kFloat, ActivationClass::kInt8x32, ActivationClass::kInt8x256};
inline constexpr size_t kActivationClassCount = 3;

// Query heads (times rows) that one attention task serves, unless a KV head has more of them.
inline constexpr uint32_t kQueriesATask = 32;
// Rows and panels of a product whose outputs a thread holds until it is done with them.
inline constexpr uint32_t kTileRows = 64;
inline constexpr uint32_t kTilePanels = 8;

// Rows of a sequence that one attention task serves, and its query heads over all of them.
uint32_t AttentionRows(const HeadShape& heads);
uint32_t AttentionQueries(const HeadShape& heads);
// Floats of a query's weighted V, rounded up to whole vectors.
constexpr uint32_t ValueStride(uint32_t head_dim) {
  return (head_dim + 15) / 16 * 16;
}
// Floats that hold what so many queries found in so many splits: weighted V, then maxima and sums.
constexpr uint64_t PartialFloats(uint64_t queries, uint64_t splits, uint32_t head_dim) {
  return (queries * splits * (ValueStride(head_dim) + 2) + 15) / 16 * 16;
}

// Where everything that a step needs lies in the one workspace arena: offsets in bytes, 64-byte
// aligned. A function of program and limits alone, so that it can be priced before loading.
struct WorkspaceLayout {
  std::vector<uint64_t> values;  // of value n of the program: rows_max rows of its width
  uint64_t activations[kActivationClassCount] = {};  // inputs of the product at work
  uint64_t products = 0;                             // outputs that wait for a post norm
  uint32_t rope_pairs = 0;                           // of a row, at most
  uint64_t rope = 0;                                 // cosines, then sines, of rows_max rows
  uint64_t logits = 0;
  // Attention's results by split: so many floats a thread, whose shares lie side by side.
  uint64_t partials = 0;
  uint64_t partials_a_thread = 0;

  // Mixture of experts: rows_max · top_k rows of each.
  uint64_t expert_inputs[kActivationClassCount] = {};
  uint64_t expert_hidden[kActivationClassCount] = {};
  uint64_t expert_rows = 0;  // hidden, then outputs, as floats
  uint64_t router_logits = 0;
  uint64_t router_choice = 0;  // ids, then weights

  // Of each thread: the first lies at `scratch`, the others follow at scratch_bytes.
  uint64_t scratch = 0;
  uint64_t scratch_bytes = 0;
  uint64_t scratch_row = 0;  // offsets inside: a row as floats
  uint64_t scratch_tile = 0;
  uint64_t scratch_scores = 0;

  uint64_t bytes = 0;
};

WorkspaceLayout LayOutWorkspace(const Program& program, const StepLimits& limits, uint32_t threads);

}  // namespace fak::tensor::cpu
