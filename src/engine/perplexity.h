#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"
#include "engine/loader.h"

namespace fak::engine {

struct PerplexityReport {
  double perplexity = 0.0;
  double error = 0.0;   // standard error of the estimate
  uint64_t scored = 0;  // tokens
  uint32_t windows = 0;
};

// The measure that llama.cpp prints: the text is cut into windows of `window` tokens, each starts
// afresh (with BOS in place of its first token where the model adds one), and the tokens of its
// second half are scored. Needs at least two windows of text; kInvalidArgument otherwise, or when
// the window is odd, below 4 or beyond the context. on_window: windows done, of all, and the
// perplexity so far; may be null.
// The engine must not be in use otherwise; its KV is overwritten.
[[nodiscard]] Result<PerplexityReport> MeasurePerplexity(
    LoadedEngine& engine, std::span<const int32_t> tokens, uint32_t window,
    const std::function<void(uint32_t, uint32_t, double)>& on_window);

}  // namespace fak::engine
