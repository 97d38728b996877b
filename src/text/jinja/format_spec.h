#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/jinja/budget.h"
#include "text/jinja/value.h"

namespace fak::text::jinja {

// Python's format specification mini-language, which covers printf's too:
// [[fill]align][sign][#][0][width][grouping][.precision][type]
struct FormatSpec {
  std::string fill = " ";
  char align = '\0';  // '<', '>', '^', '='; 0: by type
  char sign = '-';
  bool alternate = false;
  int64_t width = 0;
  char grouping = '\0';    // ',' or '_'
  int64_t precision = -1;  // -1: none
  char type = '\0';
};

[[nodiscard]] Result<FormatSpec> ParseFormatSpec(std::string_view spec);

// format(value, spec).
[[nodiscard]] Result<Text> FormatValue(Budget& budget, const Value& value, const FormatSpec& spec);

}  // namespace fak::text::jinja
