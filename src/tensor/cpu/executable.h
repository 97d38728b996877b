// Hot path: bench/micro/attention_bench.cc, bench/micro/matmul_bench.cc.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/backend.h"
#include "tensor/cpu/arena.h"
#include "tensor/cpu/attention_plan.h"
#include "tensor/cpu/device.h"
#include "tensor/cpu/sample.h"
#include "tensor/cpu/workspace.h"

namespace fak::tensor::cpu {

// The activation classes that a matrix's parts want, a bit each.
uint32_t ClassesOf(const Matrix& matrix);

// A program as a chain of fork-joins on the device's pool: a verb is one to three of them, small
// ones run on the calling thread alone. Tasks are finer than the threads are many, so that a thread
// that lost its core holds up the join by one task only; a task's result depends on its index
// alone. A step allocates nothing once every list has grown to its size.
//
// Reading order: executable.cc (a step), products.cc, attention.cc, experts.cc, head.cc.
class CpuExecutable final : public Executable {
 public:
  // `device` must outlive it.
  [[nodiscard]] static Result<std::unique_ptr<CpuExecutable>> Make(Device& device, Program program,
                                                                   const StepLimits& limits);

  Status Submit(const StepInput& step) override;
  Result<StepOutput> Wait() override;
  void ReadLogits(uint32_t i, std::span<float> out) const override;
  std::vector<std::string> Kernels() const override;

 private:
  struct Row {
    uint32_t sequence = 0;
    uint32_t position = 0;
  };
  // Where the outputs of a product go.
  enum class Sink : uint8_t {
    kStore,     // to `out`
    kLogits,    // to `out`, and what they peak in to the worker's peaks
    kResidual,  // added to `out`
    kGate,      // activation(first part) · second part to `out`
  };
  struct ProductJob {
    const Matrix* matrix = nullptr;
    const Activations* inputs = nullptr;  // by class
    uint32_t rows = 0;
    Sink sink = Sink::kStore;
    Activation activation = Activation::kSilu;
    bool wrong_order = false;
    float* out = nullptr;
    uint32_t out_stride = 0;
    uint32_t outputs = 0;  // at most so many of the first part are wanted

    // Filled in by Multiply().
    uint32_t row_blocks = 0;
    size_t first_task = 0;
  };
  // What a tile and KV head found: [query][split] of each.
  struct Partials {
    float* o = nullptr;
    float* maxima = nullptr;
    float* sums = nullptr;
  };
  // A worker's view of its scratch memory.
  struct Scratch {
    float* row = nullptr;
    float* tile = nullptr;
    float* scores = nullptr;
    std::vector<AttentionQuery> queries;
    std::vector<LogitPeak> peaks;  // by logit row, of those of its logits that this worker computed
  };

  CpuExecutable(Device& device, Program program, const StepLimits& limits, WorkspaceLayout layout,
                Arena workspace);
  void ChooseWrongProduct();

  // A step.
  void TakeRows(const StepInput& step);
  void FillRopeTables();

  void Run(const EmbedOp& op);
  void Run(const NormQkvOp& op);
  void Run(const RopeAppendOp& op);
  void Run(const AttentionOp& op);
  void Run(const ProjectResidualOp& op);
  void Run(const NormGateUpOp& op);
  void Run(const MoeOp& op);
  void Run(const HeadOp& op);

  // Products.
  // Norms (if any) n rows of `in` and fills inputs_ with them, in the classes asked for (a bit
  // each). maybe_rows: which rows of `in`, if not the first n.
  void PrepareInputs(const float* in, uint32_t width, const Norm* maybe_norm, uint32_t classes,
                     uint32_t n, const uint32_t* maybe_rows = nullptr);
  // Runs all jobs in one fork-join.
  void Multiply(std::span<ProductJob> jobs);
  void Multiply(ProductJob job) { Multiply(std::span(&job, 1)); }
  void MultiplyTask(const ProductJob& job, size_t part, uint32_t panel_begin, uint32_t panel_end,
                    uint32_t row_begin, uint32_t row_end, Scratch& scratch);
  void NotePeaks(const ProductJob& job, uint32_t begin, uint32_t end, uint32_t row_begin,
                 uint32_t row_end, Scratch& scratch) const;

  // Attention.
  void AppendRow(const RopeAppendOp& op, uint32_t row);
  uint32_t FirstVisible(uint32_t row, uint32_t window) const;
  const AttentionPlan& PlanOf(const AttentionOp& op);
  void AttendTask(const AttentionOp& op, const AttentionPlan& plan, size_t task, int worker);
  void AttendSplit(const AttentionOp& op, const AttentionTile& tile, uint32_t kv_head,
                   uint32_t split, const Partials& partials, Scratch& scratch) const;
  void CombineSplits(const AttentionOp& op, const AttentionTile& tile, uint32_t kv_head,
                     const Partials& partials) const;

  // Experts.
  void Route(const MoeOp& op);
  void GroupByExpert(const MoeOp& op);
  void GatherExpertInputs(const Experts& experts, uint32_t width);
  void MultiplyExperts(const MoeOp& op, const Experts& experts);
  void QuantiseHidden(const Experts& experts);
  void CombineExperts(const MoeOp& op);

  // Head.
  void TestRows(const Rows& x);
  void SampleRows();

  // Calls task(row, worker) for rows [0, n): on this thread alone when there is little to do.
  template <class Task>
  void ForRows(uint32_t n, uint32_t floats_a_row, Task task);

  float* FloatsAt(uint64_t offset) const {
    return reinterpret_cast<float*>(workspace_.data() + offset);
  }
  float* Value(const Rows& rows) const { return FloatsAt(layout_.values[rows.id]); }

  Device& device_;
  const fak::tensor::cpu::Kernels& kernels_;
  const Program program_;
  const StepLimits limits_;
  const WorkspaceLayout layout_;
  const Arena workspace_;
  const std::vector<RopeId> ropes_;
  const ProjectResidualOp* wrong_product_ = nullptr;
  std::vector<Scratch> scratch_;   // by worker
  std::vector<Sampler> samplers_;  // by worker

  // The step at work.
  StepInput step_;
  uint32_t n_rows_ = 0;
  std::vector<Row> rows_;
  std::vector<uint8_t> row_finite_;
  std::vector<AttentionPlan> attention_plans_;  // without tiles until an op of the step asks
  // Tasks that each pair of a plan still waits for.
  const std::unique_ptr<std::atomic<uint32_t>[]> pair_tasks_;
  Activations inputs_[kActivationClassCount];

  // The experts at work: the rows that chose an expert are neighbouring slots.
  struct Group {
    uint32_t expert = 0;
    uint32_t first_slot = 0;
    uint32_t slots = 0;
    Activations inputs[kActivationClassCount] = {};
    Activations hidden[kActivationClassCount] = {};
  };
  std::vector<Group> groups_;        // experts that some row chose
  std::vector<uint32_t> slot_rows_;  // of each slot
  std::vector<uint32_t> slot_groups_;
  std::vector<uint32_t> choice_slots_;  // of each row and rank
  std::vector<uint32_t> expert_counts_;
  std::vector<ProductJob> expert_jobs_;

  // What the last step gave.
  bool in_flight_ = false;
  uint32_t n_logit_rows_ = 0;
  std::vector<int32_t> previous_tokens_;
  std::vector<SampleResult> results_;
  uint32_t n_results_ = 0;
  std::vector<uint8_t> finite_;
};

template <class Task>
void CpuExecutable::ForRows(uint32_t n, uint32_t floats_a_row, Task task) {
  // Below this a fork and join costs more than it saves.
  constexpr uint64_t kFloatsMin = 8192;
  if (uint64_t{n} * floats_a_row < kFloatsMin) {
    for (uint32_t i = 0; i < n; ++i) {
      task(i, 0);
    }
    return;
  }
  device_.pool.Run(n, [&](size_t i, int worker) { task(static_cast<uint32_t>(i), worker); });
}

}  // namespace fak::tensor::cpu
