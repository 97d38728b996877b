// Hot path: bench/micro/tokenizer_bench.cc.
#include "text/bpe_encoder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "text/byte_alphabet.h"
#include "text/merge_loop.h"

namespace fak::text {

Result<std::unique_ptr<const TextEncoder>> BpeEncoder::Create(const Vocabulary& vocabulary,
                                                              const TokenIndex& index) {
  TRY_ASSIGN(const PreTokenizer pre_tokenizer, PreTokenizer::Create(vocabulary.pre_tokenizer));
  TRY_ASSIGN(MergeTable merges, MergeTable::Create(vocabulary.merges, index));
  return std::unique_ptr<const TextEncoder>(new BpeEncoder(
      pre_tokenizer, vocabulary.ignore_merges.value_or(pre_tokenizer.ignore_merges()),
      std::move(merges), index));
}

BpeEncoder::BpeEncoder(PreTokenizer pre_tokenizer, bool ignore_merges, MergeTable merges,
                       const TokenIndex& index)
    : pre_tokenizer_(pre_tokenizer),
      ignore_merges_(ignore_merges),
      merges_(std::move(merges)),
      index_(index) {
  std::string name;
  for (size_t byte = 0; byte < byte_tokens_.size(); ++byte) {
    name.clear();
    const char raw = static_cast<char>(byte);
    AppendInAlphabet(name, {&raw, 1});
    byte_tokens_[byte] = index.FindOrdinary(name);
  }
}

size_t BpeEncoder::LostBytes(std::string_view text) const {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [this](char c) {
    return byte_tokens_[static_cast<uint8_t>(c)] == kNoToken;
  }));
}

void BpeEncoder::Encode(std::string_view text, std::vector<int32_t>& out) const {
  MergeLoop loop;
  std::string name;
  const auto merge_of = [&](uint32_t left, uint32_t right) {
    return merges_.Find(loop.id(left), loop.id(right));
  };
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = pre_tokenizer_.WordEnd(text, begin);
    const std::string_view word = text.substr(begin, end - begin);
    begin = end;
    if (ignore_merges_) {
      name.clear();
      AppendInAlphabet(name, word);
      if (const int32_t id = index_.FindOrdinary(name); id != kNoToken) {
        out.push_back(id);
        continue;
      }
    }
    loop.Clear();
    for (const char byte : word) {
      loop.Add(byte_tokens_[static_cast<uint8_t>(byte)]);
    }
    loop.Run(merge_of);
    for (uint32_t at = 0; at < loop.size(); at = loop.next(at)) {
      if (loop.id(at) != kNoToken) {
        out.push_back(loop.id(at));
      }
    }
  }
}

}  // namespace fak::text
