#include "perf/serve_figures.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "perf/model_bench.h"

namespace fak::perf {
namespace {

constexpr double kMs = static_cast<double>(kNsPerMs);
constexpr double kSecond = static_cast<double>(kNsPerSecond);

// numpy's linear interpolation, as vLLM has it.
double Percentile(const std::vector<double>& sorted, double p) {
  const double at = p / 100.0 * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (at - static_cast<double>(low));
}

Spread SpreadOf(std::vector<double> values) {
  if (values.empty()) {
    return {};
  }
  std::sort(values.begin(), values.end());
  return {Mean(values), Percentile(values, 50), Percentile(values, 90), Percentile(values, 99)};
}

struct Figure {
  std::string_view name;
  std::function<double(const RunFigures&)> of;
};

std::vector<Figure> Figures() {
  using F = const RunFigures&;
  return {
      {"requests/s", [](F f) { return f.requests_per_s; }},
      {"output tokens/s", [](F f) { return f.output_tokens_per_s; }},
      {"total tokens/s", [](F f) { return f.total_tokens_per_s; }},
      {"goodput, requests/s", [](F f) { return f.goodput_per_s.value_or(0); }},
      {"TTFT mean, ms", [](F f) { return f.ttft.mean; }},
      {"TTFT p50", [](F f) { return f.ttft.p50; }},
      {"TTFT p90", [](F f) { return f.ttft.p90; }},
      {"TTFT p99", [](F f) { return f.ttft.p99; }},
      {"TPOT mean, ms", [](F f) { return f.tpot.mean; }},
      {"TPOT p50", [](F f) { return f.tpot.p50; }},
      {"TPOT p99", [](F f) { return f.tpot.p99; }},
      {"ITL p50, ms", [](F f) { return f.itl.p50; }},
      {"ITL p99", [](F f) { return f.itl.p99; }},
      {"E2E mean, ms", [](F f) { return f.e2e.mean; }},
      {"E2E p50", [](F f) { return f.e2e.p50; }},
      {"E2E p99", [](F f) { return f.e2e.p99; }},
  };
}

double MedianOf(const TargetResult& result, const Figure& figure) {
  std::vector<double> values;
  for (const RunFigures& run : result.figures) {
    values.push_back(figure.of(run));
  }
  return Median(values);
}

template <class Count>
uint64_t Sum(const TargetResult& result, Count RunFigures::* count) {
  uint64_t sum = 0;
  for (const RunFigures& run : result.figures) {
    sum += static_cast<uint64_t>(run.*count);
  }
  return sum;
}

std::string Ratio(double value, double first) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2fx", value / first);
  return first > 0 ? text : "-";
}

// The figures' rows, without those that nothing was measured for.
void AddFigures(std::vector<std::vector<std::string>>& rows,
                const std::vector<TargetResult>& results) {
  for (const Figure& figure : Figures()) {
    std::vector<std::string> row = {std::string(figure.name)};
    bool any = false;
    for (const TargetResult& result : results) {
      const double value = MedianOf(result, figure);
      any = any || value > 0;
      row.push_back(value > 0 ? ShortNumber(value) : "-");
      if (&result != &results.front()) {
        row.push_back(Ratio(value, MedianOf(results.front(), figure)));
      }
    }
    if (any) {
      rows.push_back(std::move(row));
    }
  }
}

template <class Count>
void AddSums(std::vector<std::vector<std::string>>& rows, const std::vector<TargetResult>& results,
             const char* name, Count RunFigures::* count) {
  std::vector<std::string> row = {name};
  for (const TargetResult& result : results) {
    row.push_back(std::to_string(Sum(result, count)));
    if (&result != &results.front()) {
      row.emplace_back("");
    }
  }
  rows.push_back(std::move(row));
}

// A line a kind of fault, with what the first of them said.
std::string FaultLines(const TargetResult& result) {
  std::map<std::string, std::pair<uint32_t, std::string>> kinds;
  for (const ServeRun& run : result.runs) {
    for (const ServeRecord& record : run.records) {
      if (record.fault != ServeFault::kNone) {
        auto& [count, why] = kinds[std::string(ServeFaultName(record.fault))];
        ++count;
        why = why.empty() ? record.why : why;
      }
    }
  }
  std::string out;
  for (const auto& [kind, said] : kinds) {
    out += result.target.name + ": " + std::to_string(said.first) + " " + kind +
           (said.second.empty() ? "" : " (" + Printable(said.second) + ")") + "\n";
  }
  return out;
}

std::string NoteLines(const TargetResult& result) {
  std::string out;
  const auto runs = [&result](auto wanted) {
    return std::count_if(result.figures.begin(), result.figures.end(), wanted);
  };
  if (const auto late = runs([](const RunFigures& run) { return run.late; }); late > 0) {
    out += result.target.name + ": in " + std::to_string(late) + " of " +
           std::to_string(result.figures.size()) +
           " runs requests left late: this machine was too busy for this load\n";
  }
  if (const uint64_t lumps = Sum(result, &RunFigures::lumps); lumps > 0) {
    out += result.target.name + ": " + std::to_string(lumps) +
           " answers came in one chunk, so they have no TPOT and no ITL\n";
  }
  if (runs([](const RunFigures& run) { return run.interrupted; }) > 0) {
    out += result.target.name + ": interrupted; the figures are of what there was\n";
  }
  return out;
}

void WriteSpread(JsonWriter& json, const std::string& name, const Spread& spread) {
  json.Key("mean_" + name + "_ms").Double(spread.mean);
  json.Key("p50_" + name + "_ms").Double(spread.p50);
  json.Key("p90_" + name + "_ms").Double(spread.p90);
  json.Key("p99_" + name + "_ms").Double(spread.p99);
}

void WriteRecord(JsonWriter& json, const ServeRecord& record) {
  json.BeginObject().Key("index").Uint(record.index);
  json.Key("planned_ns").Int(record.planned_ns).Key("sent_ns").Int(record.sent_ns);
  json.Key("done_ns").Int(record.done_ns).Key("status").Int(record.status);
  json.Key("fault").String(ServeFaultName(record.fault));
  json.Key("why").String(ReplaceInvalidUtf8(record.why)).Key("finish_reason");
  json.String(ReplaceInvalidUtf8(record.finish)).Key("text_sha256").String(record.text_sha256);
  const auto number = [&json](const char* name, const std::optional<int64_t>& value) {
    json.Key(name);
    value ? json.Int(*value) : json.Null();
  };
  number("prompt_tokens", record.prompt_tokens);
  number("completion_tokens", record.output_tokens);
  number("cached_tokens", record.cached_tokens);
  json.Key("chunks_ns").BeginArray();
  for (const int64_t at : record.chunks_ns) {
    json.Int(at);
  }
  json.EndArray().EndObject();
}

// vLLM's field names where it has them.
void WriteRun(JsonWriter& json, const RunFigures& run) {
  json.Key("duration").Double(run.duration_s).Key("num_prompts").Uint(run.requests);
  json.Key("completed").Uint(run.completed).Key("failed").BeginObject();
  for (const auto& [kind, count] : run.faults) {
    json.Key(kind).Uint(count);
  }
  json.EndObject().Key("total_input_tokens").Int(run.prompt_tokens);
  json.Key("total_output_tokens").Int(run.output_tokens);
  json.Key("cached_tokens").Int(run.cached_tokens).Key("one_chunk_answers").Uint(run.lumps);
  json.Key("request_throughput").Double(run.requests_per_s);
  json.Key("output_throughput").Double(run.output_tokens_per_s);
  json.Key("total_token_throughput").Double(run.total_tokens_per_s).Key("request_goodput");
  run.goodput_per_s ? json.Double(*run.goodput_per_s) : json.Null();
  WriteSpread(json, "ttft", run.ttft);
  WriteSpread(json, "tpot", run.tpot);
  WriteSpread(json, "itl", run.itl);
  WriteSpread(json, "e2el", run.e2e);
  WriteSpread(json, "lag", run.lag);
  json.Key("generator_late").Bool(run.late).Key("interrupted").Bool(run.interrupted);
}

void WriteTarget(JsonWriter& json, const TargetResult& result, const TargetResult& first,
                 bool records) {
  json.BeginObject().Key("name").String(ReplaceInvalidUtf8(result.target.name));
  json.Key("url").String(result.target.origin.ToString() + result.target.base);
  json.Key("model").String(ReplaceInvalidUtf8(result.target.model)).Key("runs").BeginArray();
  for (size_t i = 0; i < result.figures.size(); ++i) {
    json.BeginObject();
    WriteRun(json, result.figures[i]);
    if (records) {
      json.Key("records").BeginArray();
      for (const ServeRecord& record : result.runs[i].records) {
        WriteRecord(json, record);
      }
      json.EndArray();
    }
    json.EndObject();
  }
  json.EndArray();
  if (&result != &first) {
    const Agreement agreement = AgreementOf(first.runs[0], result.runs[0]);
    json.Key("same_text_as_first").BeginObject().Key("same").Uint(agreement.same);
    json.Key("of").Uint(agreement.both).EndObject();
  }
  json.EndObject();
}

std::string LoadName(const ServePoint& point) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", point.rate);
  return point.rate > 0 ? text : std::to_string(point.concurrency);
}

std::string SweepOfTarget(const std::vector<ServePoint>& points, size_t target) {
  constexpr size_t kBarWidth = 24;
  constexpr double kKneeTimes = 2;
  const Figure output{"", [](const RunFigures& f) { return f.output_tokens_per_s; }};
  const Figure goodput{"", [](const RunFigures& f) { return f.goodput_per_s.value_or(0); }};
  const Figure ttft{"", [](const RunFigures& f) { return f.ttft.p50; }};
  std::vector<std::vector<std::string>> rows = {
      {points.front().rate > 0 ? "rate" : "open", "requests/s", "output tokens/s", "goodput/s",
       "TTFT p50, ms", "p99", "TPOT p50, ms", "E2E p99, ms", "failed"}};
  double most = 0;
  const ServePoint* best = &points.front();
  const ServePoint* knee = nullptr;
  bool bent = false;
  for (const ServePoint& point : points) {
    const TargetResult& result = point.results[target];
    most = std::max(most, MedianOf(result, output));
    if (MedianOf(result, goodput) > MedianOf(best->results[target], goodput)) {
      best = &point;
    }
    bent = bent ||
           MedianOf(result, ttft) > kKneeTimes * MedianOf(points.front().results[target], ttft);
    knee = bent ? knee : &point;
  }
  for (const ServePoint& point : points) {
    const TargetResult& result = point.results[target];
    const auto cell = [&result](auto of) {
      const double value = MedianOf(result, {"", of});
      return value > 0 ? ShortNumber(value) : "-";
    };
    const uint64_t sent = Sum(result, &RunFigures::requests);
    const double share = most > 0 ? MedianOf(result, output) / most : 0;
    const auto bar = static_cast<size_t>(std::llround(static_cast<double>(kBarWidth) * share));
    rows.push_back({LoadName(point), cell([](const RunFigures& f) { return f.requests_per_s; }),
                    cell(output.of), cell(goodput.of), cell(ttft.of),
                    cell([](const RunFigures& f) { return f.ttft.p99; }),
                    cell([](const RunFigures& f) { return f.tpot.p50; }),
                    cell([](const RunFigures& f) { return f.e2e.p99; }),
                    std::to_string(sent - Sum(result, &RunFigures::completed)) + "  " +
                        std::string(bar, '#') + std::string(kBarWidth - bar, ' ')});
  }
  rows[0].back() += "  output tokens/s         ";
  std::string out =
      points.front().results[target].target.name + "\n" + LinedUp(rows, Align::kRight);
  if (MedianOf(best->results[target], goodput) > 0) {
    out += "most goodput: " + ShortNumber(MedianOf(best->results[target], goodput)) +
           " requests/s at " + LoadName(*best) + "\n";
  }
  if (bent) {
    out += "knee: " + LoadName(*knee) +
           " is the most before the median TTFT is over twice that of the lightest load\n";
  } else {
    out += "no knee: the median TTFT stays within twice that of the lightest load\n";
  }
  for (const ServePoint& point : points) {
    out += FaultLines(point.results[target]) + NoteLines(point.results[target]);
  }
  return out;
}

}  // namespace

std::string ShortNumber(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 100 ? "%.2f" : "%.0f", value);
  return text;
}

RunFigures FiguresOf(const ServeRun& run, const std::optional<metrics::Slo>& slo) {
  RunFigures figures;
  figures.requests = static_cast<uint32_t>(run.records.size());
  figures.duration_s = static_cast<double>(run.duration_ns) / kSecond;
  figures.interrupted = run.interrupted;
  std::vector<double> ttft, tpot, itl, e2e, lag;
  uint32_t good = 0;
  for (const ServeRecord& record : run.records) {
    lag.push_back(static_cast<double>(record.sent_ns - record.planned_ns) / kMs);
    if (record.fault != ServeFault::kNone) {
      ++figures.faults[std::string(ServeFaultName(record.fault))];
      continue;
    }
    ++figures.completed;
    figures.prompt_tokens += record.prompt_tokens.value_or(0);
    figures.output_tokens += record.tokens();
    figures.cached_tokens += record.cached_tokens.value_or(0);
    const int64_t first = record.chunks_ns.front();
    const int64_t last = record.chunks_ns.back();
    ttft.push_back(static_cast<double>(first - record.planned_ns) / kMs);
    e2e.push_back(static_cast<double>(last - record.planned_ns) / kMs);
    metrics::RequestTimes times;
    times.first_token_s = ttft.back() / 1e3;
    times.end_to_end_s = e2e.back() / 1e3;
    times.tokens = record.tokens();
    if (record.chunks_ns.size() > 1 && record.tokens() > 1) {
      tpot.push_back(static_cast<double>(last - first) / kMs /
                     static_cast<double>(record.tokens() - 1));
      times.per_token_s = tpot.back() / 1e3;
    } else if (record.tokens() > 1) {
      ++figures.lumps;
    }
    for (size_t i = 1; i < record.chunks_ns.size(); ++i) {
      itl.push_back(static_cast<double>(record.chunks_ns[i] - record.chunks_ns[i - 1]) / kMs);
    }
    good += slo && Meets(*slo, times) ? 1 : 0;
  }
  const auto per_s = [&figures](int64_t count) {
    return figures.duration_s > 0 ? static_cast<double>(count) / figures.duration_s : 0;
  };
  figures.requests_per_s = per_s(figures.completed);
  figures.output_tokens_per_s = per_s(figures.output_tokens);
  figures.total_tokens_per_s = per_s(figures.output_tokens + figures.prompt_tokens);
  if (slo) {
    figures.goodput_per_s = per_s(good);
  }
  figures.ttft = SpreadOf(std::move(ttft));
  figures.tpot = SpreadOf(std::move(tpot));
  figures.itl = SpreadOf(std::move(itl));
  figures.e2e = SpreadOf(std::move(e2e));
  figures.lag = SpreadOf(std::move(lag));
  constexpr double kLagMs = 0.2;
  constexpr double kLagShare = 0.01;
  figures.late = figures.lag.p99 > std::max(kLagMs, kLagShare * figures.e2e.p50);
  return figures;
}

Agreement AgreementOf(const ServeRun& a, const ServeRun& b) {
  Agreement agreement;
  for (size_t i = 0; i < std::min(a.records.size(), b.records.size()); ++i) {
    if (a.records[i].fault == ServeFault::kNone && b.records[i].fault == ServeFault::kNone) {
      ++agreement.both;
      agreement.same += a.records[i].text_sha256 == b.records[i].text_sha256 ? 1 : 0;
    }
  }
  return agreement;
}

std::vector<std::string> WithoutAnswer(const std::vector<ServePoint>& points) {
  std::vector<std::string> names;
  const size_t targets = points.empty() ? 0 : points.front().results.size();
  for (size_t i = 0; i < targets; ++i) {
    if (std::all_of(points.begin(), points.end(), [i](const ServePoint& point) {
          return Sum(point.results[i], &RunFigures::completed) == 0;
        })) {
      names.push_back(points.front().results[i].target.name);
    }
  }
  return names;
}

std::string ServeText(const std::vector<TargetResult>& results) {
  std::vector<std::vector<std::string>> rows = {{""}};
  for (const TargetResult& result : results) {
    rows[0].push_back(result.target.name);
    if (&result != &results.front()) {
      rows[0].emplace_back("ratio");
    }
  }
  AddSums(rows, results, "requests", &RunFigures::requests);
  AddSums(rows, results, "whole answers", &RunFigures::completed);
  AddSums(rows, results, "prompt tokens", &RunFigures::prompt_tokens);
  AddSums(rows, results, "of them cached", &RunFigures::cached_tokens);
  AddSums(rows, results, "output tokens", &RunFigures::output_tokens);
  AddFigures(rows, results);
  size_t width = 0;
  for (const std::vector<std::string>& row : rows) {
    width = std::max(width, row[0].size());
  }
  for (std::vector<std::string>& row : rows) {
    row[0].resize(width, ' ');  // names to the left, numbers to the right
  }
  std::string out = LinedUp(rows, Align::kRight);
  std::string notes;
  for (const TargetResult& result : results) {
    notes += FaultLines(result) + NoteLines(result);
    if (&result != &results.front() && !result.runs.empty() && !results.front().runs.empty()) {
      const Agreement agreement = AgreementOf(results.front().runs[0], result.runs[0]);
      notes += result.target.name + " and " + results.front().target.name + ": " +
               std::to_string(agreement.same) + " of " + std::to_string(agreement.both) +
               " answers have the same text\n";
    }
  }
  return notes.empty() ? out : out + "\n" + notes;
}

std::string SweepText(const std::vector<ServePoint>& points) {
  std::string out;
  for (size_t target = 0; target < points.front().results.size(); ++target) {
    out += SweepOfTarget(points, target) + "\n";
  }
  out.pop_back();
  return out;
}

std::string ServeJson(std::string_view load, const std::vector<ServePoint>& points, bool records) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("load").Raw(load).Key("points").BeginArray();
  for (const ServePoint& point : points) {
    json.BeginObject().Key("request_rate").Double(point.rate);
    json.Key("max_concurrency").Uint(point.concurrency).Key("targets").BeginArray();
    for (const TargetResult& result : point.results) {
      WriteTarget(json, result, point.results.front(), records);
    }
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
  return out;
}

}  // namespace fak::perf
