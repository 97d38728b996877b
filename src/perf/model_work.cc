#include "perf/model_work.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace fak::perf {
namespace {

constexpr std::string_view kTable = "token_embd.weight";
constexpr std::string_view kHead = "output.weight";

bool IsFloat(tensor::DType type) {
  return type == tensor::DType::kF32 || type == tensor::DType::kF16 || type == tensor::DType::kBf16;
}

}  // namespace

ModelWork WorkOf(std::span<const tensor::GgufTensor> tensors, uint32_t experts,
                 uint32_t experts_used) {
  const bool has_head =
      std::any_of(tensors.begin(), tensors.end(),
                  [](const tensor::GgufTensor& tensor) { return tensor.name == kHead; });
  ModelWork work;
  uint64_t float_bytes = 0;
  for (const tensor::GgufTensor& tensor : tensors) {
    if (tensor.name == kTable && has_head) {
      continue;  // one row of it
    }
    const bool chosen = experts > 0 && tensor.name.find("_exps.") != std::string_view::npos;
    const uint64_t part = chosen ? experts_used : 1;
    const uint64_t whole = chosen ? experts : 1;
    const uint64_t bytes = tensor.bytes / whole * part;
    work.token_bytes += bytes;
    float_bytes += IsFloat(tensor.type) ? bytes : 0;
    if (tensor.dims > 1) {
      const uint64_t ops = 2 * static_cast<uint64_t>(tensor.elements()) / whole * part;
      (tensor.name == kTable || tensor.name == kHead ? work.head_ops : work.body_ops) += ops;
    }
  }
  work.of_bytes = 2 * float_bytes < work.token_bytes;
  return work;
}

Result<ModelWork> WorkOf(const tensor::GgufFile& file) {
  TRY_ASSIGN(const std::string_view architecture, file.GetString("general.architecture"));
  const std::string prefix(architecture);
  TRY_ASSIGN(const uint32_t experts, file.GetU32(prefix + ".expert_count", 0));
  TRY_ASSIGN(const uint32_t used, file.GetU32(prefix + ".expert_used_count", 0));
  return WorkOf(file.tensors(), experts, used);
}

}  // namespace fak::perf
