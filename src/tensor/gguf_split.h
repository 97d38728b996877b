#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fak::tensor {

// The path of one part of a split model: PREFIX-00002-of-00003.gguf.
struct SplitPath {
  std::string prefix;   // with the folder
  uint32_t number = 1;  // from 1 to count
  uint32_t count = 1;
};

// nullopt if the path isn't of that form.
std::optional<SplitPath> ParseSplitPath(std::string_view path);
std::string FormatSplitPath(const SplitPath& path);

}  // namespace fak::tensor
