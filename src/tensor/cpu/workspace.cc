#include "tensor/cpu/workspace.h"

#include <algorithm>
#include <variant>

#include "tensor/cpu/kernels.h"
#include "tensor/value_buffers.h"

namespace fak::tensor::cpu {
namespace {

class Planner {
 public:
  Planner(const Program& program, const StepLimits& limits, uint32_t threads)
      : program_(program), limits_(limits), threads_(threads) {}

  WorkspaceLayout Plan() {
    PlaceValues();
    PlaceProducts();
    PlaceRope();
    PlaceExperts();
    layout_.logits = Take(uint64_t{limits_.logit_rows_max} * program_.vocabulary * sizeof(float));
    PlaceScratch();
    return layout_;
  }

 private:
  uint64_t Take(uint64_t bytes) {
    const uint64_t at = layout_.bytes;
    layout_.bytes += (bytes + kPackAlignment - 1) / kPackAlignment * kPackAlignment;
    return at;
  }
  uint64_t TakeFloats(uint64_t count) { return Take(count * sizeof(float)); }
  uint64_t TakeActivations(ActivationClass type, uint32_t rows, uint32_t cols) {
    return cols == 0 ? 0 : Take(ActivationBytes(type, rows, cols));
  }

  void PlaceValues() {
    const ValueBuffers buffers = PlanValueBuffers(program_);
    std::vector<uint64_t> offsets;
    for (const uint32_t width : buffers.widths) {
      offsets.push_back(TakeFloats(uint64_t{limits_.rows_max} * width));
    }
    for (const size_t buffer : buffers.of_values) {
      layout_.values.push_back(buffer == ValueBuffers::kNone ? 0 : offsets[buffer]);
    }
  }

  void PlaceProducts() {
    uint32_t product_width = 0;
    for (const Op& op : program_.ops) {
      widest_input_ = std::max(widest_input_, ProductWidth(op));
      if (const auto* project = std::get_if<ProjectResidualOp>(&op)) {
        if (project->post_norm.weight != kNoVector) {
          product_width = std::max(product_width, project->x.width);
        }
      }
    }
    for (const ActivationClass type : kActivationClasses) {
      layout_.activations[static_cast<size_t>(type)] =
          TakeActivations(type, limits_.rows_max, widest_input_);
    }
    layout_.products = TakeFloats(uint64_t{limits_.rows_max} * product_width);
  }

  void PlaceRope() {
    for (const Op& op : program_.ops) {
      if (const auto* append = std::get_if<RopeAppendOp>(&op)) {
        layout_.rope_pairs = std::max(layout_.rope_pairs, append->heads.dim / 2);
      }
    }
    layout_.rope =
        TakeFloats(uint64_t{2} * RopesOf(program_).size() * limits_.rows_max * layout_.rope_pairs);
  }

  void PlaceExperts() {
    uint32_t top_k = 0;
    uint32_t ff = 0;
    uint32_t width = 0;
    uint32_t n_experts = 0;
    for (const Op& op : program_.ops) {
      if (const auto* moe = std::get_if<MoeOp>(&op)) {
        top_k = std::max(top_k, moe->top_k);
        ff = std::max(ff, moe->ff);
        width = std::max(width, moe->x.width);
        n_experts = std::max(n_experts, moe->n_experts);
      }
    }
    const uint64_t rows = uint64_t{limits_.rows_max} * top_k;
    for (const ActivationClass type : kActivationClasses) {
      const auto index = static_cast<size_t>(type);
      // Each expert's rows are a buffer of their own, so count rows one by one.
      layout_.expert_inputs[index] =
          Take(rows * (width == 0 ? 0 : ActivationBytes(type, 1, width)));
      layout_.expert_hidden[index] = Take(rows * (ff == 0 ? 0 : ActivationBytes(type, 1, ff)));
    }
    layout_.expert_rows = TakeFloats(rows * std::max(ff, width));
    layout_.router_logits = TakeFloats(uint64_t{limits_.rows_max} * n_experts);
    layout_.router_choice = TakeFloats(rows * 2);
    widest_row_ = std::max(widest_input_, ff);
  }

  void PlaceScratch() {
    uint64_t queries = 0;
    uint64_t partials = 0;
    const uint64_t splits =
        (uint64_t{limits_.positions_max} + kSplitPositions - 1) / kSplitPositions;
    for (const Op& op : program_.ops) {
      if (const auto* attention = std::get_if<AttentionOp>(&op)) {
        const uint64_t n = AttentionQueries(attention->heads);
        queries = std::max(queries, n);
        partials = std::max(partials, PartialFloats(n, splits, attention->heads.dim));
      }
    }
    layout_.partials_a_thread = partials;
    layout_.partials = TakeFloats(partials * threads_);
    const uint64_t start = layout_.bytes;
    layout_.scratch = start;
    layout_.scratch_row = TakeFloats(ValueStride(widest_row_)) - start;
    layout_.scratch_tile = TakeFloats(uint64_t{2} * kTileRows * kTilePanels * kPanelRows) - start;
    layout_.scratch_scores = TakeFloats(queries * kSplitPositions) - start;
    layout_.scratch_bytes = layout_.bytes - start;
    layout_.bytes = start + layout_.scratch_bytes * threads_;
  }

  const Program& program_;
  const StepLimits& limits_;
  const uint32_t threads_;
  uint32_t widest_input_ = 0;
  uint32_t widest_row_ = 0;
  WorkspaceLayout layout_;
};

}  // namespace

uint32_t AttentionRows(const HeadShape& heads) {
  return std::max(kQueriesATask / (heads.q_heads / heads.kv_heads), 1u);
}

uint32_t AttentionQueries(const HeadShape& heads) {
  return AttentionRows(heads) * (heads.q_heads / heads.kv_heads);
}

WorkspaceLayout LayOutWorkspace(const Program& program, const StepLimits& limits,
                                uint32_t threads) {
  return Planner(program, limits, threads).Plan();
}

}  // namespace fak::tensor::cpu
