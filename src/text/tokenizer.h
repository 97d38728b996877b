#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/vocabulary.h"

namespace fak::text {

struct EncodeOptions {
  bool add_special = true;     // BOS before and EOS after, where the vocabulary asks for them
  bool parse_special = false;  // control tokens written in the text become those tokens
};

// A part of a rendered chat template: what the template wrote is parsed for special tokens, what
// came from the user is not, so that "<|im_end|>" in a message can't end its turn.
struct Segment {
  std::string_view text;
  bool parse_special = false;
};

struct DecodeOptions {
  bool skip_special = true;  // control tokens give no text
};

// Turns text into token ids and back. Immutable once made; every method may be called from any
// thread. Hot path: bench/micro/tokenizer_bench.cc.
//
// Text is any bytes. Encode() takes O(n log n) time in the worst case ("aaaa..."), and about 24
// bytes of scratch for each byte of the longest stretch without a place to split.
// Algorithms: byte-pair merges by rank (Sennrich et al. 2016; the byte alphabet is GPT-2's) and
// SentencePiece's BPE by score with byte fallback (Kudo and Richardson 2018).
class Tokenizer {
 public:
  // kUnsupported names a pre-tokenizer we don't have; kDataCorrupt names the token or merge that
  // breaks the vocabulary. Neither is ever replaced by a guess.
  [[nodiscard]] static Result<std::unique_ptr<const Tokenizer>> Create(Vocabulary vocabulary);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  std::vector<int32_t> Encode(std::string_view text, EncodeOptions options = {}) const;

  // Encodes the segments as one text: a word may cross from one into the next, a control token is
  // found only where all of its bytes are in segments that are parsed. With add_special, BOS is not
  // put before a text that already begins with it (a template may have written it).
  std::vector<int32_t> EncodeSegments(std::span<const Segment> segments, bool add_special) const;

  // The raw bytes that a token stands for, its name if it is a control token; empty for an id that
  // is not in the vocabulary (embedding tables are padded). Valid as long as the tokenizer.
  std::string_view TokenBytes(int32_t id) const;

  // The bytes of the whole sequence. Where the vocabulary puts a blank before the text, it is taken
  // away again. May end in, or contain, broken UTF-8: text/detokenizer.h makes it whole.
  std::string Decode(std::span<const int32_t> ids, DecodeOptions options = {}) const;

  // The id of the token written so in the vocabulary file ("<|im_end|>"), or kNoToken.
  int32_t Find(std::string_view token_text) const;
  // A token as the vocabulary file writes it. Precondition: 0 <= id < vocab_size().
  std::string_view TokenText(int32_t id) const;
  // kUnused for an id that is not in the vocabulary.
  TokenType Type(int32_t id) const;
  // Control and unknown tokens: no part of what a person reads.
  bool IsControl(int32_t id) const;
  // Generation stops at any of these: EOS, EOT, EOM, what the vocabulary lists, and tokens known by
  // name (chat models are often published with an EOS that their chats don't end with).
  bool IsEndOfGeneration(int32_t id) const;

  int32_t vocab_size() const;
  int32_t bos() const;
  int32_t eos() const;
  int32_t eot() const;
  int32_t eom() const;
  int32_t unk() const;
  int32_t pad() const;
  bool add_bos() const;
  bool add_eos() const;
  // Ascending.
  std::span<const int32_t> end_of_generation_ids() const;
  // Every control, unknown and user-defined token; ascending.
  std::span<const int32_t> special_ids() const;

  // A lower bound on Encode(text).size() at the cost of a glance, so that a prompt which can't fit
  // is refused before it is encoded.
  size_t TokensAtLeast(std::string_view text) const;

  // How many bytes of a text have no token of their own here, and none that stands for what is not
  // known: Encode() drops them where no longer token has them.
  size_t LostBytes(std::string_view text) const;

 private:
  class Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace fak::text
