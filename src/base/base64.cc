#include "base/base64.h"

#include <array>
#include <cstdint>

namespace fak {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr int kBits = 6;
constexpr uint32_t kMask = 63;

constexpr std::array<int8_t, 256> Values() {
  std::array<int8_t, 256> values{};
  for (int8_t& value : values) {
    value = -1;
  }
  for (size_t i = 0; i < kDigits.size(); ++i) {
    values[static_cast<uint8_t>(kDigits[i])] = static_cast<int8_t>(i);
  }
  return values;
}

}  // namespace

std::string Base64(std::string_view bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view group = bytes.substr(i, 3);
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) {
      bits = bits << 8 | (j < group.size() ? static_cast<uint8_t>(group[j]) : 0U);
    }
    for (size_t j = 0; j < 4; ++j) {
      const uint32_t digit = bits >> (kBits * (3 - static_cast<int>(j))) & kMask;
      out += j <= group.size() ? kDigits[digit] : '=';
    }
  }
  return out;
}

std::optional<std::string> FromBase64(std::string_view text) {
  static constexpr std::array<int8_t, 256> kValues = Values();
  if (text.size() % 4 != 0) {
    return std::nullopt;
  }
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string out;
  uint32_t bits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const int value = i + padding >= text.size() ? 0 : kValues[static_cast<uint8_t>(text[i])];
    if (value < 0) {
      return std::nullopt;
    }
    bits = bits << kBits | static_cast<uint32_t>(value);
    if (i % 4 == 3) {
      for (const int shift : {16, 8, 0}) {
        out += static_cast<char>(bits >> shift & 0xFF);
      }
      bits = 0;
    }
  }
  // What a group's padding stands for has no bits.
  for (size_t i = 0; i < padding; ++i) {
    if (out.back() != '\0') {
      return std::nullopt;
    }
    out.pop_back();
  }
  return out;
}

}  // namespace fak
