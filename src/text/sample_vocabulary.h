#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_alphabet.h"
#include "text/vocabulary.h"

// Small vocabularies for tests, fuzzers and benchmarks, and texts that make them work hard. All are
// the same on every machine.
namespace fak::text {

// An early part more often than a late one, so that merges build on one another as real ones do.
inline std::string DrawPart(const std::vector<std::string>& parts, std::minstd_rand& random) {
  const size_t first = random() % parts.size();
  return parts[std::min<size_t>(first, random() % parts.size())];
}

// Byte-level BPE: a token for every byte (ids 0 to 255), `merges` random merges over a few letters,
// blanks and digits, then <|bos|>, <|eos|>, <|im_start|>, <|im_end|> (control), and <tool> and
// "  " (user-defined).
inline Vocabulary SampleBpe(std::string_view pre_tokenizer, size_t merges = 400) {
  Vocabulary v;
  v.model = Vocabulary::Model::kBpe;
  v.pre_tokenizer = pre_tokenizer;
  std::vector<std::string> parts;
  for (int byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    std::string name;
    AppendInAlphabet(name, {&raw, 1});
    v.tokens.Add(name);
    if (std::string_view(" abcdest1'.\n\xE4\xB8\xAD").find(raw) != std::string_view::npos) {
      parts.push_back(name);
    }
  }
  std::minstd_rand random(1);
  while (v.merges.size() < 2 * merges) {
    const std::string left = DrawPart(parts, random);
    const std::string right = DrawPart(parts, random);
    const std::string whole = left + right;
    bool known = whole.size() > 24;
    for (const std::string& part : parts) {
      known = known || part == whole;
    }
    if (!known) {
      v.merges.Add(left);
      v.merges.Add(right);
      v.tokens.Add(whole);
      parts.push_back(whole);
    }
  }
  v.types.assign(v.tokens.size(), TokenType::kNormal);
  const auto add = [&v](std::string_view name, TokenType type) {
    v.tokens.Add(name);
    v.types.push_back(type);
    return static_cast<int32_t>(v.tokens.size()) - 1;
  };
  v.bos = add("<|bos|>", TokenType::kControl);
  v.eos = add("<|eos|>", TokenType::kControl);
  add("<|im_start|>", TokenType::kControl);
  add("<|im_end|>", TokenType::kControl);
  add("<tool>", TokenType::kUserDefined);
  add("  ", TokenType::kUserDefined);
  return v;
}

// SentencePiece: <unk>, <s>, </s>, the 256 byte tokens, some characters, `merges` random merges of
// them with scores that fall and now and then repeat, then <tool> (user-defined).
inline Vocabulary SampleSpm(size_t merges = 400) {
  Vocabulary v;
  v.model = Vocabulary::Model::kSpm;
  const auto add = [&v](std::string_view name, TokenType type, float score) {
    v.tokens.Add(name);
    v.types.push_back(type);
    v.scores.push_back(score);
    return static_cast<int32_t>(v.tokens.size()) - 1;
  };
  v.unk = add("<unk>", TokenType::kUnknown, 0);
  v.bos = add("<s>", TokenType::kControl, 0);
  v.eos = add("</s>", TokenType::kControl, 0);
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256; ++byte) {
    add(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">", TokenType::kByte, 0);
  }
  std::vector<std::string> parts = {
      "\xE2\x96\x81", "a", "b", "c", "d", "e", "s", "t", "1", "'", ".", "\xE4\xB8\xAD"};
  for (const std::string& part : parts) {
    add(part, TokenType::kNormal, -1e6f);
  }
  std::minstd_rand random(1);
  for (size_t made = 0; made < merges;) {
    const std::string whole = DrawPart(parts, random) + DrawPart(parts, random);
    bool known = whole.size() > 24;
    for (const std::string& part : parts) {
      known = known || part == whole;
    }
    if (!known) {
      add(whole, TokenType::kNormal, -static_cast<float>(made / 2));
      parts.push_back(whole);
      ++made;
    }
  }
  add("<tool>", TokenType::kUserDefined, 0);
  return v;
}

// Text of `pieces` pieces over everything that splitters and merges tell apart.
inline std::string SampleText(uint32_t seed, size_t pieces) {
  static constexpr std::string_view kPieces[] = {"a",
                                                 "b",
                                                 "c",
                                                 "d",
                                                 "e",
                                                 "s",
                                                 "t",
                                                 "S",
                                                 "LL",
                                                 "re",
                                                 "'",
                                                 "'s",
                                                 " ",
                                                 " ",
                                                 " ",
                                                 "  ",
                                                 "\n",
                                                 "\r\n",
                                                 "\t",
                                                 "1",
                                                 "1",
                                                 "22",
                                                 ".",
                                                 "!",
                                                 "$",
                                                 "`",
                                                 "\xC3\xA9",
                                                 "\xE4\xB8\xAD",
                                                 "\xF0\x9F\x98\x80",
                                                 "\xCC\x81" /* combining acute */,
                                                 "\xC5\xBF" /* long s */,
                                                 "\xE3\x80\x80" /* wide blank */,
                                                 "\xC2\xA0",
                                                 "\xC2\x85",
                                                 "\xE2\x80\xA8",
                                                 "\xE1\xA0\x8E" /* U+180E, no blank any more */,
                                                 "\xE2\x85\xA7" /* Roman eight, a number */,
                                                 "\xD9\xA3" /* Arabic three */,
                                                 "\xC2\xAB",
                                                 "\xE2\x82\xAC",
                                                 "\xF0\xA0\x80\x80",
                                                 "\xEF\xBC\x91",
                                                 "<tool>",
                                                 "<|im_end|>",
                                                 "</s>",
                                                 "<0x41>"};
  std::minstd_rand random(seed);
  std::string text;
  for (size_t i = 0; i < pieces; ++i) {
    text += kPieces[random() % std::size(kPieces)];
  }
  return text;
}

// Long words, in which merges compete, with a blank or a quote now and then.
inline std::string SampleWords(uint32_t seed, size_t letters) {
  std::minstd_rand random(seed);
  std::string text;
  while (text.size() < letters) {
    text += random() % 12 == 0 ? " '"[random() % 2] : "abcdest"[random() % 7];
  }
  return text;
}

// Any bytes: SampleText with some of them overwritten.
inline std::string SampleBytes(uint32_t seed, size_t pieces) {
  std::string text = SampleText(seed, pieces);
  std::minstd_rand random(seed ^ 0x5A5A5A5Au);
  for (char& c : text) {
    if (random() % 5 == 0) {
      c = static_cast<char>(random());
    }
  }
  return text;
}

}  // namespace fak::text
