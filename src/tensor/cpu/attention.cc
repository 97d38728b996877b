// Hot path: bench/micro/attention_bench.cc. Rotation, the KV append and attention of a step.
#include <algorithm>
#include <cstdint>

#include "tensor/cpu/executable.h"
#include "tensor/spec/attention.h"

namespace fak::tensor::cpu {

void CpuExecutable::Run(const RopeAppendOp& op) {
  ForRows(n_rows_, op.qkv.width, [&](uint32_t row, int) { AppendRow(op, *last_qkv_, row); });
}

void CpuExecutable::AppendRow(const RopeAppendOp& op, const NormQkvOp& norms, uint32_t row) {
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
    const Norm& norm = head < heads.q_heads ? norms.q_norm : norms.k_norm;
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

const std::vector<CpuExecutable::Tile>& CpuExecutable::TilesOf(uint32_t rows_a_tile) {
  auto list = std::ranges::find(tile_lists_, rows_a_tile, &TileList::rows_a_tile);
  if (list == tile_lists_.end()) {
    tile_lists_.push_back({rows_a_tile, {}});
    list = tile_lists_.end() - 1;
  }
  if (list->tiles.empty()) {
    for (uint32_t s = 0; s < step_.sequences.size(); ++s) {
      const SequenceRows& sequence = step_.sequences[s];
      for (uint32_t first = 0; first < sequence.rows; first += rows_a_tile) {
        list->tiles.push_back(
            {s, sequence.first_row + first, std::min(rows_a_tile, sequence.rows - first)});
      }
    }
  }
  return list->tiles;
}

void CpuExecutable::Run(const AttentionOp& op) {
  const std::vector<Tile>& tiles = TilesOf(AttentionRows(op.heads));
  const uint32_t kv_heads = op.heads.kv_heads;
  device_.pool.Run(tiles.size() * kv_heads, [&](size_t index, int worker) {
    Attend(op, tiles[index / kv_heads], static_cast<uint32_t>(index % kv_heads),
           scratch_[static_cast<size_t>(worker)]);
  });
}

// One tile and KV head: splits in index order, then each query's splits are combined. Partials lie
// [query][split]: first o, then maxima, then sums of all.
void CpuExecutable::Attend(const AttentionOp& op, const Tile& tile, uint32_t kv_head,
                           Scratch& scratch) {
  const uint32_t group = op.heads.q_heads / op.heads.kv_heads;
  const uint32_t dim = op.heads.dim;
  const uint32_t stride = ValueStride(dim);
  const auto first_visible = [&](uint32_t row) {
    return static_cast<uint32_t>(spec::FirstVisible(rows_[row].position, op.window));
  };
  const uint32_t first_split = first_visible(tile.first_row) / kSplitPositions;
  const uint32_t last_row = tile.first_row + tile.rows - 1;
  const uint32_t n_splits = rows_[last_row].position / kSplitPositions + 1 - first_split;
  const uint64_t n_partials = uint64_t{tile.rows} * group * n_splits;
  float* const maxima = scratch.partials + n_partials * stride;
  float* const sums = maxima + n_partials;

  const KvMemory& kv = device_.kv;
  const uint32_t block_size = kv.spec().block_size;
  const KvLayerLayout& layer = kv.layer(op.kv_layer);
  const std::span<const BlockId> blocks = step_.sequences[tile.sequence].blocks;
  AttentionSplit split;
  split.head_dim = dim;
  split.value_stride = layer.value_stride;
  split.scale = spec::PlainScore(op.scale).outer;
  split.queries = scratch.queries.data();
  split.scores = scratch.scores;
  for (uint32_t s = 0; s < n_splits; ++s) {
    const uint32_t start = (first_split + s) * kSplitPositions;
    split.n_queries = 0;
    for (uint32_t i = 0; i < tile.rows; ++i) {
      const uint32_t row = tile.first_row + i;
      const uint32_t begin = std::max(first_visible(row), start);
      const uint32_t end = std::min(rows_[row].position + 1, start + kSplitPositions);
      if (begin >= end) {
        continue;
      }
      for (uint32_t g = 0; g < group; ++g) {
        const uint64_t partial = (uint64_t{i} * group + g) * n_splits + s;
        split.queries[split.n_queries++] = {
            .q = Value(op.qkv) + uint64_t{row} * op.qkv.width + (kv_head * group + g) * dim,
            .begin = begin - start,
            .end = end - start,
            .maximum = maxima + partial,
            .sum = sums + partial,
            .o = scratch.partials + partial * stride};
      }
    }
    const uint32_t from = std::max(first_visible(tile.first_row), start) / kTilePositions;
    const uint32_t to = std::min(rows_[last_row].position, start + kSplitPositions - 1);
    for (uint32_t t = from; t <= to / kTilePositions; ++t) {
      const uint32_t position = t * kTilePositions;
      const BlockId block = blocks[position / block_size];
      split.keys[t % 16] = kv.KeyTile(block, layer, kv_head, position % block_size);
      split.values[t % 16] = kv.ValueTile(block, layer, kv_head, position % block_size);
    }
    kernels_.attend(kv.spec().type, split);
  }

  for (uint32_t i = 0; i < tile.rows; ++i) {
    const uint32_t row = tile.first_row + i;
    const uint32_t skipped = first_visible(row) / kSplitPositions - first_split;
    const uint32_t n = rows_[row].position / kSplitPositions + 1 - first_split - skipped;
    for (uint32_t g = 0; g < group; ++g) {
      const uint64_t partial = (uint64_t{i} * group + g) * n_splits + skipped;
      kernels_.combine(
          maxima + partial, sums + partial, scratch.partials + partial * stride, n, stride, dim,
          Value(op.out) + uint64_t{row} * op.out.width + uint64_t{kv_head * group + g} * dim);
    }
  }
}

}  // namespace fak::tensor::cpu
