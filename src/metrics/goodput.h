#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

// Which successful requests were good: what `--slo` asks for.
namespace fak::metrics {

// A service level objective: bounds that a request must keep, all that are given.
struct Slo {
  std::string name;
  std::optional<double> first_token_s;
  std::optional<double> per_token_s;
  std::optional<double> end_to_end_s;
};

// "chat=ttft:500,tpot:50,e2e:10000", in milliseconds. kInvalidArgument says what is wrong.
[[nodiscard]] Result<Slo> ParseSlo(std::string_view text);

// What was measured of a successful request.
struct RequestTimes {
  std::optional<double> first_token_s;  // absent: it came as a whole, or nobody looked
  std::optional<double> per_token_s;
  double end_to_end_s = 0;
  int64_t tokens = 0;  // of its one choice; 0: not known, or several choices
};

// Whether the request kept the bounds. What wasn't measured is bounded from above by the time of
// the whole: an answer that was complete within the bound of its first token has kept that bound.
bool Meets(const Slo& slo, const RequestTimes& times);

}  // namespace fak::metrics
