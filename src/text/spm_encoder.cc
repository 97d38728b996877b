// Hot path: bench/micro/tokenizer_bench.cc.
#include "text/spm_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/utf8.h"

namespace fak::text {
namespace {

constexpr std::string_view kBlankMark = "\xE2\x96\x81";  // U+2581

// Ascending where scores descend.
uint32_t RankOfScore(float score) {
  const uint32_t bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 is 0
  const uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return ~ascending;
}

}  // namespace

Result<std::unique_ptr<const TextEncoder>> SpmEncoder::Create(const Vocabulary& vocabulary,
                                                              std::span<const TokenType> types,
                                                              const TokenIndex& index) {
  TRY_ASSIGN(MergeTable merges, MergeTable::Create(vocabulary.merges, index));
  auto encoder = std::unique_ptr<SpmEncoder>(new SpmEncoder(std::move(merges), index));
  encoder->add_space_prefix_ = vocabulary.add_space_prefix;
  encoder->by_score_ = vocabulary.merges.empty();
  if (encoder->by_score_) {
    if (vocabulary.scores.size() != vocabulary.tokens.size()) {
      return Fail(Code::kDataCorrupt,
                  fmt::format("{} scores for {} tokens", vocabulary.scores.size(),
                              vocabulary.tokens.size()));
    }
    encoder->ranks_.reserve(vocabulary.scores.size());
    for (const float score : vocabulary.scores) {
      if (std::isnan(score)) {
        return Fail(Code::kDataCorrupt,
                    fmt::format("the score of token {} is NaN", encoder->ranks_.size()));
      }
      encoder->ranks_.push_back(RankOfScore(score));
    }
  }
  encoder->LearnTokens(vocabulary.tokens, types);
  TRY(encoder->LearnBytes(index, vocabulary.unk));
  return std::unique_ptr<const TextEncoder>(std::move(encoder));
}

void SpmEncoder::LearnTokens(const StringList& tokens, std::span<const TokenType> types) {
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (types[id] == TokenType::kControl || types[id] == TokenType::kUnknown ||
        types[id] == TokenType::kByte) {
      continue;
    }
    const std::string_view token = tokens[id];
    token_bytes_max_ = std::max(token_bytes_max_, token.size());
    for (size_t at = token.find(kBlankMark, 1); at != std::string_view::npos;
         at = token.find(kBlankMark, at + 1)) {
      joins_blank_.set(static_cast<uint8_t>(token[at - 1]));
    }
  }
  for (size_t c = 0; c < ascii_tokens_.size(); ++c) {
    const char character = static_cast<char>(c);
    ascii_tokens_[c] = index_.FindOrdinary({&character, 1});
  }
}

Status SpmEncoder::LearnBytes(const TokenIndex& index, int32_t unk) {
  unk_ = unk;
  bool all = true;
  for (size_t byte = 0; byte < byte_tokens_.size(); ++byte) {
    byte_tokens_[byte] = index.Find(fmt::format("<0x{:02X}>", byte));
    all = all && byte_tokens_[byte] != kNoToken;
  }
  if (!all) {
    byte_tokens_.fill(kNoToken);
    if (unk == kNoToken) {
      return Fail(Code::kDataCorrupt,
                  "the vocabulary has neither all 256 byte tokens nor an unknown token");
    }
  }
  return {};
}

void SpmEncoder::Encode(std::string_view text, std::vector<int32_t>& out) const {
  MergeLoop loop;
  std::vector<uint32_t> begins;
  std::string word;
  if (add_space_prefix_ && !text.empty()) {
    word = kBlankMark;
  }
  for (const char c : text) {
    if (c != ' ') {
      word += c;
      continue;
    }
    if (!word.empty() && !joins_blank_[static_cast<uint8_t>(word.back())]) {
      EncodeWord(word, loop, begins, out);
      word.clear();
    }
    word += kBlankMark;
  }
  EncodeWord(word, loop, begins, out);
}

void SpmEncoder::EncodeWord(std::string_view word, MergeLoop& loop, std::vector<uint32_t>& begins,
                            std::vector<int32_t>& out) const {
  loop.Clear();
  begins.clear();
  for (size_t at = 0; at < word.size();) {
    const uint8_t first = static_cast<uint8_t>(word[at]);
    char32_t code_point = 0;
    const size_t length =
        first < 0x80 ? 1
                     : static_cast<size_t>(std::max(1, DecodeUtf8(word.substr(at), &code_point)));
    loop.Add(first < 0x80 ? ascii_tokens_[first] : index_.FindOrdinary(word.substr(at, length)));
    begins.push_back(static_cast<uint32_t>(at));
    at += length;
  }
  begins.push_back(static_cast<uint32_t>(word.size()));
  const auto symbol_text = [&](uint32_t left, uint32_t after) {
    return word.substr(begins[left], begins[after] - begins[left]);
  };
  if (by_score_) {
    loop.Run([&](uint32_t left, uint32_t right) -> Merge {
      const std::string_view whole = symbol_text(left, loop.next(right));
      const int32_t id = whole.size() > token_bytes_max_ ? kNoToken : index_.FindOrdinary(whole);
      return id == kNoToken ? Merge{} : Merge{ranks_[static_cast<size_t>(id)], id};
    });
  } else {
    loop.Run(
        [&](uint32_t left, uint32_t right) { return merges_.Find(loop.id(left), loop.id(right)); });
  }
  for (uint32_t at = 0; at < loop.size(); at = loop.next(at)) {
    if (loop.id(at) != kNoToken) {
      out.push_back(loop.id(at));
    } else {
      EmitBytes(symbol_text(at, loop.next(at)), out);
    }
  }
}

void SpmEncoder::EmitBytes(std::string_view character, std::vector<int32_t>& out) const {
  if (byte_tokens_[0] == kNoToken) {
    out.push_back(unk_);
    return;
  }
  for (const char byte : character) {
    out.push_back(byte_tokens_[static_cast<uint8_t>(byte)]);
  }
}

}  // namespace fak::text
