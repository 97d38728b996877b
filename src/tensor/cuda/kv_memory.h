#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/cuda/memory.h"
#include "tensor/kv_spec.h"

namespace fak::tensor::cuda {

// The KV blocks and recurrent states of the device, in one arena each. A layer's K, then its V, of
// a block is [position][kv head][dim] in the storage type: the canonical order, so that a run of
// positions is a run of memory. Not thread-safe. Calls wait for the stream, and so for all that was
// queued before.
class KvMemory {
 public:
  KvMemory() = default;

  // kInvalidArgument: a spec that breaks KvSpec's rules; kResourceExhausted.
  [[nodiscard]] static Result<KvMemory> Make(const KvSpec& spec, cudaStream_t stream);
  static uint64_t BlockBytes(const KvSpec& spec);

  const KvSpec& spec() const { return spec_; }
  std::byte* data() const { return blocks_.data(); }
  uint64_t block_bytes() const { return block_bytes_; }
  // From the start of a block.
  uint64_t Offset(uint32_t layer, KvPart part) const {
    return layers_[layer].offset + (part == KvPart::kValue ? PartBytes(layer) : 0);
  }

  [[nodiscard]] Status CopyBlock(BlockId from, BlockId to, uint32_t positions);
  [[nodiscard]] Status Read(BlockId block, uint32_t layer, KvPart part, uint32_t first,
                            uint32_t count, std::span<std::byte> out) const;
  [[nodiscard]] Status Write(BlockId block, uint32_t layer, KvPart part, uint32_t first,
                             uint32_t count, std::span<const std::byte> in);

  [[nodiscard]] Status ZeroState(StateSlot slot);
  [[nodiscard]] Status CopyState(StateSlot from, StateSlot to);
  [[nodiscard]] Status ReadState(StateSlot slot, uint32_t layer, std::span<float> out) const;
  [[nodiscard]] Status WriteState(StateSlot slot, uint32_t layer, std::span<const float> in);

 private:
  struct Layer {
    uint64_t offset = 0;
    uint64_t position_bytes = 0;  // of K, and of V
  };

  uint64_t PartBytes(uint32_t layer) const {
    return layers_[layer].position_bytes * spec_.block_size;
  }
  // Of `count` positions from `first` on; checks that they are there.
  std::byte* Positions(BlockId block, uint32_t layer, KvPart part, uint32_t first, uint32_t count,
                       uint64_t bytes) const;
  float* State(StateSlot slot, uint64_t first) const;

  KvSpec spec_;
  cudaStream_t stream_ = nullptr;
  std::vector<Layer> layers_;
  uint64_t block_bytes_ = 0;
  uint64_t state_floats_ = 0;  // of one slot
  std::vector<uint64_t> state_offsets_;
  Arena blocks_;
  Arena states_;
};

}  // namespace fak::tensor::cuda
