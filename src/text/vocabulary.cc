#include "text/vocabulary.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/limits.h"

namespace fak::text {

Status Vocabulary::AddMerge(std::string_view merge) {
  const size_t blank = merge.find(' ', 1);
  if (blank == std::string_view::npos) {
    return Fail(Code::kDataCorrupt, "merge " + std::to_string(merges.size() / 2) + " '" +
                                        std::string(merge) + "' is not two parts and a blank");
  }
  merges.Add(merge.substr(0, blank));
  merges.Add(merge.substr(blank + 1));
  return {};
}

Status Vocabulary::Check() const {
  const size_t count = tokens.size();
  if (count == 0 || count > limits::kVocabularyMax) {
    return Fail(Code::kDataCorrupt, fmt::format("a vocabulary of {} tokens (1 to {} are possible)",
                                                count, limits::kVocabularyMax));
  }
  if (!types.empty() && types.size() != count) {
    return Fail(Code::kDataCorrupt,
                fmt::format("{} token types for {} tokens", types.size(), count));
  }
  for (size_t id = 0; id < types.size(); ++id) {
    if (types[id] < TokenType::kNormal || types[id] > TokenType::kByte) {
      return Fail(Code::kDataCorrupt,
                  fmt::format("token {} has type {}", id, static_cast<int>(types[id])));
    }
  }
  if (merges.size() % 2 != 0) {
    return Fail(Code::kDataCorrupt, "the last merge has one part");
  }
  const auto in_range = [&](int32_t id) {
    return id >= kNoToken && id < static_cast<int64_t>(count);
  };
  const std::array<std::pair<std::string_view, int32_t>, 6> named = {
      {{"bos", bos}, {"eos", eos}, {"eot", eot}, {"eom", eom}, {"unk", unk}, {"pad", pad}}};
  for (const auto& [name, id] : named) {
    if (!in_range(id)) {
      return Fail(Code::kDataCorrupt, fmt::format("the {} token is {}, of {}", name, id, count));
    }
  }
  for (const int32_t id : end_of_generation) {
    if (id == kNoToken || !in_range(id)) {
      return Fail(Code::kDataCorrupt,
                  fmt::format("an end-of-generation token is {}, of {}", id, count));
    }
  }
  if ((add_bos && bos == kNoToken) || (add_eos && eos == kNoToken)) {
    return Fail(Code::kDataCorrupt,
                "the vocabulary asks for a BOS or EOS around texts and does not say which");
  }
  return {};
}

Result<Vocabulary::Model> VocabularyModel(std::string_view name) {
  if (name == "gpt2") {
    return Vocabulary::Model::kBpe;
  }
  if (name == "llama") {
    return Vocabulary::Model::kSpm;
  }
  return Fail(Code::kUnsupported, "tokenizer model '" + std::string(name) +
                                      "' is not supported (we have gpt2 and llama)");
}

}  // namespace fak::text
