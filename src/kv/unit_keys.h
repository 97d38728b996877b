#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace fak::kv {

// Tokens a unit of the residency index; without tokens, bytes of text a unit.
inline constexpr size_t kUnitTokens = 16;
inline constexpr size_t kUnitBytes = 64;

// A rolling hash of each whole unit: key i stands for the salt and everything up to the end of unit
// i (XXH3 over the unit, seeded by the key before; the first by the hash of the salt). Equal
// prefixes have equal keys; not meant to withstand an adversary. Pure.
std::vector<uint64_t> UnitKeys(std::string_view salt, std::span<const int32_t> tokens);
std::vector<uint64_t> UnitKeys(std::string_view salt, std::string_view text);

// The same step by step: the key before a first token, and the key at the end of tokens that follow
// a key. A block of whole units has the key of its last unit; it is what we call the block in KV
// events.
uint64_t RootKey(std::string_view salt);
uint64_t BlockKey(uint64_t before, std::span<const int32_t> tokens);

}  // namespace fak::kv
