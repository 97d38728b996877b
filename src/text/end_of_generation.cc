#include "text/end_of_generation.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace fak::text {
namespace {

// Nothing else is called this.
constexpr std::array<std::string_view, 13> kUnmistakable = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eom_id|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",  // DeepSeek
};

// Also text of other kinds ("</s>" is HTML, and Gemma has a token for it), so only as control.
constexpr std::array<std::string_view, 6> kIfControl = {"</s>",  "<eos>", "<EOT>",
                                                        "[EOS]", "[EOT]", "_<EOT>"};

bool IsControlNamed(const TokenIndex& index, const std::vector<TokenType>& types,
                    std::string_view name) {
  const int32_t id = index.Find(name);
  return id != kNoToken && types[static_cast<size_t>(id)] == TokenType::kControl;
}

// In these two formats <|end|> ends a message, and the turn goes on.
bool EndClosesMessageOnly(const TokenIndex& index) {
  const auto has = [&](std::string_view name) { return index.Find(name) != kNoToken; };
  return (has("<|return|>") && has("<|call|>")) || (has("<|calls|>") && has("<|flush|>"));
}

}  // namespace

void RetypeEndTokens(const TokenIndex& index, std::vector<TokenType>& types) {
  for (const std::string_view name : kUnmistakable) {
    if (const int32_t id = index.Find(name); id != kNoToken) {
      types[static_cast<size_t>(id)] = TokenType::kControl;
    }
  }
}

std::vector<int32_t> EndOfGenerationIds(const Vocabulary& vocabulary, const TokenIndex& index,
                                        const std::vector<TokenType>& types) {
  std::vector<int32_t> ids = vocabulary.end_of_generation;
  ids.insert(ids.end(), {vocabulary.eos, vocabulary.eot, vocabulary.eom});
  for (const std::string_view name : kUnmistakable) {
    if (name != "<|end|>" || !EndClosesMessageOnly(index)) {
      ids.push_back(index.Find(name));
    }
  }
  for (const std::string_view name : kIfControl) {
    if (IsControlNamed(index, types, name)) {
      ids.push_back(index.Find(name));
    }
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  std::erase(ids, kNoToken);
  return ids;
}

}  // namespace fak::text
