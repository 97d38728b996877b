#pragma once

#include <cstddef>
#include <string_view>

#include "base/result.h"

namespace fak::text {

// Splits text into the words inside which byte-pair merges may happen. The families are published
// as regular expressions; these are the same rules written out, held equal to the expressions (run
// by PCRE2) in pre_tokenizer_test.cc. Time is linear in the text, whatever it holds.
// Immutable; any thread.
class PreTokenizer {
 public:
  // Names as in tokenizer.ggml.pre; kUnsupported names any other.
  [[nodiscard]] static Result<PreTokenizer> Create(std::string_view name);

  // The end of the word that begins at `begin` < text.size(). Words cover the text.
  size_t WordEnd(std::string_view text, size_t begin) const;

  // A word that is a token as it stands is that token, whatever the merges say.
  bool ignore_merges() const { return rules_.ignore_merges; }

 private:
  enum class Family {
    kGpt2,     // the expression of GPT-2
    kSmolLm,   // the same after every digit was set apart
    kLlama3,   // the expression of Llama 3; Qwen 2's differs in the length of numbers
    kDefault,  // what llama.cpp does for a file that says "default"
  };
  struct Rules {
    Family family;
    int number_length;  // kLlama3: digits in a word
    bool ignore_merges;
  };
  explicit PreTokenizer(Rules rules) : rules_(rules) {}

  Rules rules_;
};

}  // namespace fak::text
