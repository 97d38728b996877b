// make-bench-model PRESET OUT.gguf TYPE [--vocab-from FILE.gguf] [--seed N]
// Writes a model with random weights in the shape of a known one, for benchmarks at real sizes.
// Rows repeat, which costs a kernel nothing and makes the file at the speed of the disk. TYPE is a
// tensor type or Q4_K_M, Q5_K_M. The tokenizer is a padded one of ours with the real number of
// tokens, or that of another file.
#include <array>
#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/gguf.h"
#include "tensor/gguf_writer.h"
#include "tests/tiny/synthetic_model.h"
#include "tests/tiny/vocabulary.h"

namespace {

using fak::Code;
using fak::Fail;
using fak::Result;
using fak::Status;
using fak::tensor::GgufFile;
using fak::tensor::GgufKey;
using fak::tiny::Family;
using fak::tiny::ModelShape;

constexpr int64_t kDistinctRows = 61;
constexpr std::string_view kUsage =
    "usage: make-bench-model PRESET OUT.gguf TYPE [--vocab-from FILE.gguf] [--seed N]\n"
    "presets: smol135 llama1b llama8b qwen2-0.5b qwen2-1.5b qwen3-0.6b moe-a0.3b";

struct Preset {
  std::string_view name;
  ModelShape shape;
};

// SmolLM2-135M, Llama 3.2 1B and 3.1 8B, Qwen2.5 0.5B and 1.5B, Qwen3 0.6B, and a mixture of 32
// experts in Qwen3's layout with 1003 M weights, of which 0.3 G are used for a token.
std::optional<ModelShape> FindPreset(std::string_view name) {
  // tidy: table
  const std::array<Preset, 7> presets = {{
      {"smol135",
       {.family = Family::kLlama,
        .layers = 30,
        .width = 576,
        .heads = 9,
        .kv_heads = 3,
        .head_dim = 64,
        .ff = 1536,
        .vocabulary = 49'152,
        .context = 8192,
        .rope_base = 1e5f,
        .tied = true}},
      {"llama1b",
       {.family = Family::kLlama,
        .layers = 16,
        .width = 2048,
        .heads = 32,
        .kv_heads = 8,
        .head_dim = 64,
        .ff = 8192,
        .vocabulary = 128'256,
        .context = 131'072,
        .rope_base = 5e5f,
        .tied = true}},
      {"llama8b",
       {.family = Family::kLlama,
        .layers = 32,
        .width = 4096,
        .heads = 32,
        .kv_heads = 8,
        .head_dim = 128,
        .ff = 14'336,
        .vocabulary = 128'256,
        .context = 131'072,
        .rope_base = 5e5f}},
      {"qwen2-0.5b",
       {.family = Family::kQwen2,
        .layers = 24,
        .width = 896,
        .heads = 14,
        .kv_heads = 2,
        .head_dim = 64,
        .ff = 4864,
        .vocabulary = 151'936,
        .context = 32'768,
        .rope_base = 1e6f,
        .tied = true}},
      {"qwen2-1.5b",
       {.family = Family::kQwen2,
        .layers = 28,
        .width = 1536,
        .heads = 12,
        .kv_heads = 2,
        .head_dim = 128,
        .ff = 8960,
        .vocabulary = 151'936,
        .context = 32'768,
        .rope_base = 1e6f,
        .tied = true}},
      {"qwen3-0.6b",
       {.family = Family::kQwen3,
        .layers = 28,
        .width = 1024,
        .heads = 16,
        .kv_heads = 8,
        .head_dim = 128,
        .ff = 3072,
        .vocabulary = 151'936,
        .context = 40'960,
        .rope_base = 1e6f,
        .tied = true}},
      {"moe-a0.3b",
       {.family = Family::kQwen3Moe,
        .layers = 16,
        .width = 1024,
        .heads = 16,
        .kv_heads = 4,
        .head_dim = 64,
        .ff = 3072,
        .vocabulary = 151'936,
        .context = 32'768,
        .rope_base = 1e6f,
        .tied = true,
        .experts = 32,
        .experts_used = 4,
        .expert_ff = 512}},
  }};
  for (const Preset& preset : presets) {
    if (preset.name == name) {
      return preset.shape;
    }
  }
  return std::nullopt;
}

struct Command {
  std::vector<std::string> positional;
  std::string vocabulary_path;  // empty: ours
  uint64_t seed = 1;
};

Result<Command> Parse(int argc, char** argv) {
  Command command;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const std::string_view value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--vocab-from") {
      command.vocabulary_path = value;
      ++i;
    } else if (word == "--seed") {
      const auto [end, error] =
          std::from_chars(value.data(), value.data() + value.size(), command.seed);
      if (error != std::errc() || end != value.data() + value.size()) {
        return Fail(Code::kInvalidArgument, "--seed wants a number");
      }
      ++i;
    } else {
      command.positional.emplace_back(word);
    }
  }
  if (command.positional.size() != 3) {
    return Fail(Code::kInvalidArgument, std::string(kUsage));
  }
  return command;
}

Status Run(int argc, char** argv) {
  TRY_ASSIGN(const Command command, Parse(argc, argv));
  std::optional<ModelShape> shape = FindPreset(command.positional[0]);
  const auto mix = fak::tiny::FindTypeMix(command.positional[2]);
  if (!shape || !mix) {
    return Fail(Code::kInvalidArgument, std::string(kUsage));
  }
  std::unique_ptr<GgufFile> vocabulary_file;
  if (!command.vocabulary_path.empty()) {
    TRY_ASSIGN(vocabulary_file, GgufFile::Open(command.vocabulary_path));
    TRY_ASSIGN(const auto tokens, vocabulary_file->GetStrings("tokenizer.ggml.tokens"));
    shape->vocabulary = static_cast<uint32_t>(tokens.size());
  }
  fak::tensor::GgufWriter writer;
  fak::tiny::AddModel(*shape, *mix, {.seed = command.seed, .distinct_rows = kDistinctRows}, writer);
  writer.Set("general.name", "Synthetic " + command.positional[0]);
  if (vocabulary_file != nullptr) {
    for (const GgufKey& key : vocabulary_file->keys()) {
      if (key.name.starts_with("tokenizer.")) {
        writer.Copy(key);
      }
    }
  } else {
    const char* pre = shape->family == Family::kLlama ? "gpt-2" : "qwen2";
    fak::tiny::AddVocabulary(fak::tiny::ByteLevelVocabulary(pre, shape->vocabulary), writer);
  }
  return writer.Write(command.positional[1]);
}

}  // namespace

int main(int argc, char** argv) {
  const Status done = Run(argc, argv);
  if (!done) {
    std::fprintf(stderr, "make-bench-model: %s\n", done.error().detail.c_str());
    return 1;
  }
  return 0;
}
