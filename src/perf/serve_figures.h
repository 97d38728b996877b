#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/goodput.h"
#include "perf/serve_run.h"

// What the runs of a load say, in the terms of vLLM's `bench serve` (docs/bench.md has the
// definitions and how other tools differ). Pure functions, any thread.
namespace fak::perf {

// "12.34", from 100 on "123".
std::string ShortNumber(double value);

// In milliseconds; all 0 of nothing.
struct Spread {
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
};

// One run. Latencies are of whole answers alone; a request that failed is in no latency, and in
// `faults`.
struct RunFigures {
  uint32_t requests = 0;   // sent
  uint32_t completed = 0;  // whole answers
  std::map<std::string, uint32_t> faults;
  double duration_s = 0;
  double requests_per_s = 0;  // completed
  double output_tokens_per_s = 0;
  double total_tokens_per_s = 0;        // prompts too, where servers count them
  std::optional<double> goodput_per_s;  // completed within the objective; none was given
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  int64_t cached_tokens = 0;
  uint32_t lumps = 0;  // answers of several tokens that came in one chunk: no ITL can be had
  Spread ttft;         // planned to first chunk with content
  Spread tpot;         // first to last chunk, over tokens - 1
  Spread itl;          // every gap between two chunks
  Spread e2e;          // planned to last chunk
  Spread lag;          // planned to sent: the generator's own
  // The lag's p99 is over 200 us and over 1 % of the median e2e: the generator was late.
  bool late = false;
  bool interrupted = false;
};
RunFigures FiguresOf(const ServeRun& run, const std::optional<metrics::Slo>& slo);

struct TargetResult {
  ServeTarget target;
  std::vector<ServeRun> runs;
  std::vector<RunFigures> figures;  // one a run
};

// Of the answers that are whole on both sides, in first runs: how many have the same text.
struct Agreement {
  uint32_t same = 0;
  uint32_t both = 0;
};
Agreement AgreementOf(const ServeRun& a, const ServeRun& b);

// One load, and what it made of each target.
struct ServePoint {
  double rate = 0;           // requests a second; 0: a closed loop, or a trace's times
  uint32_t concurrency = 0;  // of a closed loop
  std::vector<TargetResult> results;
};

// Names of the targets of which no answer was whole, whatever the load.
std::vector<std::string> WithoutAnswer(const std::vector<ServePoint>& points);

// A column a target: medians over its runs and, with several targets, the ratio to the first.
// Then what went wrong, by kind, with one example each.
std::string ServeText(const std::vector<TargetResult>& results);
// Of several loads, from light to heavy: a table a target, a row a load; the load with the most
// goodput, and the knee: the heaviest before the median TTFT is over twice that of the lightest.
std::string SweepText(const std::vector<ServePoint>& points);
// {"load": {...}, "points": [{"request_rate", "max_concurrency", "targets": [{"name", "url",
// "model", "runs": [{figures}...], "same_text_as_first"}...]}...]}; `load` is a JSON object, what
// was asked of the servers; with `records` every request of every run too.
std::string ServeJson(std::string_view load, const std::vector<ServePoint>& points, bool records);

}  // namespace fak::perf
