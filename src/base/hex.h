#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fak {

// Lower-case hexadecimal. Pure functions, any thread.
std::string ToHex(std::span<const unsigned char> bytes);
// Always 16 digits.
std::string ToHex(uint64_t value);
// Either case; nullopt for an odd length or any other character.
std::optional<std::vector<unsigned char>> ParseHex(std::string_view text);

// The value of one hex digit, or -1.
int HexDigit(char c);

}  // namespace fak
