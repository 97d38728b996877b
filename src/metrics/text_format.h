#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/function_ref.h"
#include "base/result.h"

// Reads Prometheus text exposition (0.0.4), as engines write it.
namespace fak::metrics {

struct TextLabel {
  std::string_view name;
  std::string_view value;  // unescaped; may be no valid UTF-8
};

// Views are valid during the call only.
struct TextSample {
  std::string_view name;
  std::span<const TextLabel> labels;  // as they stand there
  double value = 0;                   // may be NaN or infinite

  // The value of a label; empty when there is none, which is the same to Prometheus.
  std::string_view Label(std::string_view name) const;
};

struct TextCounts {
  size_t samples = 0;
  size_t refused_lines = 0;  // neither a sample nor a comment
};

// Calls on_sample for each sample and on_help for each HELP line, in order. A line that is no
// sample is counted and skipped: one strange family must not hide the others. Timestamps, TYPE
// lines and other comments are skipped. kPayloadTooLarge beyond kExpositionBytesMax; nothing is
// called then. Linear time; no allocation but for escapes.
[[nodiscard]] Result<TextCounts> ParseText(
    std::string_view text, FunctionRef<void(const TextSample&)> on_sample,
    FunctionRef<void(std::string_view name, std::string_view help)> on_help);

}  // namespace fak::metrics
