// Hot path: bench/micro/attention_bench.cc. Rotation, the KV append and attention of a step.
#include <algorithm>
#include <cstdint>

#include "tensor/cpu/executable.h"
#include "tensor/spec/attention.h"

namespace fak::tensor::cpu {

uint32_t CpuExecutable::FirstVisible(uint32_t row, uint32_t window) const {
  return static_cast<uint32_t>(spec::FirstVisible(rows_[row].position, window));
}

void CpuExecutable::Run(const RopeAppendOp& op) {
  ForRows(n_rows_, op.qkv.width, [&](uint32_t row, int) { AppendRow(op, row); });
}

void CpuExecutable::AppendRow(const RopeAppendOp& op, uint32_t row) {
  const HeadShape& heads = op.heads;
  const RopeSpec& rope = device_.rope(op.rope);
  const auto rope_index =
      static_cast<uint64_t>(std::ranges::find(ropes_, op.rope) - ropes_.begin());
  const uint64_t pairs = layout_.rope_pairs;
  const float* const cos =
      FloatsAt(layout_.rope) + (2 * rope_index * limits_.rows_max + row) * pairs;
  const float* const sin = cos + limits_.rows_max * pairs;
  float* const qkv = Value(op.qkv) + uint64_t{row} * op.qkv.width;
  for (uint32_t head = 0; head < heads.q_heads + heads.kv_heads; ++head) {
    float* const x = qkv + uint64_t{head} * heads.dim;
    const Norm& norm = head < heads.q_heads ? op.q_norm : op.k_norm;
    if (norm.weight != kNoVector) {
      kernels_.rms_norm(x, device_.vector(norm.weight).data(), heads.dim, norm.eps, x);
    }
    kernels_.rotate(rope.style, cos, sin, rope.dims, x);
  }
  row_finite_[row] &= kernels_.all_finite(qkv, op.qkv.width) ? 1 : 0;

  const uint32_t position = rows_[row].position;
  const uint32_t block_size = device_.kv.spec().block_size;
  const BlockId block = step_.sequences[rows_[row].sequence].blocks[position / block_size];
  const uint32_t in_block = position % block_size;
  const uint32_t lane = in_block % kTilePositions;
  const KvType type = device_.kv.spec().type;
  const KvLayerLayout& layer = device_.kv.layer(op.kv_layer);
  uint32_t clamped = 0;
  for (uint32_t head = 0; head < heads.kv_heads; ++head) {
    const float* const k = qkv + uint64_t{heads.q_heads + head} * heads.dim;
    const float* const v = k + uint64_t{heads.kv_heads} * heads.dim;
    std::byte* const key = device_.kv.KeyTile(block, layer, head, in_block);
    std::byte* const value = device_.kv.ValueTile(block, layer, head, in_block);
    clamped += kernels_.store(type, k, heads.dim, kTilePositions, key + lane * KvTypeBytes(type));
    clamped += kernels_.store(type, v, heads.dim, 1,
                              value + lane * layer.value_stride * KvTypeBytes(type));
  }
  if (clamped > 0) {
    device_.kv_values_clamped.fetch_add(clamped, std::memory_order_relaxed);
  }
}

const AttentionPlan& CpuExecutable::PlanOf(const AttentionOp& op) {
  auto plan = std::ranges::find_if(attention_plans_, [&](const AttentionPlan& p) {
    return p.heads.q_heads == op.heads.q_heads && p.heads.kv_heads == op.heads.kv_heads &&
           p.heads.dim == op.heads.dim && p.window == op.window;
  });
  if (plan == attention_plans_.end()) {
    attention_plans_.push_back({.heads = op.heads, .window = op.window, .tiles = {}});
    plan = attention_plans_.end() - 1;
  }
  if (plan->tiles.empty()) {
    PlanAttention(step_.sequences, device_.pool.threads(), layout_.partials_a_thread, *plan);
  }
  return *plan;
}

void CpuExecutable::Run(const AttentionOp& op) {
  const AttentionPlan& plan = PlanOf(op);
  if (plan.cut) {
    for (const AttentionTile& tile : plan.tiles) {
      for (uint32_t head = 0; head < op.heads.kv_heads; ++head) {
        pair_tasks_[tile.first_pair + head].store(tile.tasks, std::memory_order_relaxed);
      }
    }
  }
  device_.pool.Run(plan.tasks,
                   [&](size_t task, int worker) { AttendTask(op, plan, task, worker); });
}

// Some splits of a tile and KV head. Whoever finishes its last combines all of them in index order,
// so it doesn't matter who does.
void CpuExecutable::AttendTask(const AttentionOp& op, const AttentionPlan& plan, size_t task,
                               int worker) {
  const AttentionTile& tile =
      *(std::ranges::upper_bound(plan.tiles, task, {}, &AttentionTile::first_task) - 1);
  const auto of_tile = static_cast<uint32_t>(task - tile.first_task);
  const uint32_t kv_head = of_tile / tile.tasks;
  const uint32_t group = op.heads.q_heads / op.heads.kv_heads;
  const uint64_t floats = PartialFloats(tile.rows * group, tile.splits, op.heads.dim);
  float* const memory = FloatsAt(layout_.partials) +
                        (plan.cut ? tile.first_partials + kv_head * floats
                                  : static_cast<uint64_t>(worker) * layout_.partials_a_thread);
  const uint64_t n = uint64_t{tile.rows} * group * tile.splits;
  const uint32_t stride = ValueStride(op.heads.dim);
  const Partials partials = {memory, memory + n * stride, memory + n * (stride + 1)};

  const uint32_t begin = of_tile % tile.tasks * tile.splits_a_task;
  const uint32_t end = std::min(begin + tile.splits_a_task, tile.splits);
  for (uint32_t split = begin; split < end; ++split) {
    AttendSplit(op, tile, kv_head, split, partials, scratch_[static_cast<size_t>(worker)]);
  }
  if (!plan.cut ||
      pair_tasks_[tile.first_pair + kv_head].fetch_sub(1, std::memory_order_acq_rel) == 1) {
    CombineSplits(op, tile, kv_head, partials);
  }
}

void CpuExecutable::AttendSplit(const AttentionOp& op, const AttentionTile& tile, uint32_t kv_head,
                                uint32_t split_index, const Partials& partials,
                                Scratch& scratch) const {
  const uint32_t group = op.heads.q_heads / op.heads.kv_heads;
  const uint32_t dim = op.heads.dim;
  const KvMemory& kv = device_.kv;
  const KvLayerLayout& layer = kv.layer(op.kv_layer);
  const uint32_t start = (tile.first_split + split_index) * kSplitPositions;
  AttentionSplit split;
  split.head_dim = dim;
  split.value_stride = layer.value_stride;
  split.scale = spec::PlainScore(op.scale).outer;
  split.queries = scratch.queries.data();
  split.scores = scratch.scores;
  for (uint32_t i = 0; i < tile.rows; ++i) {
    const uint32_t row = tile.first_row + i;
    const uint32_t begin = std::max(FirstVisible(row, op.window), start);
    const uint32_t end = std::min(rows_[row].position + 1, start + kSplitPositions);
    if (begin >= end) {
      continue;
    }
    for (uint32_t g = 0; g < group; ++g) {
      const uint64_t partial = (uint64_t{i} * group + g) * tile.splits + split_index;
      split.queries[split.n_queries++] = {
          .q = Value(op.qkv) + uint64_t{row} * op.qkv.width + (kv_head * group + g) * dim,
          .begin = begin - start,
          .end = end - start,
          .maximum = partials.maxima + partial,
          .sum = partials.sums + partial,
          .o = partials.o + partial * ValueStride(dim)};
    }
  }
  const uint32_t block_size = kv.spec().block_size;
  const std::span<const BlockId> blocks = step_.sequences[tile.sequence].blocks;
  const uint32_t from = std::max(FirstVisible(tile.first_row, op.window), start) / kTilePositions;
  const uint32_t to = std::min(tile.last_position, start + kSplitPositions - 1) / kTilePositions;
  for (uint32_t t = from; t <= to; ++t) {
    const uint32_t position = t * kTilePositions;
    const BlockId block = blocks[position / block_size];
    split.keys[t % 16] = kv.KeyTile(block, layer, kv_head, position % block_size);
    split.values[t % 16] = kv.ValueTile(block, layer, kv_head, position % block_size);
  }
  kernels_.attend(kv.spec().type, split);
}

void CpuExecutable::CombineSplits(const AttentionOp& op, const AttentionTile& tile,
                                  uint32_t kv_head, const Partials& partials) const {
  const uint32_t group = op.heads.q_heads / op.heads.kv_heads;
  const uint32_t dim = op.heads.dim;
  const uint32_t stride = ValueStride(dim);
  for (uint32_t i = 0; i < tile.rows; ++i) {
    const uint32_t row = tile.first_row + i;
    const uint32_t skipped = FirstVisible(row, op.window) / kSplitPositions - tile.first_split;
    const uint32_t n = rows_[row].position / kSplitPositions + 1 - tile.first_split - skipped;
    for (uint32_t g = 0; g < group; ++g) {
      const uint64_t partial = (uint64_t{i} * group + g) * tile.splits + skipped;
      kernels_.combine(
          partials.maxima + partial, partials.sums + partial, partials.o + partial * stride, n,
          stride, dim,
          Value(op.out) + uint64_t{row} * op.out.width + uint64_t{kv_head * group + g} * dim);
    }
  }
}

}  // namespace fak::tensor::cpu
