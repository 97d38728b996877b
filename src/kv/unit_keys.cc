#include "kv/unit_keys.h"

#include "base/hash.h"

namespace fak::kv {

std::vector<uint64_t> UnitKeys(std::string_view salt, std::span<const int32_t> tokens) {
  std::vector<uint64_t> keys;
  keys.reserve(tokens.size() / kUnitTokens);
  uint64_t before = Xxh3(salt);
  for (size_t at = 0; at + kUnitTokens <= tokens.size(); at += kUnitTokens) {
    before = Xxh3(BytesOf(tokens.subspan(at, kUnitTokens)), before);
    keys.push_back(before);
  }
  return keys;
}

std::vector<uint64_t> UnitKeys(std::string_view salt, std::string_view text) {
  std::vector<uint64_t> keys;
  keys.reserve(text.size() / kUnitBytes);
  uint64_t before = Xxh3(salt);
  for (size_t at = 0; at + kUnitBytes <= text.size(); at += kUnitBytes) {
    before = Xxh3(text.substr(at, kUnitBytes), before);
    keys.push_back(before);
  }
  return keys;
}

}  // namespace fak::kv
