#pragma once

#include <cstdint>
#include <limits>

#include "base/number_range.h"

// What the parameters of sampling may be, wherever they come from: a request, a flag, a model file.
// The only place of these numbers; they are vLLM's.
namespace fak::sampling_ranges {

inline constexpr double kFloatMax = std::numeric_limits<float>::max();
inline constexpr double kInt32Max = std::numeric_limits<int32_t>::max();

inline constexpr NumberRange kTemperature = {.least = 0.0, .most = kFloatMax};
inline constexpr NumberRange kTopP = {.least = 0.0, .most = 1.0, .above = true};
inline constexpr NumberRange kTopK = {.least = -1.0, .most = kInt32Max};  // below 1: all
inline constexpr NumberRange kMinP = {.least = 0.0, .most = 1.0};
inline constexpr NumberRange kTypicalP = {.least = 0.0, .most = 1.0};
inline constexpr NumberRange kPresencePenalty = {.least = -2.0, .most = 2.0};
inline constexpr NumberRange kFrequencyPenalty = {.least = -2.0, .most = 2.0};
inline constexpr NumberRange kRepetitionPenalty = {.least = 0.0, .most = kFloatMax, .above = true};
inline constexpr NumberRange kMaxTokens = {.least = 1.0, .most = kInt32Max};  // of an answer

}  // namespace fak::sampling_ranges
