#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "tensor/cpu/arena.h"
#include "tensor/kv_spec.h"

namespace fak::tensor::cpu {

// Positions of K that lie interleaved: a lane of the attention kernels is a position.
inline constexpr uint32_t kTilePositions = 16;

// Where a layer's K and V lie in a block. Per KV head, one head after the other:
//   K: [block_size / 16][head_dim][16]   16 positions interleaved
//   V: [block_size][value_stride]        rows; value_stride = head_dim rounded up to 16
// Offsets and strides in bytes, all multiples of 32.
struct KvLayerLayout {
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t value_stride = 0;  // in values
  uint64_t keys = 0;          // of head 0, from the start of a block
  uint64_t values = 0;
  uint64_t key_head_bytes = 0;
  uint64_t value_head_bytes = 0;
  uint64_t key_tile_bytes = 0;    // head_dim · 16 values
  uint64_t value_tile_bytes = 0;  // 16 rows of V
};

// The KV blocks and recurrent states of a back end, in one arena each. A block's layers lie
// together, so that copying one is a run of memory. Not thread-safe, except that threads may use
// different blocks at the same time.
class KvMemory {
 public:
  KvMemory() = default;

  // kInvalidArgument: a spec that breaks KvSpec's rules; kResourceExhausted.
  [[nodiscard]] static Result<KvMemory> Make(const KvSpec& spec);
  // Bytes that a block takes here.
  static uint64_t BlockBytes(const KvSpec& spec);

  const KvSpec& spec() const { return spec_; }
  const KvLayerLayout& layer(uint32_t index) const { return layers_[index]; }
  // The 16-position tile of K or V that holds position `position` of the block.
  std::byte* KeyTile(BlockId block, const KvLayerLayout& layer, uint32_t head,
                     uint32_t position) const {
    return Block(block) + layer.keys + head * layer.key_head_bytes +
           position / kTilePositions * layer.key_tile_bytes;
  }
  std::byte* ValueTile(BlockId block, const KvLayerLayout& layer, uint32_t head,
                       uint32_t position) const {
    return Block(block) + layer.values + head * layer.value_head_bytes +
           position / kTilePositions * layer.value_tile_bytes;
  }

  void CopyBlock(BlockId from, BlockId to, uint32_t positions);
  void Read(BlockId block, uint32_t layer, KvPart part, uint32_t first, uint32_t count,
            std::span<std::byte> out) const;
  void Write(BlockId block, uint32_t layer, KvPart part, uint32_t first, uint32_t count,
             std::span<const std::byte> in);

  void ZeroState(StateSlot slot);
  void CopyState(StateSlot from, StateSlot to);
  std::span<float> State(StateSlot slot, uint32_t layer) const;

 private:
  std::byte* Block(BlockId block) const {
    return blocks_.data() + static_cast<uint64_t>(block) * block_bytes_;
  }
  // Calls move(value in the block, value in canonical order, bytes) for each run of values.
  template <class Move>
  void ForEachRun(BlockId block, uint32_t layer, KvPart part, uint32_t first, uint32_t count,
                  Move move) const;
  std::span<float> StateOf(StateSlot slot) const;

  KvSpec spec_;
  std::vector<KvLayerLayout> layers_;
  uint64_t block_bytes_ = 0;
  uint64_t state_floats_ = 0;  // of one slot
  std::vector<uint64_t> state_offsets_;
  Arena blocks_;
  Arena states_;
};

}  // namespace fak::tensor::cpu
