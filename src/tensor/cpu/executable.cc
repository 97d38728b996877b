// Hot path: bench/micro/attention_bench.cc, bench/micro/matmul_bench.cc.
#include "tensor/cpu/executable.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "tensor/program_check.h"
#include "tensor/spec/rope.h"
#include "tensor/step_check.h"
#include "tensor/value_buffers.h"

namespace fak::tensor::cpu {

Result<std::unique_ptr<CpuExecutable>> CpuExecutable::Make(Device& device, Program program,
                                                           const StepLimits& limits) {
  const auto threads = static_cast<uint32_t>(device.pool.threads());
  WorkspaceLayout layout = LayOutWorkspace(program, limits, threads);
  TRY_ASSIGN(Arena workspace, Arena::Make(layout.bytes, "a step's workspace"));
  std::unique_ptr<CpuExecutable> made(new CpuExecutable(device, std::move(program), limits,
                                                        std::move(layout), std::move(workspace)));
  CheckProgram(made->program_, made->device_);
  made->ChooseWrongProduct();
  return made;
}

CpuExecutable::CpuExecutable(Device& device, Program program, const StepLimits& limits,
                             WorkspaceLayout layout, Arena workspace)
    : device_(device),
      kernels_(device.kernels),
      program_(std::move(program)),
      limits_(limits),
      layout_(std::move(layout)),
      workspace_(std::move(workspace)),
      ropes_(RopesOf(program_)),
      pair_tasks_(std::make_unique<std::atomic<uint32_t>[]>(PairsMax(device.pool.threads()))) {
  const auto threads = static_cast<size_t>(device.pool.threads());
  uint32_t queries = 0;
  for (const Op& op : program_.ops) {
    if (const auto* attention = std::get_if<AttentionOp>(&op)) {
      queries = std::max(queries, AttentionQueries(attention->heads));
    }
  }
  for (size_t worker = 0; worker < threads; ++worker) {
    const uint64_t at = layout_.scratch + worker * layout_.scratch_bytes;
    Scratch scratch;
    scratch.row = FloatsAt(at + layout_.scratch_row);
    scratch.tile = FloatsAt(at + layout_.scratch_tile);
    scratch.scores = FloatsAt(at + layout_.scratch_scores);
    scratch.queries.resize(queries);
    scratch.peaks.reserve(limits_.logit_rows_max);
    scratch_.push_back(std::move(scratch));
    samplers_.emplace_back(kernels_);
  }
  rows_.reserve(limits_.rows_max);
  row_finite_.resize(limits_.rows_max);
  previous_tokens_.reserve(limits_.logit_rows_max);
  results_.resize(limits_.logit_rows_max);
  finite_.reserve(limits_.sequences_max);
}

// A product long enough that its sums do change with their order: the first of the widest.
void CpuExecutable::ChooseWrongProduct() {
  if (!device_.wrong_order) {
    return;
  }
  for (const Op& op : program_.ops) {
    const auto* project = std::get_if<ProjectResidualOp>(&op);
    if (project != nullptr &&
        (wrong_product_ == nullptr || project->in.width > wrong_product_->in.width)) {
      wrong_product_ = project;
    }
  }
}

void CpuExecutable::TakeRows(const StepInput& step) {
  step_ = step;
  n_rows_ = static_cast<uint32_t>(step.tokens.size());
  n_logit_rows_ = static_cast<uint32_t>(step.logit_rows.size());
  rows_.clear();
  for (uint32_t s = 0; s < step.sequences.size(); ++s) {
    for (uint32_t i = 0; i < step.sequences[s].rows; ++i) {
      rows_.push_back({s, step.sequences[s].first_position + i});
    }
  }
  std::fill_n(row_finite_.begin(), n_rows_, uint8_t{1});
  finite_.assign(step.sequences.size(), 1);
  for (AttentionPlan& plan : attention_plans_) {
    plan.tiles.clear();
  }
}

Status CpuExecutable::Submit(const StepInput& step) {
  CHECK(!in_flight_) << "a step is in flight";
  CheckStep(step, limits_, device_.kv.spec());
  TakeRows(step);
  FillRopeTables();
  for (const Op& op : program_.ops) {
    std::visit([this](const auto& o) { Run(o); }, op);
  }
  previous_tokens_.clear();
  for (uint32_t i = 0; i < n_results_; ++i) {
    previous_tokens_.push_back(results_[i].token);
  }
  in_flight_ = true;
  return {};
}

Result<StepOutput> CpuExecutable::Wait() {
  CHECK(in_flight_) << "no step is in flight";
  in_flight_ = false;
  for (uint32_t row = 0; row < n_rows_; ++row) {
    finite_[rows_[row].sequence] &= row_finite_[row];
  }
  return StepOutput{std::span(results_).first(n_results_), finite_};
}

void CpuExecutable::ReadLogits(uint32_t i, std::span<float> out) const {
  CHECK(i < n_logit_rows_ && out.size() == program_.vocabulary);
  const float* const row = FloatsAt(layout_.logits) + uint64_t{i} * program_.vocabulary;
  std::copy_n(row, program_.vocabulary, out.begin());
}

std::vector<std::string> CpuExecutable::Kernels() const {
  std::vector<std::string> lines;
  const std::string isa(IsaName(kernels_.isa));
  const auto add = [&](std::string line) {
    if (std::ranges::find(lines, line) == lines.end()) {
      lines.push_back(std::move(line));
    }
  };
  const auto add_product = [&](std::string_view verb, const Matrix& matrix) {
    for (const PackedPart& part : matrix.parts) {
      add(std::string(verb) + ": " + MatmulName(part.type, kernels_.isa));
    }
  };
  for (const Op& op : program_.ops) {
    if (const auto* qkv = std::get_if<NormQkvOp>(&op)) {
      add_product("norm_qkv", device_.matrix(qkv->qkv));
    } else if (std::holds_alternative<RopeAppendOp>(op)) {
      add("rope_append: " + isa);
    } else if (std::holds_alternative<AttentionOp>(op)) {
      add("attention: " + isa);
    } else if (const auto* project = std::get_if<ProjectResidualOp>(&op)) {
      add_product("project_residual", device_.matrix(project->matrix));
    } else if (const auto* gate = std::get_if<NormGateUpOp>(&op)) {
      add_product("norm_gate_up", device_.matrix(gate->gate_up));
    } else if (const auto* moe = std::get_if<MoeOp>(&op)) {
      add_product("moe_router", device_.matrix(moe->router));
      const Experts& experts = device_.experts[static_cast<size_t>(moe->experts)];
      add_product("moe", experts.gate_up.front());
      add_product("moe", experts.down.front());
    } else if (const auto* head = std::get_if<HeadOp>(&op)) {
      add_product("head", device_.matrix(head->matrix));
      add("sample: " + isa);
    }
  }
  return lines;
}

void CpuExecutable::FillRopeTables() {
  const uint64_t pairs = layout_.rope_pairs;
  for (size_t index = 0; index < ropes_.size(); ++index) {
    const RopeSpec& rope = device_.rope(ropes_[index]);
    float* const cos = FloatsAt(layout_.rope) + 2 * index * limits_.rows_max * pairs;
    float* const sin = cos + limits_.rows_max * pairs;
    // A table entry costs as much as some fifty floats of other work.
    ForRows(n_rows_, 50 * rope.dims, [&](uint32_t row, int) {
      for (uint32_t i = 0; i < rope.dims / 2; ++i) {
        const spec::RopeEntry entry =
            spec::RopeTableEntry(rows_[row].position, rope.inverse_freq[i], rope.magnitude);
        cos[row * pairs + i] = entry.cos;
        sin[row * pairs + i] = entry.sin;
      }
    });
  }
}

void CpuExecutable::Run(const EmbedOp& op) {
  const Matrix& table = device_.matrix(op.table);
  float* const out = Value(op.out);
  ForRows(n_rows_, op.out.width, [&](uint32_t row, int) {
    int32_t token = step_.tokens[row];
    if (token < 0) {
      const auto sample = static_cast<size_t>(-1 - int64_t{token});
      CHECK(sample < previous_tokens_.size()) << "no such sample in the last step";
      token = previous_tokens_[sample];
      if (token < 0) {  // nothing was drawn: whoever reads on is told, and computes in vain
        row_finite_[row] = 0;
        token = 0;
      }
    }
    CHECK(static_cast<uint32_t>(token) < table.rows) << "token beyond the vocabulary";
    table.EmbedRow(static_cast<uint32_t>(token), op.scale, out + uint64_t{row} * op.out.width);
  });
}

}  // namespace fak::tensor::cpu
