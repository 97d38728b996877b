// Hot path: bench/micro/attention_bench.cc.
#include "tensor/cpu/attention_plan.h"

#include <algorithm>

#include "tensor/cpu/kernels.h"
#include "tensor/spec/attention.h"

namespace fak::tensor::cpu {
namespace {

constexpr uint64_t kTasksAThread = 8;

void FillTiles(std::span<const SequenceRows> sequences, AttentionPlan& plan) {
  const uint32_t rows_a_tile = AttentionRows(plan.heads);
  plan.tiles.clear();
  for (uint32_t s = 0; s < sequences.size(); ++s) {
    const SequenceRows& sequence = sequences[s];
    for (uint32_t first = 0; first < sequence.rows; first += rows_a_tile) {
      AttentionTile tile;
      tile.sequence = s;
      tile.first_row = sequence.first_row + first;
      tile.rows = std::min(rows_a_tile, sequence.rows - first);
      const uint32_t position = sequence.first_position + first;
      tile.last_position = position + tile.rows - 1;
      tile.first_split =
          static_cast<uint32_t>(spec::FirstVisible(position, plan.window)) / kSplitPositions;
      tile.splits = tile.last_position / kSplitPositions + 1 - tile.first_split;
      plan.tiles.push_back(tile);
    }
  }
}

// A tile's share of the step's work: splits times rows, for each KV head.
uint64_t WorkOf(const AttentionTile& tile) {
  return uint64_t{tile.rows} * tile.splits;
}

// Tasks of about so much work, but whole splits. Returns the floats of all partials.
uint64_t DivideTiles(uint64_t work_a_task, AttentionPlan& plan) {
  const HeadShape& heads = plan.heads;
  const uint32_t group = heads.q_heads / heads.kv_heads;
  uint64_t floats = 0;
  size_t pairs = 0;
  plan.tasks = 0;
  plan.cut = false;
  for (AttentionTile& tile : plan.tiles) {
    const uint64_t splits = std::clamp<uint64_t>(work_a_task / tile.rows, 1, tile.splits);
    tile.splits_a_task = static_cast<uint32_t>(splits);
    tile.tasks = (tile.splits + tile.splits_a_task - 1) / tile.splits_a_task;
    tile.first_task = plan.tasks;
    tile.first_pair = pairs;
    tile.first_partials = floats;
    plan.tasks += size_t{tile.tasks} * heads.kv_heads;
    plan.cut |= tile.tasks > 1;
    pairs += heads.kv_heads;
    floats += heads.kv_heads * PartialFloats(tile.rows * group, tile.splits, heads.dim);
  }
  return floats;
}

}  // namespace

void PlanAttention(std::span<const SequenceRows> sequences, int threads, uint64_t partials_a_thread,
                   AttentionPlan& plan) {
  FillTiles(sequences, plan);
  uint64_t work = 0;
  for (const AttentionTile& tile : plan.tiles) {
    work += WorkOf(tile) * plan.heads.kv_heads;
  }
  const auto n_threads = static_cast<uint64_t>(threads);
  const bool few = plan.tiles.size() * plan.heads.kv_heads <= PairsMax(threads);
  if (threads > 1 && few &&
      DivideTiles(work / (n_threads * kTasksAThread), plan) <= n_threads * partials_a_thread) {
    return;
  }
  DivideTiles(work, plan);
}

}  // namespace fak::tensor::cpu
