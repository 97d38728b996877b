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

}  // namespace fak::kv
