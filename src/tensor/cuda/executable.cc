#include "tensor/cuda/executable.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "base/limits.h"
#include "tensor/cuda/status.h"
#include "tensor/program_check.h"
#include "tensor/spec/rope.h"
#include "tensor/step_check.h"
#include "tensor/value_buffers.h"

namespace fak::tensor::cuda {

namespace {

std::span<const BlockId> UsedBlocks(const SequenceRows& sequence, uint32_t block_size) {
  const uint32_t last_position = sequence.first_position + sequence.rows - 1;
  return sequence.blocks.first(
      std::min<size_t>(sequence.blocks.size(), last_position / block_size + 1));
}

}  // namespace

Result<std::unique_ptr<Executable>> CudaExecutable::Make(Device& device, Program program,
                                                         const StepLimits& limits) {
  WorkspaceLayout layout = LayOutWorkspace(program, limits);
  const uint64_t rows = uint64_t{limits.rows_max} * std::max(layout.top_k, 1u);
  if (rows > kGridRowsMax) {
    return Fail(Code::kUnsupported,
                "a step of " + std::to_string(limits.rows_max) + " rows is " +
                    std::to_string(rows) + " rows of experts; on a GPU at most " +
                    std::to_string(kGridRowsMax),
                "--max-num-batched-tokens");
  }
  std::unique_ptr<CudaExecutable> made(
      new CudaExecutable(device, std::move(program), limits, std::move(layout)));
  CheckProgram(made->program_, made->device_);
  made->CheckShapes();
  TRY(made->Allocate());
  return made;
}

CudaExecutable::CudaExecutable(Device& device, Program program, const StepLimits& limits,
                               WorkspaceLayout layout)
    : device_(device),
      program_(std::move(program)),
      limits_(limits),
      layout_(std::move(layout)),
      ropes_(RopesOf(program_)),
      sampler_(cpu::KernelsFor(CpuIsas().back())) {
  results_.resize(limits_.logit_rows_max);
}

CudaExecutable::~CudaExecutable() {
  device_.Use();
  cudaStreamSynchronize(device_.stream);
}

Status CudaExecutable::Allocate() {
  TRY_ASSIGN(workspace_, Arena::Make(layout_.bytes, "a step's workspace"));
  TRY_ASSIGN(step_memory_, Pinned::Make(layout_.step_bytes, "a step's rows"));
  TRY_ASSIGN(finite_memory_, Pinned::Make(limits_.rows_max, "a step's rows"));
  TRY_ASSIGN(logit_memory_,
             Pinned::Make(uint64_t{limits_.logit_rows_max} * program_.vocabulary * sizeof(float),
                          "a step's logits"));
  return {};
}

// What the kernels ask for beside that.
void CudaExecutable::CheckShapes() const {
  for (const Op& op : program_.ops) {
    if (const auto* embed = std::get_if<EmbedOp>(&op)) {
      CHECK(device_.matrix(embed->table).parts.size() == 1);
    } else if (const auto* append = std::get_if<RopeAppendOp>(&op)) {
      CHECK(append->heads.dim <= limits::kHeadDimMax);
    }
  }
}

template <class T>
const T* CudaExecutable::Put(std::span<const T> values) {
  const uint64_t at = step_used_;
  CHECK(at + values.size_bytes() <= layout_.step_bytes);
  std::memcpy(step_memory_.data() + at, values.data(), values.size_bytes());
  step_used_ += Aligned(values.size_bytes());
  return reinterpret_cast<const T*>(At(layout_.step + at));
}

// Ids, with what the last step drew in its place. A row whose token was never drawn is lost:
// whoever reads on is told, and computes in vain.
void CudaExecutable::PutTokens(const StepInput& step) {
  std::vector<int32_t> tokens(step.tokens.begin(), step.tokens.end());
  auto* const finite = reinterpret_cast<uint8_t*>(finite_memory_.data());
  for (size_t row = 0; row < tokens.size(); ++row) {
    finite[row] = 1;
    if (tokens[row] < 0) {
      const auto sample = static_cast<size_t>(-1 - int64_t{tokens[row]});
      CHECK(sample < n_results_) << "no such sample in the last step";
      tokens[row] = results_[sample].token;
      if (tokens[row] < 0) {
        finite[row] = 0;
        tokens[row] = 0;
      }
    }
    for (const Op& op : program_.ops) {
      const auto* const embed = std::get_if<EmbedOp>(&op);
      CHECK(embed == nullptr ||
            static_cast<uint32_t>(tokens[row]) < device_.matrix(embed->table).rows)
          << "token beyond the vocabulary";
    }
  }
  view_.tokens = Put<int32_t>(tokens);
}

void CudaExecutable::PutRows(const StepInput& step) {
  row_sequences_.clear();
  row_positions_.clear();
  std::vector<uint32_t> tables;
  size_t blocks = 0;
  last_position_ = 0;
  for (uint32_t s = 0; s < step.sequences.size(); ++s) {
    const SequenceRows& sequence = step.sequences[s];
    for (uint32_t i = 0; i < sequence.rows; ++i) {
      row_sequences_.push_back(s);
      row_positions_.push_back(sequence.first_position + i);
      tables.push_back(static_cast<uint32_t>(blocks));
    }
    last_position_ = std::max(last_position_, row_positions_.back());
    blocks += UsedBlocks(sequence, device_.kv.spec().block_size).size();
  }
  view_.positions = Put<uint32_t>(row_positions_);
  view_.tables = Put<uint32_t>(tables);
  view_.logit_rows = Put(step.logit_rows);
}

// The last thing of a step, as only the number of these isn't given by its shape: a graph has the
// addresses of all others in it.
void CudaExecutable::PutBlocks(const StepInput& step) {
  std::vector<uint32_t> blocks;
  for (const SequenceRows& sequence : step.sequences) {
    for (const BlockId block : UsedBlocks(sequence, device_.kv.spec().block_size)) {
      blocks.push_back(static_cast<uint32_t>(block));
    }
  }
  view_.blocks = Put<uint32_t>(blocks);
}

// Numerics rule 9: angles are the host's, in f64.
void CudaExecutable::PutRopes() {
  const uint64_t pairs = layout_.rope_pairs;
  std::vector<float> cos(n_rows_ * pairs);
  std::vector<float> sin(n_rows_ * pairs);
  view_.cos.clear();
  view_.sin.clear();
  for (const RopeId id : ropes_) {
    const RopeSpec& rope = device_.rope(id);
    for (uint32_t row = 0; row < n_rows_; ++row) {
      for (uint32_t i = 0; i < rope.dims / 2; ++i) {
        const spec::RopeEntry entry =
            spec::RopeTableEntry(row_positions_[row], rope.inverse_freq[i], rope.magnitude);
        cos[row * pairs + i] = entry.cos;
        sin[row * pairs + i] = entry.sin;
      }
    }
    view_.cos.push_back(Put<float>(cos));
    view_.sin.push_back(Put<float>(sin));
  }
}

Status CudaExecutable::Upload(const StepInput& step) {
  n_rows_ = static_cast<uint32_t>(step.tokens.size());
  n_logit_rows_ = static_cast<uint32_t>(step.logit_rows.size());
  samples_ = step.samples;
  finite_.assign(step.sequences.size(), 1);
  step_used_ = 0;
  PutTokens(step);
  PutRows(step);
  PutRopes();
  PutBlocks(step);
  TRY_CUDA(cudaMemcpyAsync(At(layout_.step), step_memory_.data(), step_used_,
                           cudaMemcpyHostToDevice, device_.stream));
  TRY_CUDA(cudaMemcpyAsync(Finite(), finite_memory_.data(), n_rows_, cudaMemcpyHostToDevice,
                           device_.stream));
  return {};
}

Status CudaExecutable::Launch() {
  for (const Op& op : program_.ops) {
    TRY(std::visit([this](const auto& o) { return Run(o); }, op));
  }
  return {};
}

Status CudaExecutable::Submit(const StepInput& step) {
  CHECK(!in_flight_) << "a step is in flight";
  CheckStep(step, limits_, device_.kv.spec());
  device_.Use();
  TRY(device_.failed);
  TRY(Upload(step));
  TRY(graphs_.Run({n_rows_, n_logit_rows_, Splits()}, device_.stream, [this] { return Launch(); }));
  TRY_CUDA(cudaMemcpyAsync(finite_memory_.data(), Finite(), n_rows_, cudaMemcpyDeviceToHost,
                           device_.stream));
  if (!samples_.empty()) {
    TRY_CUDA(cudaMemcpyAsync(logit_memory_.data(), At(layout_.logits),
                             uint64_t{n_logit_rows_} * program_.vocabulary * sizeof(float),
                             cudaMemcpyDeviceToHost, device_.stream));
  }
  in_flight_ = true;
  return {};
}

Result<StepOutput> CudaExecutable::Wait() {
  CHECK(in_flight_) << "no step is in flight";
  in_flight_ = false;
  n_results_ = 0;
  device_.Use();
  TRY_CUDA(cudaStreamSynchronize(device_.stream));
  const auto* const finite = reinterpret_cast<const uint8_t*>(finite_memory_.data());
  for (uint32_t row = 0; row < n_rows_; ++row) {
    finite_[row_sequences_[row]] &= finite[row];
  }
  Sample();
  return StepOutput{std::span(results_).first(n_results_), finite_};
}

void CudaExecutable::Sample() {
  const auto* const logits = reinterpret_cast<const float*>(logit_memory_.data());
  const cpu::Kernels& kernels = cpu::KernelsFor(CpuIsas().back());
  n_results_ = static_cast<uint32_t>(samples_.size());
  for (uint32_t i = 0; i < n_results_; ++i) {
    const std::span<const float> row(logits + uint64_t{i} * program_.vocabulary,
                                     program_.vocabulary);
    cpu::LogitPeak peak;
    peak.Add(kernels, row, 0);
    sampler_.Sample(row, peak, samples_[i], results_[i]);
  }
}

void CudaExecutable::ReadLogits(uint32_t i, std::span<float> out) const {
  CHECK(i < n_logit_rows_ && out.size() == program_.vocabulary);
  device_.Use();
  const float* const row = FloatsAt(layout_.logits) + uint64_t{i} * program_.vocabulary;
  device_.Note(CudaStatus(
      cudaMemcpyAsync(out.data(), row, out.size_bytes(), cudaMemcpyDeviceToHost, device_.stream),
      "cudaMemcpyAsync"));
  device_.Note(CudaStatus(cudaStreamSynchronize(device_.stream), "cudaStreamSynchronize"));
}

std::vector<std::string> CudaExecutable::Kernels() const {
  std::vector<std::string> lines;
  const auto add = [&](std::string_view verb, std::string_view what) {
    std::string line(verb);
    line += ": ";
    line += what;
    line += line.ends_with(' ') ? "" : " ";
    line += device_.chip;
    if (std::ranges::find(lines, line) == lines.end()) {
      lines.push_back(std::move(line));
    }
  };
  const auto add_parts = [&](std::string_view verb, std::span<const Part> parts) {
    for (const Part& part : parts) {
      std::string type(DTypeName(part.type));
      std::ranges::transform(type, type.begin(), [](char c) {
        return 'A' <= c && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
      });
      add(verb, type);
    }
  };
  for (const Op& op : program_.ops) {
    if (const auto* qkv = std::get_if<NormQkvOp>(&op)) {
      add_parts("norm_qkv", device_.matrix(qkv->qkv).parts);
    } else if (std::holds_alternative<RopeAppendOp>(op)) {
      add("rope_append", "");
    } else if (std::holds_alternative<AttentionOp>(op)) {
      add("attention", "");
    } else if (const auto* project = std::get_if<ProjectResidualOp>(&op)) {
      add_parts("project_residual", device_.matrix(project->matrix).parts);
    } else if (const auto* gate = std::get_if<NormGateUpOp>(&op)) {
      add_parts("norm_gate_up", device_.matrix(gate->gate_up).parts);
    } else if (const auto* moe = std::get_if<MoeOp>(&op)) {
      const Experts& experts = device_.experts[static_cast<size_t>(moe->experts)];
      add_parts("moe_router", device_.matrix(moe->router).parts);
      add_parts("moe", std::vector{experts.gate, experts.up, experts.down});
    } else if (const auto* head = std::get_if<HeadOp>(&op)) {
      add_parts("head", device_.matrix(head->matrix).parts);
    }
  }
  return lines;
}

}  // namespace fak::tensor::cuda
