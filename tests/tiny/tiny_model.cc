#include "tests/tiny/tiny_model.h"

#include "tests/tiny/vocabulary.h"

namespace fak::tiny {
namespace {

Vocabulary VocabularyOf(const TinyOptions& options) {
  switch (options.family) {
    case Family::kLlama:
      return options.sentence_piece ? SentencePieceVocabulary() : ByteLevelVocabulary("gpt-2");
    case Family::kQwen2: return ByteLevelVocabulary("qwen2", 305);
    case Family::kQwen3:
    case Family::kQwen3Moe: return ByteLevelVocabulary("qwen2");
    case Family::kGemma3: return GemmaVocabulary();
  }
  return {};
}

}  // namespace

tensor::GgufWriter MakeTinyModel(const TinyOptions& options) {
  const Vocabulary vocabulary = VocabularyOf(options);
  const bool gemma = options.family == Family::kGemma3;
  const bool deep = gemma && options.deep;
  const bool experts = options.family == Family::kQwen3Moe;
  ModelShape shape = {
      .family = options.family,
      .layers = deep    ? 62u
                : gemma ? 7u
                        : 3u,
      .width = deep ? 128u : 256u,
      .heads = 4,
      .kv_heads = 2,
      .head_dim = options.family == Family::kQwen3 ? 128u : 64u,
      .ff = deep ? 128u : 512u,
      .vocabulary = static_cast<uint32_t>(vocabulary.tokens.size()),
      .context = 2048,
      .rope_base = options.family == Family::kLlama ? 10'000.0f : 1'000'000.0f,
      .tied = options.tied || gemma,
      .window = gemma ? 24u : 0u,
      .experts = experts ? 8u : 0u,
      .experts_used = experts ? 2u : 0u,
      .expert_ff = experts ? 256u : 0u,
      .rope_scaling = options.rope_scaling,
  };
  if (options.small) {
    shape.layers = 2;
    shape.width = 64;
    shape.heads = 2;
    shape.kv_heads = 1;
    shape.head_dim = 32;
    shape.ff = 768;  // three chunks of a sum: of two, the order may not show
  }
  tensor::GgufWriter writer;
  AddModel(shape, options.mix, {.seed = options.seed}, writer);
  AddVocabulary(vocabulary, writer);
  return writer;
}

Status WriteTinyModel(const TinyOptions& options, const std::string& path) {
  return MakeTinyModel(options).Write(path);
}

}  // namespace fak::tiny
