// Hot path: bench/micro/matmul_bench.cc. Matrix products of a step, and what is fused to them.
#include <algorithm>
#include <cstdint>

#include "tensor/cpu/executable.h"

namespace fak::tensor::cpu {
namespace {

// Tasks a thread of one product: enough that none waits long for the last.
constexpr uint32_t kTasksAThread = 8;

// Kernels count rows and outputs from those of the whole product; a tile holds only some of them.
float* OriginOf(float* tile, uint32_t first_row, uint32_t first_output, size_t stride) {
  const uintptr_t origin =
      reinterpret_cast<uintptr_t>(tile) - sizeof(float) * (first_row * stride + first_output);
  return reinterpret_cast<float*>(origin);  // NOLINT(performance-no-int-to-ptr): may lie outside
}

}  // namespace

uint32_t ClassesOf(const Matrix& matrix) {
  uint32_t classes = 0;
  for (const PackedPart& part : matrix.parts) {
    classes |= 1u << static_cast<uint32_t>(ClassOf(part.type));
  }
  return classes;
}

void CpuExecutable::PrepareInputs(const float* in, uint32_t width, const Norm* maybe_norm,
                                  uint32_t classes, uint32_t n, const uint32_t* maybe_rows) {
  for (const ActivationClass type : kActivationClasses) {
    const auto index = static_cast<size_t>(type);
    inputs_[index] = {type, n, width, workspace_.data() + layout_.activations[index]};
  }
  ForRows(n, width, [&](uint32_t i, int worker) {
    const float* row = in + uint64_t{maybe_rows == nullptr ? i : maybe_rows[i]} * width;
    if (maybe_norm != nullptr) {
      float* const normed = scratch_[static_cast<size_t>(worker)].row;
      kernels_.rms_norm(row, device_.vector(maybe_norm->weight).data(), width, maybe_norm->eps,
                        normed);
      row = normed;
    }
    for (size_t index = 0; index < kActivationClassCount; ++index) {
      if (((classes >> index) & 1) != 0) {
        device_.matmul.quantise(row, inputs_[index], i);
      }
    }
  });
}

void CpuExecutable::Multiply(std::span<ProductJob> jobs) {
  // The parts of a gated product are walked together.
  const auto parts_of = [](const ProductJob& job) {
    return job.sink == Sink::kGate ? size_t{1} : job.matrix->parts.size();
  };
  const auto panels_of = [](const ProductJob& job, size_t part) {
    return PanelsOf(std::min(job.matrix->parts[part].rows, job.outputs));
  };
  uint64_t work = 0;
  for (const ProductJob& job : jobs) {
    for (size_t part = 0; part < parts_of(job); ++part) {
      work += uint64_t{panels_of(job, part)} * ((job.rows + kTileRows - 1) / kTileRows);
    }
  }
  const auto threads = static_cast<uint64_t>(device_.pool.threads());
  const auto a_task =
      static_cast<uint32_t>(std::clamp<uint64_t>(work / (threads * kTasksAThread), 1, kTilePanels));
  size_t tasks = 0;
  for (ProductJob& job : jobs) {
    job.first_task = tasks;
    job.row_blocks = (job.rows + kTileRows - 1) / kTileRows;
    for (size_t part = 0; part < parts_of(job); ++part) {
      tasks += size_t{(panels_of(job, part) + a_task - 1) / a_task} * job.row_blocks;
    }
  }
  device_.pool.Run(tasks, [&](size_t index, int worker) {
    const ProductJob& job =
        *(std::ranges::upper_bound(jobs, index, {}, &ProductJob::first_task) - 1);
    const size_t task = index - job.first_task;
    auto group = static_cast<uint32_t>(task / job.row_blocks);
    const uint32_t row_begin = static_cast<uint32_t>(task % job.row_blocks) * kTileRows;
    size_t part = 0;
    for (uint32_t n = 0; true; ++part, group -= n) {
      n = (panels_of(job, part) + a_task - 1) / a_task;
      if (group < n) {
        break;
      }
    }
    const uint32_t begin = group * a_task;
    MultiplyTask(job, part, begin, std::min(begin + a_task, panels_of(job, part)), row_begin,
                 std::min(row_begin + kTileRows, job.rows), scratch_[static_cast<size_t>(worker)]);
  });
}

void CpuExecutable::MultiplyTask(const ProductJob& job, size_t part, uint32_t panel_begin,
                                 uint32_t panel_end, uint32_t row_begin, uint32_t row_end,
                                 Scratch& scratch) {
  const Matrix& matrix = *job.matrix;
  uint32_t part_offset = 0;
  for (size_t i = 0; i < part; ++i) {
    part_offset += matrix.parts[i].rows;
  }
  const auto multiply = [&](size_t which, float* out, size_t stride) {
    const PackedPart& weights = matrix.parts[which];
    Product product;
    product.weights = weights.data;
    product.outputs = std::min(weights.rows, job.outputs);
    product.maybe_bias = weights.maybe_bias;
    product.x = job.inputs[static_cast<size_t>(ClassOf(weights.type))];
    product.row_begin = row_begin;
    product.row_end = row_end;
    product.out = out;
    product.out_stride = stride;
    product.wrong_order = job.wrong_order;
    device_.matmul.MultiplyOf(weights.type)(product, panel_begin, panel_end);
  };
  if (job.sink == Sink::kStore || job.sink == Sink::kLogits) {
    multiply(part, job.out + part_offset, job.out_stride);
    if (job.sink == Sink::kLogits) {
      NotePeaks(job, panel_begin * kPanelRows, std::min(panel_end * kPanelRows, job.outputs),
                row_begin, row_end, scratch);
    }
    return;
  }
  constexpr size_t kStride = kTilePanels * kPanelRows;
  float* const tile = scratch.tile;
  float* const second_tile = scratch.tile + kTileRows * kStride;
  const uint32_t first = panel_begin * kPanelRows;
  const uint32_t count = std::min(panel_end * kPanelRows, matrix.parts[part].rows) - first;
  multiply(part, OriginOf(tile, row_begin, first, kStride), kStride);
  if (job.sink == Sink::kGate) {
    multiply(1, OriginOf(second_tile, row_begin, first, kStride), kStride);
  }
  for (uint32_t row = row_begin; row < row_end; ++row) {
    const float* const from = tile + (row - row_begin) * kStride;
    float* const to = job.out + uint64_t{row} * job.out_stride + part_offset + first;
    if (job.sink == Sink::kResidual) {
      kernels_.add(from, count, to);
    } else {
      kernels_.gate(job.activation, from, second_tile + (row - row_begin) * kStride, count, to);
    }
  }
}

void CpuExecutable::Run(const NormQkvOp& op) {
  const Matrix& matrix = device_.matrix(op.qkv);
  PrepareInputs(Value(op.x), op.x.width, &op.norm, ClassesOf(matrix), n_rows_);
  Multiply({.matrix = &matrix,
            .inputs = inputs_,
            .rows = n_rows_,
            .sink = Sink::kStore,
            .out = Value(op.out),
            .out_stride = op.out.width,
            .outputs = matrix.rows});
}

void CpuExecutable::Run(const ProjectResidualOp& op) {
  const Matrix& matrix = device_.matrix(op.matrix);
  PrepareInputs(Value(op.in), op.in.width, nullptr, ClassesOf(matrix), n_rows_);
  const bool normed = op.post_norm.weight != kNoVector;
  float* const products = FloatsAt(layout_.products);
  float* const x = Value(op.x);
  Multiply({.matrix = &matrix,
            .inputs = inputs_,
            .rows = n_rows_,
            .sink = normed ? Sink::kStore : Sink::kResidual,
            .wrong_order = &op == wrong_product_,
            .out = normed ? products : x,
            .out_stride = op.x.width,
            .outputs = matrix.rows});
  if (!normed) {
    return;
  }
  const float* const weight = device_.vector(op.post_norm.weight).data();
  const uint32_t width = op.x.width;
  ForRows(n_rows_, width, [&](uint32_t row, int) {
    float* const y = products + uint64_t{row} * width;
    kernels_.rms_norm(y, weight, width, op.post_norm.eps, y);
    kernels_.add(y, width, x + uint64_t{row} * width);
  });
}

void CpuExecutable::Run(const NormGateUpOp& op) {
  const Matrix& matrix = device_.matrix(op.gate_up);
  PrepareInputs(Value(op.x), op.x.width, &op.norm, ClassesOf(matrix), n_rows_);
  Multiply({.matrix = &matrix,
            .inputs = inputs_,
            .rows = n_rows_,
            .sink = Sink::kGate,
            .activation = op.activation,
            .out = Value(op.out),
            .out_stride = op.out.width,
            .outputs = op.out.width});
}

// Looks at logits while the first cache still has them.
void CpuExecutable::NotePeaks(const ProductJob& job, uint32_t begin, uint32_t end,
                              uint32_t row_begin, uint32_t row_end, Scratch& scratch) const {
  for (uint32_t row = row_begin; row < row_end; ++row) {
    const float* const logits = job.out + uint64_t{row} * job.out_stride;
    scratch.peaks[row].Add(kernels_, {logits + begin, end - begin}, begin);
  }
}

void CpuExecutable::Run(const HeadOp& op) {
  TestRows(op.x);
  for (Scratch& scratch : scratch_) {
    scratch.peaks.assign(n_logit_rows_, {});
  }
  if (n_logit_rows_ > 0) {
    const Matrix& matrix = device_.matrix(op.matrix);
    PrepareInputs(Value(op.x), op.x.width, &op.norm, ClassesOf(matrix), n_logit_rows_,
                  step_.logit_rows.data());
    Multiply({.matrix = &matrix,
              .inputs = inputs_,
              .rows = n_logit_rows_,
              .sink = Sink::kLogits,
              .out = FloatsAt(layout_.logits),
              .out_stride = program_.vocabulary,
              .outputs = program_.vocabulary});
  }
  SampleRows();
}

}  // namespace fak::tensor::cpu
