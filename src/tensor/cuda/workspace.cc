#include "tensor/cuda/workspace.h"

#include <algorithm>
#include <variant>

#include "tensor/cuda/attention.h"
#include "tensor/cuda/memory.h"
#include "tensor/spec/attention.h"
#include "tensor/value_buffers.h"

namespace fak::tensor::cuda {
namespace {

constexpr uint64_t kBlockSizeMin = 16;  // of KV
// What attention's results by split may take; rows that don't fit are attended to after others.
constexpr uint64_t kPartialBytes = uint64_t{256} << 20;

// The widest and most of what the verbs of a program need.
struct Needs {
  uint32_t input = 0;    // width of a product's input, of rows
  uint32_t hidden = 0;   // the same, of choices
  uint32_t product = 0;  // width of a product that waits, of rows
  uint32_t up = 0;       // the same, of those it is gated with
  uint32_t choice = 0;   // of products of choices
  uint32_t experts = 0;
  uint32_t top_k = 0;
  uint32_t pairs = 0;
  uint64_t partials = 0;  // floats of a row
};

Needs NeedsOf(const Program& program, const StepLimits& limits) {
  Needs needs;
  const auto most = [](auto& at, auto value) { at = std::max(at, value); };
  for (const Op& op : program.ops) {
    most(needs.input, ProductWidth(op));
    if (const auto* project = std::get_if<ProjectResidualOp>(&op)) {
      if (project->post_norm.weight != kNoVector) {
        most(needs.product, project->x.width);
        most(needs.input, project->x.width);
      }
    } else if (const auto* gate = std::get_if<NormGateUpOp>(&op)) {
      most(needs.product, gate->out.width);
      most(needs.up, gate->out.width);
    } else if (const auto* moe = std::get_if<MoeOp>(&op)) {
      most(needs.hidden, moe->ff);
      most(needs.choice, std::max(moe->ff, moe->x.width));
      most(needs.experts, moe->n_experts);
      most(needs.top_k, moe->top_k);
    } else if (const auto* append = std::get_if<RopeAppendOp>(&op)) {
      most(needs.pairs, append->heads.dim / 2);
    } else if (const auto* attention = std::get_if<AttentionOp>(&op)) {
      const uint32_t splits = (limits.positions_max + spec::kSplit - 1) / spec::kSplit;
      most(needs.partials, PartialFloats(attention->heads, splits));
    }
  }
  return needs;
}

}  // namespace

WorkspaceLayout LayOutWorkspace(const Program& program, const StepLimits& limits) {
  WorkspaceLayout layout;
  const auto take = [&](uint64_t bytes) {
    const uint64_t at = layout.bytes;
    layout.bytes += Aligned(bytes);
    return at;
  };
  const auto take_floats = [&](uint64_t count) { return take(count * sizeof(float)); };
  const Needs needs = NeedsOf(program, limits);
  const uint64_t rows = limits.rows_max;
  const uint64_t choices = rows * needs.top_k;

  const ValueBuffers buffers = PlanValueBuffers(program);
  std::vector<uint64_t> offsets;
  for (const uint32_t width : buffers.widths) {
    offsets.push_back(take_floats(rows * width));
  }
  for (const size_t buffer : buffers.of_values) {
    layout.values.push_back(buffer == ValueBuffers::kNone ? 0 : offsets[buffer]);
  }
  const uint64_t inputs = std::max(
      {rows * needs.input, choices * needs.hidden, uint64_t{limits.logit_rows_max} * needs.input});
  // A row's last block may be shorter.
  const uint64_t rows_all = std::max(rows, choices);
  layout.floats = take_floats(inputs);
  layout.int8x32 = take(inputs);
  layout.scales32 = take_floats(inputs / 32 + rows_all);
  layout.int8x256 = take(inputs);
  layout.scales256 = take_floats(inputs / 256 + rows_all);
  layout.products = take_floats(std::max(rows * needs.product, choices * needs.choice));
  layout.ups = take_floats(std::max(rows * needs.up, choices * needs.hidden));
  layout.router_logits = take_floats(rows * needs.experts);
  layout.router_ids = take_floats(choices);
  layout.router_weights = take_floats(choices);
  layout.logits = take_floats(uint64_t{limits.logit_rows_max} * program.vocabulary);
  layout.partial_floats =
      std::max(needs.partials, std::min(kPartialBytes / sizeof(float), rows * needs.partials));
  layout.partials = take_floats(layout.partial_floats);
  layout.finite = take(rows);
  layout.rope_pairs = needs.pairs;
  layout.top_k = needs.top_k;
  const uint64_t tables = limits.sequences_max * (limits.positions_max / kBlockSizeMin + 1);
  const uint64_t ropes = 2 * RopesOf(program).size() * rows * needs.pairs;
  layout.step_bytes = Aligned(4 * (3 * rows + limits.logit_rows_max + tables + ropes) + rows +
                              kAlignment * (6 + 2 * RopesOf(program).size()));
  layout.step = take(layout.step_bytes);
  return layout;
}

}  // namespace fak::tensor::cuda
