#include "kv/unit_keys.h"

#include <algorithm>

#include "base/hash.h"

namespace fak::kv {

uint64_t RootKey(std::string_view salt) {
  return Xxh3(salt);
}

uint64_t BlockKey(uint64_t before, std::span<const int32_t> tokens) {
  for (size_t at = 0; at < tokens.size(); at += kUnitTokens) {
    before = Xxh3(BytesOf(tokens.subspan(at, std::min(kUnitTokens, tokens.size() - at))), before);
  }
  return before;
}

std::vector<uint64_t> UnitKeys(std::string_view salt, std::span<const int32_t> tokens) {
  std::vector<uint64_t> keys;
  keys.reserve(tokens.size() / kUnitTokens);
  uint64_t before = RootKey(salt);
  for (size_t at = 0; at + kUnitTokens <= tokens.size(); at += kUnitTokens) {
    before = BlockKey(before, tokens.subspan(at, kUnitTokens));
    keys.push_back(before);
  }
  return keys;
}

std::vector<uint64_t> UnitKeys(std::string_view salt, std::string_view text) {
  std::vector<uint64_t> keys;
  keys.reserve(text.size() / kUnitBytes);
  uint64_t before = RootKey(salt);
  for (size_t at = 0; at + kUnitBytes <= text.size(); at += kUnitBytes) {
    before = Xxh3(text.substr(at, kUnitBytes), before);
    keys.push_back(before);
  }
  return keys;
}

}  // namespace fak::kv
