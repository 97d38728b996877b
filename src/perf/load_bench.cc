#include "perf/load_bench.h"

#include <algorithm>
#include <cstdio>

#include "base/child_process.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/strings.h"
#include "perf/machine_facts.h"
#include "perf/model_bench.h"
#include "perf/page_cache.h"

namespace fak::perf {
namespace {

constexpr size_t kStatusBytesMax = 1 << 20;
constexpr double kNotCold = 0.05;  // of a file that was dropped

double MedianMs(const std::vector<LoadRun>& runs, int64_t LoadRun::* time) {
  std::vector<double> values;
  for (const LoadRun& run : runs) {
    values.push_back(static_cast<double>(run.*time) / kNsPerMs);
  }
  return Median(std::move(values));
}

uint64_t Peak(const std::vector<LoadRun>& runs) {
  uint64_t peak = 0;
  for (const LoadRun& run : runs) {
    peak = std::max(peak, run.peak_bytes);
  }
  return peak;
}

double CachedBefore(const std::vector<LoadRun>& runs) {
  std::vector<double> shares;
  for (const LoadRun& run : runs) {
    shares.push_back(run.cached_before);
  }
  return Median(std::move(shares));
}

std::string Row(const LoadReport& report, const char* name, const std::vector<LoadRun>& runs) {
  char text[256];
  std::snprintf(text, sizeof text, "%-5s %11.1f %16.1f %8.2f %10s %13.1f %%\n", name,
                MedianMs(runs, &LoadRun::load_ns), MedianFirstTokenMs(runs),
                WeightsPerSecond(report, runs) / 1e9, FormatBytes(Peak(runs)).c_str(),
                100.0 * CachedBefore(runs));
  return text;
}

void WriteRuns(const LoadReport& report, const std::vector<LoadRun>& runs, JsonWriter& json) {
  json.BeginObject().Key("median_load_ms").Double(MedianMs(runs, &LoadRun::load_ns));
  json.Key("median_first_token_ms").Double(MedianFirstTokenMs(runs));
  json.Key("weight_bytes_per_s").Double(WeightsPerSecond(report, runs));
  json.Key("peak_bytes").Uint(Peak(runs)).Key("runs").BeginArray();
  for (const LoadRun& run : runs) {
    json.BeginObject().Key("load_ms").Double(static_cast<double>(run.load_ns) / kNsPerMs);
    json.Key("first_token_ms").Double(static_cast<double>(run.first_token_ns) / kNsPerMs);
    json.Key("peak_bytes").Uint(run.peak_bytes);
    json.Key("cached_before").Double(run.cached_before).EndObject();
  }
  json.EndArray().EndObject();
}

Result<double> CachedShareOf(const std::vector<std::string>& files) {
  double sum = 0;
  for (const std::string& file : files) {
    TRY_ASSIGN(const double share, CachedShare(file));
    sum += share;
  }
  return files.empty() ? 1 : sum / static_cast<double>(files.size());
}

// What a child complained of, without the path of the program.
Error ComplaintOf(Error error) {
  constexpr std::string_view kSaid = ": fak: ";
  const size_t at = error.detail.find(kSaid);
  error.detail = at == std::string::npos ? error.detail : error.detail.substr(at + kSaid.size());
  return error;
}

}  // namespace

std::string LoadMoments::Line() const {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("loaded_ns").Int(loaded_ns);
  json.Key("first_token_ns").Int(first_token_ns).Key("peak_bytes").Uint(peak_bytes);
  json.Key("weight_bytes").Uint(weight_bytes).Key("kv_bytes").Uint(kv_bytes);
  json.Key("isa").String(isa).Key("threads").Uint(threads).EndObject();
  return out + "\n";
}

Result<LoadMoments> ParseLoadMoments(std::string_view line) {
  TRY_ASSIGN(const Json object, ParseJson(line));
  const auto number = [&object](std::string_view key) -> Result<uint64_t> {
    const Json* value = object.is_object() ? object.Find(key) : nullptr;
    if (value == nullptr || !value->is_number() || value->number() < 0) {
      return Fail(Code::kDataCorrupt, "a run printed no " + std::string(key));
    }
    return static_cast<uint64_t>(value->number());
  };
  LoadMoments moments;
  TRY_ASSIGN(const uint64_t loaded, number("loaded_ns"));
  TRY_ASSIGN(const uint64_t first_token, number("first_token_ns"));
  TRY_ASSIGN(moments.peak_bytes, number("peak_bytes"));
  TRY_ASSIGN(moments.weight_bytes, number("weight_bytes"));
  TRY_ASSIGN(moments.kv_bytes, number("kv_bytes"));
  TRY_ASSIGN(const uint64_t threads, number("threads"));
  moments.loaded_ns = static_cast<int64_t>(loaded);
  moments.first_token_ns = static_cast<int64_t>(first_token);
  moments.threads = static_cast<uint32_t>(threads);
  const Json* isa = object.Find("isa");
  moments.isa = isa != nullptr && isa->is_string() ? isa->string() : "";
  return moments;
}

uint64_t PeakBytes() {
  const Result<std::string> status = ReadFile("/proc/self/status", kStatusBytesMax);
  return status ? NumberAfter(*status, "VmHWM").value_or(0) * 1024 : 0;
}

Result<LoadChild> RunLoadChild(const std::vector<std::string>& argv,
                               const std::vector<std::string>& files, bool cold) {
  for (const std::string& file : cold ? files : std::vector<std::string>()) {
    TRY(DropFromCache(file));
  }
  LoadChild child;
  TRY_ASSIGN(child.run.cached_before, CachedShareOf(files));
  const int64_t started_ns = Clock::Real().NowNs();
  Result<std::string> said = RunProgram(argv);
  if (!said) {
    return Fail(ComplaintOf(std::move(said).error()));
  }
  TRY_ASSIGN(child.moments, ParseLoadMoments(Trim(*said)));
  child.run.load_ns = child.moments.loaded_ns - started_ns;
  child.run.first_token_ns = child.moments.first_token_ns - started_ns;
  child.run.peak_bytes = child.moments.peak_bytes;
  return child;
}

double MedianFirstTokenMs(const std::vector<LoadRun>& runs) {
  return MedianMs(runs, &LoadRun::first_token_ns);
}

double WeightsPerSecond(const LoadReport& report, const std::vector<LoadRun>& runs) {
  const double ms = MedianFirstTokenMs(runs);
  return ms > 0 ? 1000.0 * static_cast<double>(report.last.weight_bytes) / ms : 0;
}

std::string LoadText(const LoadReport& report) {
  std::string out = Printable(report.model) + ": " + FormatBytes(report.last.weight_bytes) +
                    " of weights, " + FormatBytes(report.last.kv_bytes) + " that KV may take; " +
                    report.last.isa;
  out += report.last.threads > 0 ? ", " + std::to_string(report.last.threads) +
                                       (report.last.threads == 1 ? " thread" : " threads")
                                 : "";
  out += "; medians of " + std::to_string(report.warm.size()) +
         (report.warm.size() == 1 ? " run\n\n" : " runs\n\n");
  char head[128];
  std::snprintf(head, sizeof head, "%-5s %11s %16s %8s %10s %15s\n", "", "loaded, ms",
                "first token, ms", "GB/s", "VmHWM", "cached before");
  out += head + Row(report, "cold", report.cold) + Row(report, "warm", report.warm);
  if (CachedBefore(report.cold) > kNotCold) {
    out +=
        "\nThe file couldn't be dropped from the page cache, or the system doesn't show it: "
        "\"cold\" may be warm\n";
  }
  return out;
}

std::string LoadJson(const LoadReport& report) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("model").String(report.model);
  json.Key("file_bytes").Uint(report.file_bytes);
  json.Key("weight_bytes").Uint(report.last.weight_bytes);
  json.Key("kv_bytes").Uint(report.last.kv_bytes);
  json.Key("isa").String(report.last.isa).Key("threads").Uint(report.last.threads);
  json.Key("n_prompt").Uint(report.n_prompt).Key("cold");
  WriteRuns(report, report.cold, json);
  json.Key("warm");
  WriteRuns(report, report.warm, json);
  json.EndObject();
  return out;
}

}  // namespace fak::perf
