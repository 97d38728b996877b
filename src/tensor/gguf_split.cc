#include "tensor/gguf_split.h"

#include <charconv>

#include <fmt/format.h>

namespace fak::tensor {
namespace {

constexpr std::string_view kOf = "-of-";
constexpr std::string_view kSuffix = ".gguf";
constexpr size_t kDigits = 5;

// Takes `expected` off the end of the text.
bool DropSuffix(std::string_view expected, std::string_view& text) {
  if (!text.ends_with(expected)) {
    return false;
  }
  text.remove_suffix(expected.size());
  return true;
}

// Takes kDigits digits off the end of the text.
std::optional<uint32_t> DropNumber(std::string_view& text) {
  if (text.size() < kDigits) {
    return std::nullopt;
  }
  const std::string_view digits = text.substr(text.size() - kDigits);
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + kDigits, number);
  if (error != std::errc() || end != digits.data() + kDigits) {
    return std::nullopt;
  }
  text.remove_suffix(kDigits);
  return number;
}

}  // namespace

std::optional<SplitPath> ParseSplitPath(std::string_view path) {
  if (!DropSuffix(kSuffix, path)) {
    return std::nullopt;
  }
  const auto count = DropNumber(path);
  if (!count || !DropSuffix(kOf, path)) {
    return std::nullopt;
  }
  const auto number = DropNumber(path);
  if (!number || !DropSuffix("-", path) || *number < 1 || *number > *count) {
    return std::nullopt;
  }
  return SplitPath{.prefix = std::string(path), .number = *number, .count = *count};
}

std::string FormatSplitPath(const SplitPath& path) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", path.prefix, path.number, path.count);
}

}  // namespace fak::tensor
