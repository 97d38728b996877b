#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fak::text {

inline constexpr int32_t kNoToken = -1;

// Strings one after another in one allocation: what a vocabulary of 10^5 tokens needs instead of a
// vector of strings. Views are valid until the next Add().
class StringList {
 public:
  void Reserve(size_t count, size_t bytes) {
    ends_.reserve(count);
    bytes_.reserve(bytes);
  }
  void Add(std::string_view text) {
    bytes_ += text;
    ends_.push_back(bytes_.size());
  }
  size_t size() const { return ends_.size(); }
  bool empty() const { return ends_.empty(); }
  size_t bytes() const { return bytes_.size(); }
  // Precondition: index < size().
  std::string_view operator[](size_t index) const {
    const size_t begin = index == 0 ? 0 : ends_[index - 1];
    return {bytes_.data() + begin, ends_[index] - begin};
  }

 private:
  std::string bytes_;
  std::vector<size_t> ends_;
};

// The values of tokenizer.ggml.token_type.
enum class TokenType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // renders as nothing; matched in text only where special tokens are parsed
  kUserDefined = 4,  // renders as its text; matched in any text, before everything else
  kUnused = 5,
  kByte = 6,  // "<0xHH>", one raw byte
};

// Everything a tokenizer is made of, as its file has it. Plain data: room `model` fills it from a
// GGUF, text/hf_tokenizer.h from a tokenizer.json; Tokenizer::Create() checks it.
struct Vocabulary {
  enum class Model {
    kBpe,  // byte-level BPE: tokens are written in GPT-2's byte alphabet, merges by rank
    kSpm,  // SentencePiece: blanks are U+2581, unknown characters fall back to byte tokens
  };
  enum class Normalizer { kNone, kNfc };

  Model model = Model::kBpe;
  // kBpe: the name of the pre-tokenizer, as in tokenizer.ggml.pre ("smollm", "qwen2", ...).
  std::string pre_tokenizer;
  // kBpe: a word that is a token as it stands is that token, whatever the merges say. Absent: as
  // the pre-tokenizer has it.
  std::optional<bool> ignore_merges;
  // Applied to text between special tokens. A GGUF has none.
  Normalizer normalizer = Normalizer::kNone;

  StringList tokens;  // token id -> text; of duplicates the first is what text encodes to
  std::vector<TokenType> types;  // one a token, or empty: all normal
  std::vector<float> scores;     // kSpm without merges: one a token, the highest merges first
  StringList merges;  // left 0, right 0, left 1, right 1, ...; the first pair merges first

  int32_t bos = kNoToken;
  int32_t eos = kNoToken;
  int32_t eot = kNoToken;
  int32_t eom = kNoToken;
  int32_t unk = kNoToken;
  int32_t pad = kNoToken;
  // More ids that end a generation (a model's generation_config.json lists several).
  std::vector<int32_t> end_of_generation;

  bool add_bos = false;
  bool add_eos = false;
  // kSpm: a blank is put before text that follows the start or a special token.
  bool add_space_prefix = false;

  // Appends a merge written as a GGUF has it, "left right": split at the first blank that is not
  // the first byte. kDataCorrupt when there is none.
  [[nodiscard]] Status AddMerge(std::string_view merge);

  // kDataCorrupt says which counts, types or ids don't fit together. Tokenizer::Create() calls it.
  [[nodiscard]] Status Check() const;
};

// "gpt2" and "llama", the values of tokenizer.ggml.model that we run; kUnsupported names any other.
[[nodiscard]] Result<Vocabulary::Model> VocabularyModel(std::string_view name);

}  // namespace fak::text
