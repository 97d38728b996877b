#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tensor/dtype.h"
#include "tensor/gguf_writer.h"

// Models with random weights in the layout of real files of each family: the same keys, tensor
// names, shapes and types. Deterministic: a weight is a function of the seed, its tensor's name and
// its place.
namespace fak::tiny {

enum class Family { kLlama, kQwen2, kQwen3, kQwen3Moe, kGemma3 };
std::optional<Family> FindFamily(std::string_view name);  // "qwen3moe"
std::string_view FamilyName(Family family);               // also general.architecture

// Scaling of rotary positions. kLlama3 is the tensor rope_freqs.weight, the others are keys.
enum class RopeScaling { kNone, kLinear, kYarn, kLlama3 };
std::optional<RopeScaling> FindRopeScaling(std::string_view name);  // "none", "linear" ...

struct ModelShape {
  Family family = Family::kLlama;
  uint32_t layers = 0;
  uint32_t width = 0;  // of the residual stream
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t ff = 0;  // of the dense feed-forward; a key only where there are experts
  uint32_t vocabulary = 0;
  uint32_t context = 0;
  float rope_base = 0.0f;
  bool tied = false;     // no output.weight: the embeddings serve twice
  uint32_t window = 0;   // gemma3: of its local layers
  uint32_t experts = 0;  // qwen3moe
  uint32_t experts_used = 0;
  uint32_t expert_ff = 0;
  RopeScaling rope_scaling = RopeScaling::kNone;
};

// How matrices are stored. Vectors, biases and routers are always F32.
struct TypeMix {
  tensor::DType base = tensor::DType::kF32;
  // As llama.cpp's Q4_K_M: the output matrix in Q6_K, and attn_v and ffn_down of half the layers.
  bool more_bits = false;
};
std::optional<TypeMix> FindTypeMix(
    std::string_view name);  // any computed type, or "Q4_K_M", "Q5_K_M"

struct WeightOptions {
  uint64_t seed = 1;
  // 0: all rows of a matrix differ. Else they repeat with this period: files for benchmarks are
  // made at the speed of the disk.
  int64_t distinct_rows = 0;
};

// Writes the general.* and architecture keys and all tensors. Rows that a type's blocks don't
// divide are stored in the type that llama.cpp falls back to.
void AddModel(const ModelShape& shape, const TypeMix& mix, const WeightOptions& weights,
              tensor::GgufWriter& writer);

}  // namespace fak::tiny
