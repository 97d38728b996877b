#include "model/families.h"

#include <array>
#include <cmath>

namespace fak::model {
namespace {

using tensor::RopeStyle;

constexpr std::array kFamilies = {
    Family{.name = "gemma3",
           .rope_style = RopeStyle::kHalf,
           .windows = true,
           .scaled_embedding = true,
           .layer = Gemma3Layer},
    Family{.name = "llama", .rope_style = RopeStyle::kAdjacent, .layer = LlamaLayer},
    Family{.name = "qwen2", .rope_style = RopeStyle::kHalf, .layer = Qwen2Layer},
    Family{.name = "qwen3", .rope_style = RopeStyle::kHalf, .layer = Qwen3Layer},
    Family{.name = "qwen3moe",
           .rope_style = RopeStyle::kHalf,
           .experts = true,
           .layer = Qwen3MoeLayer},
};

}  // namespace

const Family* FindFamily(std::string_view architecture) {
  for (const Family& family : kFamilies) {
    if (family.name == architecture) {
      return &family;
    }
  }
  return nullptr;
}

float AttentionScale(uint32_t dim) {
  return 1.0f / std::sqrt(static_cast<float>(dim));
}

std::string FamilyNames() {
  std::string names;
  for (const Family& family : kFamilies) {
    names += (names.empty() ? "" : ", ") + std::string(family.name);
  }
  return names;
}

}  // namespace fak::model
