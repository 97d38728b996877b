#pragma once

#include <span>
#include <string>
#include <string_view>

namespace fak::cli {

// " (did you mean --port?)" when one of the words is that near to what was typed, else empty.
std::string DidYouMean(std::string_view typed, std::span<const std::string> words);

}  // namespace fak::cli
