#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "base/number_range.h"

// What the parameters of sampling may be, wherever they come from: a request, a flag, a model file.
// The only place of these numbers; they are vLLM's, where nothing else is said.
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
// Ours: what a logit is divided or multiplied by, so that none of a real model overflows.
inline constexpr NumberRange kRepetitionPenalty = {.least = 1e-7, .most = 1e7};
static_assert(kRepetitionPenalty.Has(1e-7f) && kRepetitionPenalty.Has(1e7f), "floats are checked");
inline constexpr NumberRange kMaxTokens = {.least = 1.0, .most = kInt32Max};  // of an answer

inline constexpr int64_t kSeedLeast = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kSeedMost = std::numeric_limits<int64_t>::max();
// -1, as vLLM and llama.cpp have it: nullopt, a fresh one.
constexpr std::optional<uint64_t> SeedOf(int64_t given) {
  return given == -1 ? std::nullopt : std::optional(static_cast<uint64_t>(given));
}

}  // namespace fak::sampling_ranges
