#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/scheduler.h"
#include "model/model.h"
#include "tensor/backend.h"
#include "text/model_card.h"

namespace fak::engine {

// What the flags of a step's size may be at most.
inline constexpr uint32_t kStepSequencesMax = 4096;
inline constexpr uint32_t kStepRowsMax = 65'536;

struct EngineOptions {
  SchedulerOptions scheduler;
  uint32_t max_model_len = 0;  // 0: the model's, lowered to fit
  tensor::KvType kv_cache_dtype = tensor::KvType::kF16;
  uint64_t kv_cache_memory = 0;  // bytes; 0: up to four full contexts or half of what is free
  uint32_t kv_blocks = 0;        // 0: as kv_cache_memory says; else exactly (tests, verify)
  std::optional<std::string> chat_template_source;
};

// What a model takes here, and what was decided.
struct MemoryPlan {
  uint64_t weights = 0;
  uint64_t workspace = 0;
  uint64_t kv = 0;
  uint64_t available = 0;
  uint32_t blocks = 0;
  uint64_t kv_bytes_a_token = 0;
  uint32_t context = 0;            // positions a sequence may have
  std::vector<std::string> notes;  // one line each, for a person: what was lowered, and why
};

// A model in memory, ready to take steps. Move-only; the back end outlives the executable.
struct LoadedEngine {
  std::unique_ptr<tensor::Backend> backend;
  std::unique_ptr<tensor::Executable> executable;
  std::shared_ptr<const text::ModelCard> card;
  model::ModelShape shape;
  EngineOptions options;
  MemoryPlan plan;
  std::string artifact;  // driver::Capabilities::artifact
};

// Prices the model against the back end's memory. kResourceExhausted, with the sum and the flag
// that would make it fit, when weights and workspace don't fit, or when the user asked for more
// context than the rest holds. A context that nobody asked for is lowered, with a note.
[[nodiscard]] Result<MemoryPlan> PlanMemory(const model::ModelFile& file,
                                            const tensor::Backend& backend,
                                            const EngineOptions& options);

// Opens, prices, loads and compiles. Blocks; seconds for a large file.
[[nodiscard]] Result<LoadedEngine> LoadEngine(const std::string& path,
                                              std::unique_ptr<tensor::Backend> backend,
                                              const EngineOptions& options);

}  // namespace fak::engine
