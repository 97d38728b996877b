// Hot path: bench/micro/matmul_bench.cc. A mixture-of-experts layer: the rows that chose an expert
// are gathered, multiplied together, and added to the residual stream in each row's rank order.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "tensor/cpu/executable.h"
#include "tensor/spec/router.h"

namespace fak::tensor::cpu {

void CpuExecutable::Run(const MoeOp& op) {
  const Experts& experts = device_.experts[static_cast<size_t>(op.experts)];
  const Matrix& router = device_.matrix(op.router);
  uint32_t classes = ClassesOf(router);
  for (const Matrix& gate_up : experts.gate_up) {
    classes |= ClassesOf(gate_up);
  }
  PrepareInputs(Value(op.x), op.x.width, &op.norm, classes, n_rows_);
  Multiply({.matrix = &router,
            .inputs = inputs_,
            .rows = n_rows_,
            .sink = Sink::kStore,
            .out = FloatsAt(layout_.router_logits),
            .out_stride = op.n_experts,
            .outputs = op.n_experts});
  Route(op);
  GroupByExpert(op);
  GatherExpertInputs(experts, op.x.width);
  MultiplyExperts(op, experts);
  CombineExperts(op);
}

void CpuExecutable::Route(const MoeOp& op) {
  const float* const logits = FloatsAt(layout_.router_logits);
  auto* const ids = reinterpret_cast<int32_t*>(FloatsAt(layout_.router_choice));
  float* const weights = FloatsAt(layout_.router_choice) + uint64_t{n_rows_} * op.top_k;
  ForRows(n_rows_, 16 * op.n_experts, [&](uint32_t row, int) {
    const float* const mine = logits + uint64_t{row} * op.n_experts;
    int32_t* const row_ids = ids + uint64_t{row} * op.top_k;
    float* const row_weights = weights + uint64_t{row} * op.top_k;
    if (!kernels_.all_finite(mine, op.n_experts)) {
      // The row is lost (numerics rule 2); it only has to stay non-finite.
      for (uint32_t rank = 0; rank < op.top_k; ++rank) {
        row_ids[rank] = static_cast<int32_t>(rank);
        row_weights[rank] = std::numeric_limits<float>::quiet_NaN();
      }
      return;
    }
    spec::Route(mine, op.n_experts, op.top_k, op.normalise, op.scale, row_ids, row_weights);
  });
}

// Numbers the (row, rank) choices so that those of one expert are neighbours, rows ascending.
void CpuExecutable::GroupByExpert(const MoeOp& op) {
  const auto* const ids = reinterpret_cast<const int32_t*>(FloatsAt(layout_.router_choice));
  const uint32_t n_choices = n_rows_ * op.top_k;
  expert_counts_.assign(op.n_experts, 0);
  for (uint32_t choice = 0; choice < n_choices; ++choice) {
    ++expert_counts_[static_cast<size_t>(ids[choice])];
  }
  groups_.clear();
  uint32_t slots = 0;
  for (uint32_t expert = 0; expert < op.n_experts; ++expert) {
    const uint32_t count = expert_counts_[expert];
    if (count > 0) {
      Group group;
      group.expert = expert;
      group.first_slot = slots;
      group.slots = count;
      groups_.push_back(group);
    }
    expert_counts_[expert] = slots;  // from here on: the next free slot
    slots += count;
  }
  slot_rows_.resize(n_choices);
  choice_slots_.resize(n_choices);
  for (uint32_t choice = 0; choice < n_choices; ++choice) {
    const uint32_t slot = expert_counts_[static_cast<size_t>(ids[choice])]++;
    slot_rows_[slot] = choice / op.top_k;
    choice_slots_[choice] = slot;
  }
}

void CpuExecutable::GatherExpertInputs(const Experts& experts, uint32_t width) {
  uint64_t used[kActivationClassCount] = {};
  for (Group& group : groups_) {
    for (const ActivationClass type : kActivationClasses) {
      const auto index = static_cast<size_t>(type);
      group.inputs[index] = {type, group.slots, width,
                             workspace_.data() + layout_.expert_inputs[index] + used[index]};
      used[index] += ActivationBytes(type, group.slots, width);
    }
  }
  device_.pool.Run(groups_.size(), [&](size_t g, int) {
    const Group& group = groups_[g];
    const uint32_t classes = ClassesOf(experts.gate_up[group.expert]);
    for (size_t index = 0; index < kActivationClassCount; ++index) {
      if (((classes >> index) & 1) != 0) {
        GatherRows(inputs_[index], std::span(slot_rows_).subspan(group.first_slot, group.slots),
                   group.inputs[index]);
      }
    }
  });
}

void CpuExecutable::MultiplyExperts(const MoeOp& op, const Experts& experts) {
  float* const rows = FloatsAt(layout_.expert_rows);
  expert_jobs_.clear();
  for (const Group& group : groups_) {
    expert_jobs_.push_back({.matrix = &experts.gate_up[group.expert],
                            .inputs = group.inputs,
                            .rows = group.slots,
                            .sink = Sink::kGate,
                            .activation = op.activation,
                            .out = rows + uint64_t{group.first_slot} * experts.ff,
                            .out_stride = experts.ff,
                            .outputs = experts.ff});
  }
  Multiply(expert_jobs_);
  QuantiseHidden(experts);
  expert_jobs_.clear();
  for (const Group& group : groups_) {
    expert_jobs_.push_back({.matrix = &experts.down[group.expert],
                            .inputs = group.hidden,
                            .rows = group.slots,
                            .sink = Sink::kStore,
                            .out = rows + uint64_t{group.first_slot} * op.x.width,
                            .out_stride = op.x.width,
                            .outputs = op.x.width});
  }
  Multiply(expert_jobs_);
}

void CpuExecutable::QuantiseHidden(const Experts& experts) {
  uint64_t used[kActivationClassCount] = {};
  slot_groups_.resize(slot_rows_.size());
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    std::fill_n(slot_groups_.begin() + group.first_slot, group.slots, g);
    for (const ActivationClass type : kActivationClasses) {
      const auto index = static_cast<size_t>(type);
      group.hidden[index] = {type, group.slots, experts.ff,
                             workspace_.data() + layout_.expert_hidden[index] + used[index]};
      used[index] += ActivationBytes(type, group.slots, experts.ff);
    }
  }
  const float* const rows = FloatsAt(layout_.expert_rows);
  ForRows(static_cast<uint32_t>(slot_rows_.size()), experts.ff, [&](uint32_t slot, int) {
    const Group& group = groups_[slot_groups_[slot]];
    const uint32_t classes = ClassesOf(experts.down[group.expert]);
    for (size_t index = 0; index < kActivationClassCount; ++index) {
      if (((classes >> index) & 1) != 0) {
        device_.matmul.quantise(rows + uint64_t{slot} * experts.ff, group.hidden[index],
                                slot - group.first_slot);
      }
    }
  });
}

void CpuExecutable::CombineExperts(const MoeOp& op) {
  const uint32_t width = op.x.width;
  const float* const outputs = FloatsAt(layout_.expert_rows);
  const float* const weights = FloatsAt(layout_.router_choice) + uint64_t{n_rows_} * op.top_k;
  float* const x = Value(op.x);
  ForRows(n_rows_, width * op.top_k, [&](uint32_t row, int worker) {
    float* const sum = scratch_[static_cast<size_t>(worker)].row;
    std::fill_n(sum, width, 0.0f);
    for (uint32_t rank = 0; rank < op.top_k; ++rank) {
      const uint64_t choice = uint64_t{row} * op.top_k + rank;
      kernels_.add_scaled(weights[choice], outputs + uint64_t{choice_slots_[choice]} * width, width,
                          sum);
    }
    kernels_.add(sum, width, x + uint64_t{row} * width);
  });
}

}  // namespace fak::tensor::cpu
