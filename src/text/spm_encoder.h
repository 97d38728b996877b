#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/merge_loop.h"
#include "text/merge_table.h"
#include "text/text_encoder.h"
#include "text/token_index.h"
#include "text/vocabulary.h"

namespace fak::text {

// SentencePiece's BPE: blanks become U+2581, a text starts as one symbol a character, and
// neighbours that together are a token merge, the highest score first; with a list of merges (as
// Hugging Face writes such models) by rank in the list. Characters that are no token become byte
// tokens, or the unknown token if the vocabulary has no byte tokens.
// U+2581 itself reads as a blank: the format can't tell them apart.
class SpmEncoder final : public TextEncoder {
 public:
  // types: one a token. Types and index must outlive the encoder. kDataCorrupt: scores that are
  // missing or NaN, neither byte tokens nor an unknown token.
  [[nodiscard]] static Result<std::unique_ptr<const TextEncoder>> Create(
      const Vocabulary& vocabulary, std::span<const TokenType> types, const TokenIndex& index);

  void Encode(std::string_view text, std::vector<int32_t>& out) const override;
  size_t LostBytes(std::string_view) const override { return 0; }

 private:
  SpmEncoder(MergeTable merges, const TokenIndex& index)
      : merges_(std::move(merges)), index_(index) {}
  void LearnTokens(const StringList& tokens, std::span<const TokenType> types);
  [[nodiscard]] Status LearnBytes(const TokenIndex& index, int32_t unk);
  void EncodeWord(std::string_view word, MergeLoop& loop, std::vector<uint32_t>& begins,
                  std::vector<int32_t>& out) const;
  void EmitBytes(std::string_view character, std::vector<int32_t>& out) const;

  MergeTable merges_;
  const TokenIndex& index_;
  bool by_score_ = false;
  bool add_space_prefix_ = false;
  std::vector<uint32_t> ranks_;  // by_score_: one a token, lower is a higher score
  size_t token_bytes_max_ = 0;   // of tokens that text can become
  // The last bytes of the characters that stand before a U+2581 inside some token: elsewhere no
  // token reaches across, and the text can be cut before it.
  std::bitset<256> joins_blank_;
  std::array<int32_t, 128> ascii_tokens_{};
  std::array<int32_t, 256> byte_tokens_{};  // all kNoToken if the vocabulary lacks any
  int32_t unk_ = kNoToken;
};

}  // namespace fak::text
