#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "engine/loader.h"
#include "engine/verify_trace.h"
#include "tensor/cpu_backend.h"

// What a model computes of one prompt, for tests that look at the numbers themselves: one step over
// the whole prompt, cold, without a scheduler.
namespace fak::logits {

struct LoadOptions {
  tensor::Isa isa = tensor::Isa::kAuto;
  bool gpu = false;  // in place of the CPU: its first device
  tensor::KvType kv = tensor::KvType::kF16;
  uint32_t tokens_max = 0;  // of a prompt
};
[[nodiscard]] Result<engine::LoadedEngine> Load(const std::string& path,
                                                const LoadOptions& options);

enum class Rows : uint8_t { kLast, kAll };

// KV of all positions, and logits of the last or of all of them. kInternal when something is not
// finite. The engine is ready for another prompt afterwards.
[[nodiscard]] Result<engine::Trace> RunPrompt(engine::LoadedEngine& engine,
                                              std::span<const int32_t> tokens, Rows rows);

}  // namespace fak::logits
