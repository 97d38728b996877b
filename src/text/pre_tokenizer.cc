// Hot path: bench/micro/tokenizer_bench.cc.
#include "text/pre_tokenizer.h"

#include <array>
#include <limits>
#include <string>

#include "text/character_class.h"

namespace fak::text {
namespace {

// The end of the longest run from `at` of characters that have one of the classes.
size_t RunEnd(std::string_view text, size_t at, unsigned classes,
              int length_max = std::numeric_limits<int>::max()) {
  for (int count = 0; at < text.size() && count < length_max; ++count) {
    const Character c = CharacterAt(text, at);
    if ((c.classes & classes) == 0) {
      break;
    }
    at += c.length;
  }
  return at;
}

// A run of blanks is one word at the end of the text, else all but its last character, which may
// go with what follows: \s+(?!\S)|\s+
size_t BlanksEnd(std::string_view text, size_t begin, unsigned blanks_whole_before) {
  size_t last = begin;
  size_t end = begin;
  while (end < text.size()) {
    const Character c = CharacterAt(text, end);
    if ((c.classes & kBlank) == 0) {
      if ((c.classes & blanks_whole_before) != 0) {
        return end;
      }
      return last == begin ? end : last;
    }
    last = end;
    end += c.length;
  }
  return end;
}

// The length of 's 't 're 've 'm 'll 'd at `at`, else 0. Without case, U+017F is an s: so Unicode
// folds it, and so the expression matches it.
size_t ContractionLength(std::string_view text, size_t at, bool any_case) {
  if (text[at] != '\'' || at + 1 >= text.size()) {
    return 0;
  }
  const auto letter = [&](size_t i) -> char {
    const char c = i < text.size() ? text[i] : '\0';
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  const char first = letter(at + 1);
  const char second = letter(at + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') {
    return 2;
  }
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
      (first == 'l' && second == 'l')) {
    return 3;
  }
  return any_case && text.substr(at + 1, 2) == "\xC5\xBF" ? 3 : 0;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// lone_digits: each \p{N} was cut out of the text before.
size_t Gpt2WordEnd(std::string_view text, size_t begin, bool lone_digits) {
  constexpr unsigned kSymbols = kPunctuation | kOther;
  if (const size_t length = ContractionLength(text, begin, false); length != 0) {
    return begin + length;
  }
  const Character first = CharacterAt(text, begin);
  if (lone_digits && (first.classes & kNumber) != 0) {
    return begin + first.length;
  }
  const size_t start = text[begin] == ' ' ? begin + 1 : begin;
  if (start < text.size()) {
    const unsigned classes = CharacterAt(text, start).classes;
    if ((classes & kLetter) != 0) {
      return RunEnd(text, start, kLetter);
    }
    if ((classes & kSymbols) != 0) {
      return RunEnd(text, start, kSymbols);
    }
    if ((classes & kNumber) != 0 && !lone_digits) {
      return RunEnd(text, start, kNumber);
    }
  }
  return BlanksEnd(text, begin, lone_digits ? kNumber : 0);
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,number_length}|
//  ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
size_t Llama3WordEnd(std::string_view text, size_t begin, int number_length) {
  constexpr unsigned kSymbols = kPunctuation | kOther;
  if (const size_t length = ContractionLength(text, begin, true); length != 0) {
    return begin + length;
  }
  const Character first = CharacterAt(text, begin);
  if ((first.classes & kLetter) != 0) {
    return RunEnd(text, begin, kLetter);
  }
  if ((first.classes & kNumber) != 0) {
    return RunEnd(text, begin, kNumber, number_length);
  }
  const size_t second = begin + first.length;
  const unsigned second_classes = second < text.size() ? CharacterAt(text, second).classes : 0u;
  if ((first.classes & kLineEnd) == 0 && (second_classes & kLetter) != 0) {
    return RunEnd(text, second, kLetter);
  }
  if ((first.classes & kSymbols) != 0 || (text[begin] == ' ' && (second_classes & kSymbols) != 0)) {
    return RunEnd(text, RunEnd(text, second, kSymbols), kLineEnd);
  }
  const size_t blanks = RunEnd(text, begin, kBlank);
  const size_t line_end = text.substr(begin, blanks - begin).find_last_of("\r\n");
  if (line_end != std::string_view::npos) {
    return begin + line_end + 1;
  }
  return BlanksEnd(text, begin, 0);
}

bool IsAsciiDigit(char c) {
  return c >= '0' && c <= '9';
}

// Numbers are cut in threes, [0-9][0-9][0-9], from the left; what lies between stays together.
size_t DefaultNumberEnd(std::string_view text, size_t begin) {
  size_t at = begin;
  while (at < text.size()) {
    const Character c = CharacterAt(text, at);
    if ((c.classes & kNumber) == 0) {
      return at;
    }
    if (at + 2 < text.size() && IsAsciiDigit(text[at]) && IsAsciiDigit(text[at + 1]) &&
        IsAsciiDigit(text[at + 2])) {
      return at == begin ? at + 3 : at;
    }
    at += c.length;
  }
  return at;
}

// Four expressions, each applied to what the one before left: [\p{P}\$\+<=>\^~\|]+, then GPT-2's,
// then \p{N}+, then [0-9][0-9][0-9].
size_t DefaultWordEnd(std::string_view text, size_t begin) {
  const Character first = CharacterAt(text, begin);
  if ((first.classes & kPunctuation) != 0) {
    return RunEnd(text, begin, kPunctuation);
  }
  if ((first.classes & kNumber) != 0) {
    return DefaultNumberEnd(text, begin);
  }
  const size_t start = text[begin] == ' ' ? begin + 1 : begin;
  if (start < text.size()) {
    const unsigned classes = CharacterAt(text, start).classes;
    if ((classes & (kLetter | kOther)) != 0) {
      return RunEnd(text, start, classes);
    }
  }
  return BlanksEnd(text, begin, kPunctuation);
}

}  // namespace

Result<PreTokenizer> PreTokenizer::Create(std::string_view name) {
  struct Named {
    std::string_view name;
    Rules rules;
  };
  static constexpr std::array<Named, 9> kNamed = {{
      {"gpt-2", {Family::kGpt2, 0, false}},
      {"gpt2", {Family::kGpt2, 0, false}},
      {"smollm", {Family::kSmolLm, 0, false}},
      {"llama-bpe", {Family::kLlama3, 3, true}},
      {"llama3", {Family::kLlama3, 3, true}},
      {"llama-v3", {Family::kLlama3, 3, true}},
      {"qwen2", {Family::kLlama3, 1, false}},
      {"deepseek-r1-qwen", {Family::kLlama3, 1, false}},
      {"default", {Family::kDefault, 0, false}},
  }};
  for (const Named& named : kNamed) {
    if (named.name == name) {
      return PreTokenizer(named.rules);
    }
  }
  return Fail(Code::kUnsupported,
              "pre-tokenizer '" + std::string(name) +
                  "' is not supported (we have default, gpt-2, llama-bpe, qwen2 and smollm)");
}

size_t PreTokenizer::WordEnd(std::string_view text, size_t begin) const {
  switch (rules_.family) {
    case Family::kGpt2: return Gpt2WordEnd(text, begin, false);
    case Family::kSmolLm: return Gpt2WordEnd(text, begin, true);
    case Family::kLlama3: return Llama3WordEnd(text, begin, rules_.number_length);
    case Family::kDefault: return DefaultWordEnd(text, begin);
  }
  return text.size();
}

}  // namespace fak::text
