#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor/gguf_writer.h"

// Small tokenizers for models made by us: complete (any text can be encoded) and with a few merges,
// so that splitting and merging have something to do.
namespace fak::tiny {

enum class TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

struct Vocabulary {
  std::string model = {};  // "gpt2" (byte-level BPE) or "llama" (SentencePiece)
  std::string pre = {};    // the pre-tokenizer of byte-level BPE
  std::vector<std::string> tokens = {};
  std::vector<TokenType> types = {};
  std::vector<float> scores = {};        // SentencePiece only
  std::vector<std::string> merges = {};  // byte-level BPE only
  uint32_t bos = 0;
  uint32_t eos = 0;
  std::optional<uint32_t> unknown = {};
  std::optional<uint32_t> padding = {};
  bool add_bos = false;
  bool add_space_prefix = false;
  std::string chat_template = {};
};

// 256 byte tokens, merges, <|endoftext|>, <|im_start|> and <|im_end|> with the ChatML template;
// then unused tokens named [PAD300] and so on up to `size`, if that is more. BOS is <|endoftext|>,
// EOS <|im_end|>.
Vocabulary ByteLevelVocabulary(const std::string& pre, uint32_t size = 0);

// As llama 2 has it: <unk> <s> </s>, bytes, pieces; <|user|> is user-defined and used by the
// template.
Vocabulary SentencePieceVocabulary();
// As gemma 3 has it: <pad> <eos> <bos> <unk>, turn marks, bytes, pieces; no space prefix.
Vocabulary GemmaVocabulary();

// Writes the keys tokenizer.*.
void AddVocabulary(const Vocabulary& vocabulary, tensor::GgufWriter& writer);

}  // namespace fak::tiny
