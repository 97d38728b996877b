#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

// Two documents of `fak bench serve` beside each other: before and after a change, or two machines.
// Pure functions, any thread.
namespace fak::perf {

// A bound on how much worse B may be: "p99_ttft_ms>+5%", "output_throughput<-3%". The figure's name
// is that of the JSON.
struct FailIf {
  std::string text;
  std::string figure;
  bool above = true;  // fails above the change, else below it
  double change = 0;  // 0.05: five percent more
};
[[nodiscard]] Result<FailIf> ParseFailIf(const std::string& text);

struct ComparedFigure {
  std::string load;  // "rate 2", "open 4"
  std::string target;
  std::string figure;
  double a = 0;  // medians over the runs
  double b = 0;
  std::optional<double> change() const;  // nullopt: a is 0
};

struct ServeComparison {
  std::vector<ComparedFigure> figures;
  // What makes them not comparable, and was allowed: "model".
  std::vector<std::string> allowed;
  std::vector<std::string> broken;  // bounds, each with what it found
};

// Loads and targets are matched by their values and names; a lone target on both sides by being
// that. kInvalidArgument: not such a document, no load in common, a bound on a figure that isn't
// there, or what was asked of the servers differs (workload, lengths, model, sampling ...) in a
// field that `allow` doesn't name; the error lists all.
[[nodiscard]] Result<ServeComparison> CompareServe(const Json& a, const Json& b,
                                                   const std::vector<std::string>& allow,
                                                   const std::vector<FailIf>& bounds);

std::string CompareText(const ServeComparison& comparison);
std::string CompareJson(const ServeComparison& comparison);

}  // namespace fak::perf
