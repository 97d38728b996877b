#include "engine/loader.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/hash.h"
#include "base/strings.h"
#include "base/version.h"
#include "model/card.h"
#include "model/fingerprint.h"
#include "text/chat_template.h"

namespace fak::engine {
namespace {

constexpr uint64_t kReserve = 64ull << 20;  // for the program itself and the sampler's vectors
constexpr uint32_t kContextLeast = 64;      // positions; less is no use to anyone

tensor::KvSpec SpecOf(const EngineOptions& options, std::vector<tensor::KvLayerShape> layers,
                      uint32_t blocks) {
  tensor::KvSpec spec;
  spec.layers = std::move(layers);
  spec.type = options.kv_cache_dtype;
  spec.block_size = options.scheduler.block_size;
  spec.blocks = blocks;
  return spec;
}

tensor::StepLimits LimitsOf(const EngineOptions& options, uint32_t context) {
  return {.rows_max = options.scheduler.max_num_batched_tokens,
          .sequences_max = options.scheduler.max_num_seqs,
          .logit_rows_max = options.scheduler.logit_rows_max(),
          .positions_max = context};
}

Status CheckOptions(const EngineOptions& options) {
  if (options.scheduler.block_size < 16 || options.scheduler.block_size > 256 ||
      !std::has_single_bit(options.scheduler.block_size)) {
    return Fail(Code::kInvalidArgument,
                "--block-size " + std::to_string(options.scheduler.block_size) +
                    ": must be a power of two from 16 to 256",
                "--block-size");
  }
  if (options.scheduler.max_num_seqs == 0 || options.scheduler.max_num_seqs > kStepSequencesMax) {
    return Fail(Code::kInvalidArgument,
                "--max-num-seqs must be 1 to " + std::to_string(kStepSequencesMax),
                "--max-num-seqs");
  }
  if (options.scheduler.max_num_batched_tokens < options.scheduler.max_num_seqs ||
      options.scheduler.max_num_batched_tokens > kStepRowsMax) {
    return Fail(Code::kInvalidArgument,
                "--max-num-batched-tokens must be from the sequences in a step (" +
                    std::to_string(options.scheduler.max_num_seqs) + ") to " +
                    std::to_string(kStepRowsMax),
                "--max-num-batched-tokens");
  }
  return {};
}

std::string Sum(const MemoryPlan& plan) {
  return "weights " + FormatBytes(plan.weights) + " + workspace " + FormatBytes(plan.workspace) +
         " + KV " + FormatBytes(plan.kv) + " = " +
         FormatBytes(plan.weights + plan.workspace + plan.kv) + " of " +
         FormatBytes(plan.available) + " available";
}

// As --kv-cache-memory takes it, in whole KiB: at most the bytes, or `up`, at least.
std::string AsFlag(uint64_t bytes, bool up) {
  constexpr uint64_t kKib = 1024;
  constexpr uint64_t kMib = kKib * 1024;
  const uint64_t unit = bytes < kMib ? kKib : kMib;
  return std::to_string((bytes + (up ? unit - 1 : 0)) / unit) + (unit == kKib ? "KiB" : "MiB");
}

// Blocks that the plan may have when a context of `wanted` positions is hoped for.
uint32_t BlocksWithin(const MemoryPlan& plan, const EngineOptions& options, uint64_t block_bytes,
                      uint32_t wanted) {
  const uint64_t fixed = plan.weights + plan.workspace + kReserve;
  const uint64_t rest = plan.available > fixed ? plan.available - fixed : 0;
  const uint64_t context_blocks =
      (wanted + options.scheduler.block_size - 1) / options.scheduler.block_size;
  uint64_t blocks = 0;
  if (options.kv_cache_memory != 0) {
    blocks = options.kv_cache_memory / block_bytes;
  } else {
    const uint64_t half = rest / 2 / block_bytes;
    const uint64_t most = rest / 10 * 9 / block_bytes;
    blocks = std::min(4 * context_blocks, std::max(half, std::min(context_blocks, most)));
  }
  return static_cast<uint32_t>(std::min<uint64_t>(blocks, 1u << 30));
}

// All that two servers must have in common for the same answer to the same request.
std::string Artifact(const Hash128& file, const LoadedEngine& engine) {
  const text::ChatTemplate* const maybe_template = engine.card->maybe_chat_template.get();
  std::string facts = file.ToHex();
  facts += "\n" + std::string(kVersion) + "\n" + engine.backend->info().numerics;
  facts += "\n" + std::to_string(static_cast<int>(engine.options.kv_cache_dtype));
  facts += "\n" + std::to_string(engine.plan.context) + "\n";
  facts += maybe_template == nullptr ? std::string_view() : maybe_template->source();
  return Xxh3Wide(facts).ToHex();
}

}  // namespace

Result<MemoryPlan> PlanMemory(const model::ModelFile& file, const tensor::Backend& backend,
                              const EngineOptions& options) {
  TRY(CheckOptions(options));
  const uint32_t trained = file.shape().context;
  const bool asked = options.max_model_len != 0;
  if (options.max_model_len > trained) {
    return Fail(Code::kInvalidArgument,
                "--max-model-len " + std::to_string(options.max_model_len) +
                    " is more than the model's context of " + std::to_string(trained),
                "--max-model-len");
  }
  const uint32_t wanted = asked ? options.max_model_len : trained;
  MemoryPlan plan;
  TRY_ASSIGN(const model::ModelPrice price,
             file.Price(backend, SpecOf(options, {}, 1), LimitsOf(options, wanted)));
  plan.weights = price.weights;
  plan.workspace = price.workspace;
  plan.kv_bytes_a_token = price.kv_block / options.scheduler.block_size;
  plan.available = backend.info().memory_available;
  plan.blocks = options.kv_blocks != 0 ? options.kv_blocks
                                       : BlocksWithin(plan, options, price.kv_block, wanted);
  const uint64_t holds = uint64_t{plan.blocks} * options.scheduler.block_size;
  plan.context = static_cast<uint32_t>(std::min<uint64_t>(wanted, holds));
  plan.kv = plan.blocks * price.kv_block;
  const bool too_large = plan.weights + plan.workspace + plan.kv + kReserve > plan.available;
  if (too_large && options.kv_cache_memory == 0) {
    return Fail(Code::kResourceExhausted,
                "the model doesn't fit in memory: " + Sum(plan) +
                    "; a smaller --max-num-batched-tokens shrinks the workspace");
  }
  if (too_large) {
    const uint64_t fixed = plan.weights + plan.workspace + kReserve;
    const uint64_t rest = plan.available > fixed ? plan.available - fixed : 0;
    return Fail(Code::kResourceExhausted,
                "--kv-cache-memory is more than there is: " + Sum(plan) + "; at most " +
                    AsFlag(rest, /*up=*/false) + " fits",
                "--kv-cache-memory");
  }
  if (const uint64_t least = std::min(wanted, kContextLeast); plan.context < least) {
    const uint64_t least_blocks =
        (least + options.scheduler.block_size - 1) / options.scheduler.block_size;
    return Fail(Code::kResourceExhausted,
                "KV memory of " + FormatBytes(plan.kv) + " holds " + std::to_string(plan.context) +
                    " tokens: " + Sum(plan) + "; --kv-cache-memory " +
                    AsFlag(least_blocks * price.kv_block, /*up=*/true) + " would do");
  }
  if (plan.context < wanted && asked) {
    return Fail(Code::kResourceExhausted,
                "a context of " + std::to_string(wanted) + " tokens needs " +
                    FormatBytes(wanted * plan.kv_bytes_a_token) + " of KV: " + Sum(plan) +
                    "; --max-model-len " + std::to_string(plan.context) + " fits",
                "--max-model-len");
  }
  if (plan.context < wanted) {
    plan.notes.push_back("context lowered from " + std::to_string(wanted) + " to " +
                         std::to_string(plan.context) + " tokens to fit: " + Sum(plan));
  }
  return plan;
}

Result<LoadedEngine> LoadEngine(const std::string& path, std::unique_ptr<tensor::Backend> backend,
                                const EngineOptions& options) {
  TRY_ASSIGN(const std::unique_ptr<model::ModelFile> file, model::ModelFile::Open(path));
  LoadedEngine engine;
  engine.options = options;
  engine.shape = file->shape();
  TRY_ASSIGN(engine.card, model::MakeCard(file->gguf(), options.chat_template_source));
  TRY_ASSIGN(engine.plan, PlanMemory(*file, *backend, options));
  TRY_ASSIGN(model::LoadedModel loaded, file->Load(*backend));
  TRY(backend->CreateKv(SpecOf(options, loaded.kv_layers, engine.plan.blocks)));
  TRY_ASSIGN(engine.executable,
             backend->Compile(std::move(loaded.program), LimitsOf(options, engine.plan.context)));
  engine.backend = std::move(backend);
  TRY_ASSIGN(const Hash128 fingerprint, model::Fingerprint(file->gguf()));
  engine.artifact = Artifact(fingerprint, engine);
  return engine;
}

}  // namespace fak::engine
