#pragma once

#include <span>
#include <string>
#include <string_view>

namespace fak::cli {

// The word that is so near to what was typed that it was meant; null: none is.
const std::string* Nearest(std::string_view typed, std::span<const std::string> words);
// " (did you mean --port?)" when there is one, else empty.
std::string DidYouMean(std::string_view typed, std::span<const std::string> words);

}  // namespace fak::cli
