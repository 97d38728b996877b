#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace fak::text {

// Makes valid UTF-8 of a byte stream that is cut anywhere: holds back a sequence that may still
// become whole (1 to 3 bytes), and writes U+FFFD for one that can't (one for each maximal subpart,
// Unicode 15 chapter 3.9, as every browser and Python do).
// Owned by one sequence; not thread-safe.
class Utf8Assembler {
 public:
  // Appends to out what the bytes complete.
  void Feed(std::string_view bytes, std::string& out);
  // The end of the stream: what is held becomes U+FFFD.
  void Flush(std::string& out);
  size_t held_bytes() const { return held_.size(); }

 private:
  std::string held_;
};

// Turns one sequence's tokens into text as they are generated. The text of all calls together is
// what Tokenizer::Decode() gives (but for the leading blank of SentencePiece, which a continuation
// keeps), with broken UTF-8 replaced. Owned by one sequence; not thread-safe.
// The tokenizer must outlive it. A token's own bytes, for logprobs, are Tokenizer::TokenBytes().
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, DecodeOptions options = {})
      : tokenizer_(tokenizer), options_(options) {}

  // Text that stands before the first token, cut anywhere.
  void FeedBytes(std::string_view bytes, std::string& out) { utf8_.Feed(bytes, out); }
  // Appends the text that this token completes, possibly none.
  void Feed(int32_t token, std::string& out);
  void Flush(std::string& out) { utf8_.Flush(out); }
  // Bytes of an unfinished character, 0 to 3.
  size_t held_bytes() const { return utf8_.held_bytes(); }

 private:
  const Tokenizer& tokenizer_;
  DecodeOptions options_;
  Utf8Assembler utf8_;
};

}  // namespace fak::text
