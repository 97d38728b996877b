#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/merge_table.h"
#include "text/pre_tokenizer.h"
#include "text/text_encoder.h"
#include "text/token_index.h"
#include "text/vocabulary.h"

namespace fak::text {

// Byte-level BPE: a word starts as one token a byte and grows by the listed merges. Bytes that the
// vocabulary has no token for give none (SmolLM2 lacks 21, llama.cpp and Hugging Face drop them
// alike).
class BpeEncoder final : public TextEncoder {
 public:
  // The index must outlive the encoder.
  [[nodiscard]] static Result<std::unique_ptr<const TextEncoder>> Create(
      const Vocabulary& vocabulary, const TokenIndex& index);

  void Encode(std::string_view text, std::vector<int32_t>& out) const override;
  size_t LostBytes(std::string_view text) const override;

 private:
  BpeEncoder(PreTokenizer pre_tokenizer, bool ignore_merges, MergeTable merges,
             const TokenIndex& index);

  PreTokenizer pre_tokenizer_;
  bool ignore_merges_;
  MergeTable merges_;
  const TokenIndex& index_;
  std::array<int32_t, 256> byte_tokens_{};
};

}  // namespace fak::text
