#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/loader.h"
#include "tensor/backend.h"

namespace CLI {
class App;
}  // namespace CLI

namespace fak::cli {

// The flags of verbs with an engine of their own, under vLLM's and llama.cpp's names. A verb adds
// the groups that change something there, and no other: a flag that is taken does what it says.
struct EngineFlags {
  std::string model;  // reference; empty: the default model
  std::string chat_template_file;
  uint32_t max_num_seqs = engine::SchedulerOptions{}.max_num_seqs;
  uint32_t max_num_batched_tokens = engine::SchedulerOptions{}.max_num_batched_tokens;
  uint32_t long_prefill_token_threshold = 0;
  uint32_t max_model_len = 0;
  uint32_t block_size = engine::SchedulerOptions{}.block_size;
  std::string kv_cache_dtype = "f16";
  std::string kv_cache_memory;  // "2GiB"; empty: chosen
  bool no_prefix_caching = false;
  uint32_t threads = 0;
  std::string isa = "auto";
  std::string device = "auto";

  void AddMachine(CLI::App& verb);       // device, threads, instruction set
  void AddMemory(CLI::App& verb);        // context, blocks and memory of KV
  void AddStepRows(CLI::App& verb);      // rows in a step
  void AddSequences(CLI::App& verb);     // sequences in a step
  void AddScheduling(CLI::App& verb);    // what a prompt may take of a step, and find in the cache
  void AddChatTemplate(CLI::App& verb);  // in place of the model's own
  [[nodiscard]] Result<engine::EngineOptions> Options() const;
  [[nodiscard]] Result<std::unique_ptr<tensor::Backend>> MakeBackend() const;
};

// "model" as a word, and --model, FAK_MODEL and the TOML file for it.
void AddModel(CLI::App& verb, std::string& model);

// Names that a person may give a model here: aliases, and what was pulled.
std::vector<std::string> KnownModels();
// " (did you mean gemma3:270m?)" when one of them is near, or of the same family, else empty.
std::string DidYouMeanModel(std::string_view typed);

// A model found or pulled, with progress on stderr where a person looks.
struct ResolvedModel {
  std::string name;
  std::string path;
};
// maybe_cancel: set, it ends the pull with kCancelled.
[[nodiscard]] Result<ResolvedModel> ResolveModel(const std::string& reference,
                                                 const std::atomic<bool>* maybe_cancel = nullptr);

// Lines for a person, on stderr.
void PrintNotes(const std::vector<std::string>& notes);

// Resolves, prices, loads; prints the notes of card and plan on stderr.
[[nodiscard]] Result<engine::LoadedEngine> LoadModel(const EngineFlags& flags,
                                                     const ResolvedModel& model);

}  // namespace fak::cli
