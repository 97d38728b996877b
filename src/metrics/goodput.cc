#include "metrics/goodput.h"

#include <algorithm>

#include "base/limits.h"
#include "base/strings.h"

namespace fak::metrics {
namespace {

tl::unexpected<Error> Bad(std::string_view text, const std::string& why) {
  return Fail(Code::kInvalidArgument,
              "\"" + std::string(text) + "\" is no objective (NAME=ttft:MS,tpot:MS,e2e:MS): " + why,
              "--slo");
}

bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= limits::kMetricLabelBytesMax &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '-' || c == '_' || c == '.';
         });
}

}  // namespace

Result<Slo> ParseSlo(std::string_view text) {
  const auto parts = Cut(text, "=");
  if (!parts || !IsName(parts->first)) {
    return Bad(text, "it has no name of letters, digits, '-', '_' and '.'");
  }
  Slo slo{std::string(parts->first), {}, {}, {}};
  for (const std::string_view bound : Split(parts->second, ',')) {
    const auto pair = Cut(bound, ":");
    const std::optional<double> ms = pair ? ParseFloat(pair->second) : std::nullopt;
    if (!ms || *ms <= 0) {
      return Bad(text, "\"" + std::string(bound) + "\" has no time above 0");
    }
    std::optional<double>* place = pair->first == "ttft"   ? &slo.first_token_s
                                   : pair->first == "tpot" ? &slo.per_token_s
                                   : pair->first == "e2e"  ? &slo.end_to_end_s
                                                           : nullptr;
    if (place == nullptr || place->has_value()) {
      return Bad(text, "\"" + std::string(bound) + "\" is not one of ttft, tpot, e2e, each once");
    }
    constexpr double kMsPerSecond = 1000;
    *place = *ms / kMsPerSecond;
  }
  return slo;
}

bool Meets(const Slo& slo, const RequestTimes& times) {
  const double first_token_s = times.first_token_s.value_or(times.end_to_end_s);
  const double per_token_s =
      times.tokens == 1
          ? 0
          : times.per_token_s.value_or(times.end_to_end_s /
                                       static_cast<double>(std::max<int64_t>(1, times.tokens - 1)));
  return first_token_s <= slo.first_token_s.value_or(first_token_s) &&
         per_token_s <= slo.per_token_s.value_or(per_token_s) &&
         times.end_to_end_s <= slo.end_to_end_s.value_or(times.end_to_end_s);
}

}  // namespace fak::metrics
