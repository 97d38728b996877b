#pragma once

#include <cstdint>
#include <vector>

// The shape of the KV memory that a back end owns and that room `kv` hands out in blocks.
namespace fak::tensor {

enum class BlockId : uint32_t {};
inline constexpr BlockId kNoBlock{0xffffffffu};

// The recurrent state of one sequence (or of one checkpoint): every recurrent layer's floats.
enum class StateSlot : uint32_t {};
inline constexpr StateSlot kNoState{0xffffffffu};

enum class KvType : uint8_t { kF32, kF16, kBf16 };

constexpr uint32_t KvTypeBytes(KvType type) {
  return type == KvType::kF32 ? 4 : 2;
}

struct KvLayerShape {
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;  // of K and of V
};

struct KvSpec {
  std::vector<KvLayerShape> layers;
  KvType type = KvType::kF16;
  uint32_t block_size = 16;  // positions a block; a power of two, 16 to 256
  uint32_t blocks = 0;
  std::vector<uint64_t> state_floats;  // of each recurrent layer; empty: no recurrent layer
  uint32_t state_slots = 0;            // sequences and checkpoints that may exist at once

  // Bytes of one block over all layers in the storage type, K and V, without padding.
  uint64_t BlockBytes() const {
    uint64_t values = 0;
    for (const KvLayerShape& layer : layers) {
      values += uint64_t{2} * layer.kv_heads * layer.head_dim;
    }
    return values * block_size * KvTypeBytes(type);
  }
};

enum class KvPart : uint8_t { kKey, kValue };

}  // namespace fak::tensor
