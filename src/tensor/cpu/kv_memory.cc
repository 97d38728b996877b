#include "tensor/cpu/kv_memory.h"

#include <algorithm>
#include <cstring>

#include "tensor/step_check.h"

namespace fak::tensor::cpu {
namespace {

// Fills `layers`, returns the bytes of a block.
uint64_t LayOut(const KvSpec& spec, std::vector<KvLayerLayout>* layers) {
  const uint64_t value_bytes = KvTypeBytes(spec.type);
  uint64_t at = 0;
  for (const KvLayerShape& shape : spec.layers) {
    KvLayerLayout layer;
    layer.kv_heads = shape.kv_heads;
    layer.head_dim = shape.head_dim;
    layer.value_stride = (shape.head_dim + 15) / 16 * 16;
    layer.key_tile_bytes = value_bytes * kTilePositions * shape.head_dim;
    layer.value_tile_bytes = value_bytes * kTilePositions * layer.value_stride;
    layer.key_head_bytes = layer.key_tile_bytes * (spec.block_size / kTilePositions);
    layer.value_head_bytes = layer.value_tile_bytes * (spec.block_size / kTilePositions);
    layer.keys = at;
    at += layer.key_head_bytes * shape.kv_heads;
    layer.values = at;
    at += layer.value_head_bytes * shape.kv_heads;
    if (layers != nullptr) {
      layers->push_back(layer);
    }
  }
  return (at + 63) / 64 * 64;
}

}  // namespace

uint64_t KvMemory::BlockBytes(const KvSpec& spec) {
  return LayOut(spec, nullptr);
}

Result<KvMemory> KvMemory::Make(const KvSpec& spec) {
  TRY(CheckKvSpec(spec));
  KvMemory memory;
  memory.spec_ = spec;
  memory.block_bytes_ = LayOut(spec, &memory.layers_);
  for (const uint64_t floats : spec.state_floats) {
    memory.state_offsets_.push_back(memory.state_floats_);
    memory.state_floats_ += floats;
  }
  TRY_ASSIGN(memory.blocks_, Arena::Make(memory.block_bytes_ * spec.blocks, "the KV cache"));
  TRY_ASSIGN(memory.states_,
             Arena::Make(memory.state_floats_ * sizeof(float) * spec.state_slots, "states"));
  return memory;
}

void KvMemory::CopyBlock(BlockId from, BlockId to, uint32_t positions) {
  CHECK(positions <= spec_.block_size);
  const uint64_t tiles = (positions + kTilePositions - 1) / kTilePositions;
  for (const KvLayerLayout& layer : layers_) {
    for (uint32_t head = 0; head < layer.kv_heads; ++head) {
      std::memcpy(KeyTile(to, layer, head, 0), KeyTile(from, layer, head, 0),
                  tiles * layer.key_tile_bytes);
      std::memcpy(ValueTile(to, layer, head, 0), ValueTile(from, layer, head, 0),
                  positions * (layer.value_tile_bytes / kTilePositions));
    }
  }
}

template <class Move>
void KvMemory::ForEachRun(BlockId block, uint32_t layer_index, KvPart part, uint32_t first,
                          uint32_t count, Move move) const {
  const KvLayerLayout& layer = layers_[layer_index];
  const uint64_t value_bytes = KvTypeBytes(spec_.type);
  uint64_t at = 0;
  for (uint32_t p = first; p < first + count; ++p) {
    const uint32_t lane = p % kTilePositions;
    for (uint32_t head = 0; head < layer.kv_heads; ++head) {
      if (part == KvPart::kValue) {
        std::byte* const row =
            ValueTile(block, layer, head, p) + lane * layer.value_stride * value_bytes;
        move(row, at, layer.head_dim * value_bytes);
        at += layer.head_dim * value_bytes;
        continue;
      }
      std::byte* const tile = KeyTile(block, layer, head, p);
      for (uint32_t d = 0; d < layer.head_dim; ++d) {
        move(tile + (d * kTilePositions + lane) * value_bytes, at, value_bytes);
        at += value_bytes;
      }
    }
  }
}

void KvMemory::Read(BlockId block, uint32_t layer, KvPart part, uint32_t first, uint32_t count,
                    std::span<std::byte> out) const {
  CHECK(layer < layers_.size() && first + count <= spec_.block_size);
  CHECK(out.size() == uint64_t{count} * layers_[layer].kv_heads * layers_[layer].head_dim *
                          KvTypeBytes(spec_.type));
  ForEachRun(block, layer, part, first, count,
             [&](const std::byte* mine, uint64_t at, uint64_t bytes) {
               std::memcpy(out.data() + at, mine, bytes);
             });
}

void KvMemory::Write(BlockId block, uint32_t layer, KvPart part, uint32_t first, uint32_t count,
                     std::span<const std::byte> in) {
  CHECK(layer < layers_.size() && first + count <= spec_.block_size);
  CHECK(in.size() == uint64_t{count} * layers_[layer].kv_heads * layers_[layer].head_dim *
                         KvTypeBytes(spec_.type));
  ForEachRun(block, layer, part, first, count, [&](std::byte* mine, uint64_t at, uint64_t bytes) {
    std::memcpy(mine, in.data() + at, bytes);
  });
}

std::span<float> KvMemory::StateOf(StateSlot slot) const {
  CHECK(static_cast<uint32_t>(slot) < spec_.state_slots);
  float* const all = reinterpret_cast<float*>(states_.data());
  return {all + static_cast<uint64_t>(slot) * state_floats_, state_floats_};
}

void KvMemory::ZeroState(StateSlot slot) {
  std::ranges::fill(StateOf(slot), 0.0f);
}

void KvMemory::CopyState(StateSlot from, StateSlot to) {
  std::ranges::copy(StateOf(from), StateOf(to).begin());
}

std::span<float> KvMemory::State(StateSlot slot, uint32_t layer) const {
  CHECK(layer < state_offsets_.size());
  return StateOf(slot).subspan(state_offsets_[layer], spec_.state_floats[layer]);
}

}  // namespace fak::tensor::cpu
