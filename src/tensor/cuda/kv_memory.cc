#include "tensor/cuda/kv_memory.h"

#include <string>

#include "tensor/cuda/status.h"
#include "tensor/step_check.h"

namespace fak::tensor::cuda {

uint64_t KvMemory::BlockBytes(const KvSpec& spec) {
  return Aligned(spec.BlockBytes());
}

Result<KvMemory> KvMemory::Make(const KvSpec& spec, cudaStream_t stream) {
  TRY(CheckKvSpec(spec));
  KvMemory memory;
  memory.spec_ = spec;
  memory.stream_ = stream;
  memory.block_bytes_ = BlockBytes(spec);
  uint64_t at = 0;
  for (const KvLayerShape& shape : spec.layers) {
    const uint64_t bytes = uint64_t{shape.kv_heads} * shape.head_dim * KvTypeBytes(spec.type);
    memory.layers_.push_back({at, bytes});
    at += 2 * bytes * spec.block_size;
  }
  for (const uint64_t floats : spec.state_floats) {
    memory.state_offsets_.push_back(memory.state_floats_);
    memory.state_floats_ += floats;
  }
  TRY_ASSIGN(memory.blocks_, Arena::Make(memory.block_bytes_ * spec.blocks, "the KV cache"));
  TRY_ASSIGN(memory.states_,
             Arena::Make(memory.state_floats_ * sizeof(float) * spec.state_slots, "states"));
  return memory;
}

std::byte* KvMemory::Positions(BlockId block, uint32_t layer, KvPart part, uint32_t first,
                               uint32_t count, uint64_t bytes) const {
  CHECK(layer < layers_.size() && first + count <= spec_.block_size);
  CHECK(static_cast<uint32_t>(block) < spec_.blocks);
  CHECK(bytes == count * layers_[layer].position_bytes);
  return blocks_.data() + static_cast<uint64_t>(block) * block_bytes_ + Offset(layer, part) +
         first * layers_[layer].position_bytes;
}

Status KvMemory::CopyBlock(BlockId from, BlockId to, uint32_t positions) {
  for (uint32_t layer = 0; layer < layers_.size(); ++layer) {
    const uint64_t bytes = positions * layers_[layer].position_bytes;
    for (const KvPart part : {KvPart::kKey, KvPart::kValue}) {
      TRY_CUDA(cudaMemcpyAsync(Positions(to, layer, part, 0, positions, bytes),
                               Positions(from, layer, part, 0, positions, bytes), bytes,
                               cudaMemcpyDeviceToDevice, stream_));
    }
  }
  return {};
}

Status KvMemory::Read(BlockId block, uint32_t layer, KvPart part, uint32_t first, uint32_t count,
                      std::span<std::byte> out) const {
  const std::byte* const from = Positions(block, layer, part, first, count, out.size());
  TRY_CUDA(cudaMemcpyAsync(out.data(), from, out.size(), cudaMemcpyDeviceToHost, stream_));
  TRY_CUDA(cudaStreamSynchronize(stream_));
  return {};
}

Status KvMemory::Write(BlockId block, uint32_t layer, KvPart part, uint32_t first, uint32_t count,
                       std::span<const std::byte> in) {
  std::byte* const to = Positions(block, layer, part, first, count, in.size());
  TRY_CUDA(cudaMemcpyAsync(to, in.data(), in.size(), cudaMemcpyHostToDevice, stream_));
  TRY_CUDA(cudaStreamSynchronize(stream_));
  return {};
}

float* KvMemory::State(StateSlot slot, uint64_t first) const {
  CHECK(static_cast<uint32_t>(slot) < spec_.state_slots);
  return reinterpret_cast<float*>(states_.data()) + static_cast<uint64_t>(slot) * state_floats_ +
         first;
}

Status KvMemory::ZeroState(StateSlot slot) {
  TRY_CUDA(cudaMemsetAsync(State(slot, 0), 0, state_floats_ * sizeof(float), stream_));
  return {};
}

Status KvMemory::CopyState(StateSlot from, StateSlot to) {
  TRY_CUDA(cudaMemcpyAsync(State(to, 0), State(from, 0), state_floats_ * sizeof(float),
                           cudaMemcpyDeviceToDevice, stream_));
  return {};
}

Status KvMemory::ReadState(StateSlot slot, uint32_t layer, std::span<float> out) const {
  CHECK(layer < state_offsets_.size() && out.size() == spec_.state_floats[layer]);
  TRY_CUDA(cudaMemcpyAsync(out.data(), State(slot, state_offsets_[layer]), out.size_bytes(),
                           cudaMemcpyDeviceToHost, stream_));
  TRY_CUDA(cudaStreamSynchronize(stream_));
  return {};
}

Status KvMemory::WriteState(StateSlot slot, uint32_t layer, std::span<const float> in) {
  CHECK(layer < state_offsets_.size() && in.size() == spec_.state_floats[layer]);
  TRY_CUDA(cudaMemcpyAsync(State(slot, state_offsets_[layer]), in.data(), in.size_bytes(),
                           cudaMemcpyHostToDevice, stream_));
  TRY_CUDA(cudaStreamSynchronize(stream_));
  return {};
}

}  // namespace fak::tensor::cuda
