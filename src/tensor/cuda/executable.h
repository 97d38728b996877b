#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/backend.h"
#include "tensor/cpu/sample.h"
#include "tensor/cuda/attention.h"
#include "tensor/cuda/device.h"
#include "tensor/cuda/product.h"
#include "tensor/cuda/step_graphs.h"
#include "tensor/cuda/workspace.h"
#include "tensor/spec/attention.h"

namespace fak::tensor::cuda {

// A program as launches on the device's stream, a verb two to ten of them, or as a graph of them
// for a small step whose shape came before (step_graphs.h). Submit() queues a step and returns;
// Wait() waits for it and draws the samples on the host, by the CPU's sampler. A step takes no
// memory of the device.
//
// Reading order: executable.cc (a step), verbs.cc.
class CudaExecutable final : public Executable {
 public:
  // `device` must outlive it. kUnsupported: more rows than a grid has.
  [[nodiscard]] static Result<std::unique_ptr<Executable>> Make(Device& device, Program program,
                                                                const StepLimits& limits);
  ~CudaExecutable() override;

  Status Submit(const StepInput& step) override;
  Result<StepOutput> Wait() override;
  void ReadLogits(uint32_t i, std::span<float> out) const override;
  std::vector<std::string> Kernels() const override;

 private:
  // What the host says of a step, on the device.
  struct StepView {
    const int32_t* tokens = nullptr;
    const uint32_t* positions = nullptr;
    const uint32_t* tables = nullptr;
    const uint32_t* blocks = nullptr;
    const uint32_t* logit_rows = nullptr;
    std::vector<const float*> cos;  // by rope, [row][rope_pairs]
    std::vector<const float*> sin;
  };
  // Where the outputs of a product go.
  struct Sink {
    float* out = nullptr;
    uint32_t stride = 0;
    bool residual = false;
  };
  // Experts' rows of weights, in place of a matrix's.
  struct Choices {
    const int32_t* ids = nullptr;
    uint32_t choices_a_row = 1;
  };

  CudaExecutable(Device& device, Program program, const StepLimits& limits, WorkspaceLayout layout);
  void CheckShapes() const;
  [[nodiscard]] Status Allocate();

  // A step.
  [[nodiscard]] Status Upload(const StepInput& step);
  // Appends to what goes to the device; returns where it will be there.
  template <class T>
  const T* Put(std::span<const T> values);
  void PutTokens(const StepInput& step);
  void PutRows(const StepInput& step);
  void PutBlocks(const StepInput& step);
  void PutRopes();
  void Sample();

  [[nodiscard]] Status Launch();
  [[nodiscard]] Status Run(const EmbedOp& op);
  [[nodiscard]] Status Run(const NormQkvOp& op);
  [[nodiscard]] Status Run(const RopeAppendOp& op);
  [[nodiscard]] Status Run(const AttentionOp& op);
  [[nodiscard]] Status Run(const ProjectResidualOp& op);
  [[nodiscard]] Status Run(const NormGateUpOp& op);
  [[nodiscard]] Status Run(const MoeOp& op);
  [[nodiscard]] Status Run(const HeadOp& op);

  // Fills the inputs of the next products. classes: a bit each.
  [[nodiscard]] Status PrepareInputs(const float* x, uint32_t width, const Norm* maybe_norm,
                                     uint32_t classes, uint32_t rows,
                                     const uint32_t* maybe_rows = nullptr);
  [[nodiscard]] Status MultiplyPart(cudaStream_t stream, const Part& part, uint32_t outputs,
                                    uint32_t rows, const Sink& sink,
                                    const Choices* maybe_choices = nullptr);
  [[nodiscard]] Status MultiplyMatrix(const Matrix& matrix, uint32_t rows, const Sink& sink);
  [[nodiscard]] Status MultiplyBoth(const Part& a, const Part& b, uint32_t outputs, uint32_t rows,
                                    float* out_a, float* out_b,
                                    const Choices* maybe_choices = nullptr);
  PagedRows Paged(uint32_t kv_layer) const;
  uint32_t Splits() const { return last_position_ / spec::kSplit + 1; }

  std::byte* At(uint64_t offset) const { return workspace_.data() + offset; }
  float* FloatsAt(uint64_t offset) const { return reinterpret_cast<float*>(At(offset)); }
  float* Value(const Rows& rows) const { return FloatsAt(layout_.values[rows.id]); }
  uint8_t* Finite() const { return reinterpret_cast<uint8_t*>(At(layout_.finite)); }

  Device& device_;
  const Program program_;
  const StepLimits limits_;
  const WorkspaceLayout layout_;
  const std::vector<RopeId> ropes_;
  Arena workspace_;
  Pinned step_memory_;    // goes to the device
  Pinned finite_memory_;  // a byte a row comes back
  Pinned logit_memory_;   // so do logits, when tokens are drawn
  cpu::Sampler sampler_;
  StepGraphs graphs_;

  // The step at work.
  uint64_t step_used_ = 0;
  StepView view_;
  uint32_t n_rows_ = 0;
  uint32_t n_logit_rows_ = 0;
  uint32_t last_position_ = 0;  // the highest of all rows
  std::span<const SampleSpec> samples_;
  std::vector<uint32_t> row_sequences_;
  std::vector<uint32_t> row_positions_;

  // What the last step gave.
  bool in_flight_ = false;
  std::vector<SampleResult> results_;
  uint32_t n_results_ = 0;
  std::vector<uint8_t> finite_;
};

}  // namespace fak::tensor::cuda
