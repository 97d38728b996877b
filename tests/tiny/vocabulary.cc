#include "tests/tiny/vocabulary.h"

#include <array>
#include <string_view>

#include <fmt/format.h>

namespace fak::tiny {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";  // what SentencePiece writes for a space

struct Merge {
  std::string_view left;
  std::string_view right;
};

// In order of rank; '_' stands for a space. Both sides are single characters or results of earlier
// merges.
constexpr std::array<Merge, 44> kMerges = {
    {{"_", "t"},   {"h", "e"},    {"i", "n"},  {"r", "e"}, {"o", "n"},  {"_t", "he"}, {"e", "r"},
     {"_", "a"},   {"_", "s"},    {"n", "d"},  {"a", "t"}, {"_", "w"},  {"_a", "nd"}, {"e", "n"},
     {"o", "r"},   {"_", "o"},    {"_", "c"},  {"e", "s"}, {"i", "s"},  {"o", "u"},   {"l", "l"},
     {"_", "m"},   {"in", "g"},   {"_", "f"},  {"e", "d"}, {"_", "b"},  {"_", "p"},   {"a", "n"},
     {"a", "r"},   {"_", "in"},   {"_t", "o"}, {"i", "t"}, {"_o", "f"}, {"_", "d"},   {"_", "h"},
     {"l", "e"},   {"_", "I"},    {"_", "l"},  {"v", "e"}, {"s", "t"},  {"_", "n"},   {"l", "d"},
     {"_w", "or"}, {"_wor", "ld"}}};

constexpr std::string_view kChatMlTemplate =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

constexpr std::string_view kUserMarkTemplate =
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}{{ message['content'] + eos_token }}"
    "{% else %}{{ '<|user|>' + message['content'] + '\\n' }}{% endif %}"
    "{% endfor %}";

constexpr std::string_view kGemmaTemplate =
    "{{ bos_token }}{% for message in messages %}"
    "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{ '<start_of_turn>' + role + '\\n' + (message['content'] | trim) + '<end_of_turn>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}";

std::string Utf8(uint32_t code) {
  if (code < 0x80) {
    return std::string(1, static_cast<char>(code));
  }
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

// GPT-2's letter for a byte: printable ones stand for themselves, the others for U+0100 on, in
// order.
std::array<std::string, 256> ByteLetters() {
  std::array<std::string, 256> letters;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    letters[byte] = Utf8(printable ? byte : next++);
  }
  return letters;
}

std::string WithSpaceAs(std::string_view mark, std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '_' ? mark : std::string_view(&c, 1);
  }
  return out;
}

uint32_t AddToken(Vocabulary& vocabulary, std::string_view text, TokenType type) {
  vocabulary.tokens.emplace_back(text);
  vocabulary.types.push_back(type);
  return static_cast<uint32_t>(vocabulary.tokens.size() - 1);
}

// The bytes as <0x00> to <0xFF>, the merges' results and the printable characters. A piece's score
// is minus its rank; bytes and marks have 0.
void AddPieces(Vocabulary& vocabulary) {
  for (int byte = 0; byte < 256; ++byte) {
    AddToken(vocabulary, fmt::format("<0x{:02X}>", byte), TokenType::kByte);
  }
  vocabulary.scores.resize(vocabulary.tokens.size(), 0.0f);
  const auto add = [&](std::string_view piece) {
    AddToken(vocabulary, piece, TokenType::kNormal);
    vocabulary.scores.push_back(vocabulary.scores.back() - 1.0f);
  };
  for (const Merge& merge : kMerges) {
    add(WithSpaceAs(kSpaceMark, merge.left) + WithSpaceAs(kSpaceMark, merge.right));
  }
  add(kSpaceMark);
  for (char c = '!'; c <= '~'; ++c) {
    add(std::string_view(&c, 1));
  }
}

}  // namespace

Vocabulary ByteLevelVocabulary(const std::string& pre, uint32_t size) {
  Vocabulary v = {.model = "gpt2", .pre = pre, .chat_template = std::string(kChatMlTemplate)};
  const auto letters = ByteLetters();
  for (const std::string& letter : letters) {
    AddToken(v, letter, TokenType::kNormal);
  }
  for (const Merge& merge : kMerges) {
    const std::string left = WithSpaceAs(letters[' '], merge.left);
    const std::string right = WithSpaceAs(letters[' '], merge.right);
    v.merges.push_back(left + " " + right);
    AddToken(v, left + right, TokenType::kNormal);
  }
  v.bos = AddToken(v, "<|endoftext|>", TokenType::kControl);
  AddToken(v, "<|im_start|>", TokenType::kControl);
  v.eos = AddToken(v, "<|im_end|>", TokenType::kControl);
  v.padding = v.bos;
  while (v.tokens.size() < size) {
    AddToken(v, fmt::format("[PAD{}]", v.tokens.size()), TokenType::kUnused);
  }
  return v;
}

Vocabulary SentencePieceVocabulary() {
  Vocabulary v = {.model = "llama",
                  .pre = "default",
                  .add_bos = true,
                  .add_space_prefix = true,
                  .chat_template = std::string(kUserMarkTemplate)};
  v.unknown = AddToken(v, "<unk>", TokenType::kUnknown);
  v.bos = AddToken(v, "<s>", TokenType::kControl);
  v.eos = AddToken(v, "</s>", TokenType::kControl);
  AddToken(v, "<|user|>", TokenType::kUserDefined);
  AddPieces(v);
  return v;
}

Vocabulary GemmaVocabulary() {
  Vocabulary v = {.model = "llama",
                  .pre = "default",
                  .add_bos = true,
                  .chat_template = std::string(kGemmaTemplate)};
  v.padding = AddToken(v, "<pad>", TokenType::kControl);
  v.eos = AddToken(v, "<eos>", TokenType::kControl);
  v.bos = AddToken(v, "<bos>", TokenType::kControl);
  v.unknown = AddToken(v, "<unk>", TokenType::kUnknown);
  AddToken(v, "<start_of_turn>", TokenType::kControl);
  AddToken(v, "<end_of_turn>", TokenType::kControl);
  AddPieces(v);
  return v;
}

void AddVocabulary(const Vocabulary& vocabulary, tensor::GgufWriter& writer) {
  writer.Set("tokenizer.ggml.model", vocabulary.model);
  writer.Set("tokenizer.ggml.pre", vocabulary.pre);
  writer.SetArray("tokenizer.ggml.tokens", vocabulary.tokens);
  if (!vocabulary.scores.empty()) {
    writer.SetArray<float>("tokenizer.ggml.scores", vocabulary.scores);
  }
  std::vector<int32_t> types;
  for (const TokenType type : vocabulary.types) {
    types.push_back(static_cast<int32_t>(type));
  }
  writer.SetArray<int32_t>("tokenizer.ggml.token_type", types);
  if (!vocabulary.merges.empty()) {
    writer.SetArray("tokenizer.ggml.merges", vocabulary.merges);
  }
  writer.Set("tokenizer.ggml.bos_token_id", vocabulary.bos);
  writer.Set("tokenizer.ggml.eos_token_id", vocabulary.eos);
  if (vocabulary.unknown) {
    writer.Set("tokenizer.ggml.unknown_token_id", *vocabulary.unknown);
  }
  if (vocabulary.padding) {
    writer.Set("tokenizer.ggml.padding_token_id", *vocabulary.padding);
  }
  writer.Set("tokenizer.ggml.add_bos_token", vocabulary.add_bos);
  writer.Set("tokenizer.ggml.add_space_prefix", vocabulary.add_space_prefix);
  writer.Set("tokenizer.chat_template", vocabulary.chat_template);
}

}  // namespace fak::tiny
