#include "cli/bench_serve.h"

#include <CLI/CLI.hpp>

#include <csignal>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/key_file.h"
#include "base/printable.h"
#include "base/signal.h"
#include "base/utf8.h"
#include "cli/number_flag.h"
#include "cli/progress.h"
#include "perf/serve_figures.h"
#include "perf/serve_run.h"
#include "perf/serve_workload.h"

namespace fak::cli {
namespace {

struct ServeFlags {
  std::vector<std::string> targets;
  std::vector<std::string> models;
  std::string trace;
  double trace_speed = 1;
  std::vector<double> rates;  // several, or several concurrencies: a sweep
  std::vector<uint32_t> concurrencies;
  perf::SyntheticWorkload synthetic;
  perf::ServeOptions options;
  uint32_t timeout_s = 600;
  uint32_t repetitions = 3;
  bool no_ignore_eos = false;
  std::string slo;
  std::string api_key;
  std::string api_key_file;
  std::string output;
  bool records = false;
  bool json = false;
};

// Finds out which model each target has, where none was named.
Result<std::vector<perf::TargetResult>> TargetsOf(const ServeFlags& flags) {
  std::string key;
  if (!flags.api_key.empty()) {
    TRY_ASSIGN(key, CleanKey(flags.api_key, "--api-key"));
  }
  if (!flags.api_key_file.empty()) {
    TRY_ASSIGN(key, ReadKeyFile(flags.api_key_file));
  }
  if (flags.models.size() > 1 && flags.models.size() != flags.targets.size()) {
    return Fail(Code::kInvalidArgument, "--model is given once for all targets or once for each",
                "--model");
  }
  std::vector<perf::TargetResult> results;
  for (const std::string& text : flags.targets) {
    auto target = perf::ParseServeTarget(text);
    if (!target) {
      Error error = Within("--target " + text, target.error());
      error.field = "--target";
      return Fail(std::move(error));
    }
    target->key = key;
    if (!flags.models.empty()) {
      target->model = flags.models.size() == 1 ? flags.models[0] : flags.models[results.size()];
    } else {
      TRY_ASSIGN(const std::vector<std::string> models,
                 perf::AskModels(*target, flags.options.ca_file));
      if (models.empty()) {
        return Fail(Code::kUpstreamError, target->name + " names no model: give --model",
                    "--model");
      }
      target->model = models[0];
    }
    for (const perf::TargetResult& other : results) {
      if (other.target.name == target->name) {
        return Fail(Code::kInvalidArgument, "--target " + target->name + ": given twice",
                    "--target");
      }
    }
    results.push_back({std::move(*target), {}, {}});
  }
  return results;
}

// Each run has words of its own, the same for all targets: what a server kept of the run before
// mustn't help it.
std::vector<perf::ServeRequest> WorkloadOf(const ServeFlags& flags,
                                           const std::optional<perf::RouteTrace>& trace,
                                           uint32_t round) {
  perf::SyntheticWorkload synthetic = flags.synthetic;
  synthetic.seed += round - 1;
  return trace ? perf::MakeFromTrace(*trace, {flags.options.closed_loop ? 0 : flags.trace_speed,
                                              synthetic.requests, synthetic.seed})
               : perf::MakeSynthetic(synthetic);
}

std::string Head(const ServeFlags& flags, const std::vector<perf::ServeRequest>& workload) {
  uint64_t words = 0;
  uint64_t tokens = 0;
  for (const perf::ServeRequest& request : workload) {
    words += static_cast<uint64_t>(std::count(request.prompt.begin(), request.prompt.end(), ' '));
    tokens += request.output_tokens;
  }
  char load[64];
  if (flags.options.closed_loop) {
    std::snprintf(load, sizeof load, "%u open at a time", flags.options.concurrency);
  } else if (!flags.trace.empty()) {
    std::snprintf(load, sizeof load, "at %g times the trace's pace", flags.trace_speed);
  } else {
    std::snprintf(load, sizeof load, "%g a second", flags.synthetic.rate);
  }
  return (flags.trace.empty() ? "synthetic" : flags.trace) + ": " +
         std::to_string(workload.size()) + " requests, " + load + "; " + std::to_string(words) +
         " words of prompts, " + std::to_string(tokens) + " tokens of answers; seed " +
         std::to_string(static_cast<int64_t>(flags.synthetic.seed)) + "; " +
         std::to_string(flags.repetitions) +
         (flags.repetitions == 1 ? " run\n" : " runs: medians\n");
}

// The loads that were asked for, lightest first.
Result<std::vector<perf::ServePoint>> PointsOf(const ServeFlags& flags) {
  if (flags.rates.size() > 1 && flags.concurrencies.size() > 1) {
    return Fail(Code::kInvalidArgument, "several rates or several concurrencies, not both",
                "--concurrency");
  }
  std::vector<perf::ServePoint> points;
  for (const double rate : flags.rates) {
    points.push_back({rate, flags.concurrencies.empty() ? 0 : flags.concurrencies[0], {}});
  }
  if (flags.rates.empty()) {
    for (const uint32_t concurrency : flags.concurrencies) {
      points.push_back({0, concurrency, {}});
    }
  }
  if (points.empty()) {
    points.push_back({0, flags.trace.empty() ? 1u : 0u, {}});
  }
  std::sort(points.begin(), points.end(), [](const auto& a, const auto& b) {
    return std::pair(a.rate, a.concurrency) < std::pair(b.rate, b.concurrency);
  });
  return points;
}

// The flags as they are for one of the loads, the index-th, with seeds of its own.
ServeFlags At(ServeFlags flags, const perf::ServePoint& point, size_t index) {
  flags.synthetic.seed += index * flags.repetitions;
  flags.synthetic.rate = point.rate;
  flags.options.concurrency = point.concurrency;
  flags.options.closed_loop = point.rate == 0 && point.concurrency > 0;
  return flags;
}

// Rounds go from the first target to the last, so that all see the same weather.
Status RunPoint(const ServeFlags& flags, const std::optional<perf::RouteTrace>& trace,
                const std::optional<metrics::Slo>& slo, const std::atomic<bool>& stop,
                ProgressBar& bar, std::vector<perf::TargetResult>& results) {
  for (uint32_t round = 1; round <= flags.repetitions && !stop; ++round) {
    const std::vector<perf::ServeRequest> workload = WorkloadOf(flags, trace, round);
    for (perf::TargetResult& result : results) {
      const std::string name = Printable(result.target.name) + ", run " + std::to_string(round) +
                               " of " + std::to_string(flags.repetitions);
      const auto show = [&bar, &name, &workload](const perf::ServeProgress& progress) {
        bar.ShowCount(name + ", " + std::to_string(progress.sent - progress.done) + " open, " +
                          std::to_string(progress.failed) + " failed",
                      progress.done, workload.size());
      };
      TRY_ASSIGN(perf::ServeRun run,
                 perf::RunServe(result.target, workload, flags.options, show, stop));
      result.figures.push_back(perf::FiguresOf(run, slo));
      result.runs.push_back(std::move(run));
      if (stop) {
        break;
      }
    }
  }
  return {};
}

// The rest of a run that was interrupted isn't there: a target without a run, a load without all
// targets.
void LeaveOutWhatDidNotRun(std::vector<perf::ServePoint>& points) {
  const auto ran = [](const perf::TargetResult& result) { return !result.runs.empty(); };
  for (perf::ServePoint& point : points) {
    std::erase_if(point.results, [&ran](const auto& result) { return !ran(result); });
  }
  const size_t targets = points.front().results.size();
  std::erase_if(points, [targets](const auto& point) { return point.results.size() < targets; });
}

// What was asked of the servers, all that must be the same for figures to be comparable.
std::string LoadJson(const ServeFlags& flags) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("num_prompts").Uint(flags.synthetic.requests);
  if (flags.trace.empty()) {
    json.Key("workload").String("synthetic").Key("input_len").Uint(flags.synthetic.input_words);
    json.Key("output_len").Uint(flags.synthetic.output_tokens);
    json.Key("range_ratio").Double(flags.synthetic.range_ratio);
    json.Key("prefix_len").Uint(flags.synthetic.prefix_words);
    json.Key("num_prefixes").Uint(flags.synthetic.prefixes);
    json.Key("burstiness").Double(flags.synthetic.burstiness);
  } else {
    const size_t slash = flags.trace.rfind('/');
    json.Key("workload")
        .String(ReplaceInvalidUtf8(slash == std::string::npos ? flags.trace
                                                              : flags.trace.substr(slash + 1)));
    json.Key("trace_speed").Double(flags.trace_speed);
  }
  json.Key("seed")
      .Int(static_cast<int64_t>(flags.synthetic.seed))
      .Key("repetitions")
      .Uint(flags.repetitions);
  json.Key("chat").Bool(flags.options.chat).Key("temperature").Double(flags.options.temperature);
  json.Key("ignore_eos").Bool(flags.options.ignore_eos).Key("timeout_s").Uint(flags.timeout_s);
  json.Key("slo").String(ReplaceInvalidUtf8(flags.slo)).EndObject();
  return out;
}

std::string TextOf(const ServeFlags& flags, const std::optional<perf::RouteTrace>& trace,
                   const std::vector<perf::ServePoint>& points) {
  const ServeFlags first = At(flags, points.front(), 0);
  const std::string head = Head(first, WorkloadOf(first, trace, 1)) + "\n";
  return head + PrintableLines(points.size() > 1 ? perf::SweepText(points)
                                                 : perf::ServeText(points.front().results));
}

// What there was when it was interrupted has been printed too.
Result<ExitStatus> BenchServe(const ServeFlags& given) {
  ServeFlags flags = given;
  flags.options.ignore_eos = !flags.no_ignore_eos;
  flags.options.timeout_ns = flags.timeout_s * kNsPerSecond;
  std::optional<metrics::Slo> slo;
  if (!flags.slo.empty()) {
    TRY_ASSIGN(slo, metrics::ParseSlo("slo=" + flags.slo));
  }
  std::optional<perf::RouteTrace> trace;
  if (!flags.trace.empty()) {
    TRY_ASSIGN(trace, perf::ReadRouteTrace(flags.trace));
  }
  TRY_ASSIGN(std::vector<perf::ServePoint> points, PointsOf(flags));
  TRY_ASSIGN(const std::vector<perf::TargetResult> targets, TargetsOf(flags));
  std::atomic<bool> stop = false;
  {
    const SignalWatcher watcher({SIGINT, SIGTERM}, [&stop](int) { stop = true; });
    ProgressBar bar;
    for (size_t i = 0; i < points.size(); ++i) {
      perf::ServePoint& point = points[i];
      point.results = targets;
      TRY(RunPoint(At(flags, point, i), trace, slo, stop, bar, point.results));
    }
  }
  LeaveOutWhatDidNotRun(points);
  const std::string json = perf::ServeJson(LoadJson(flags), points, flags.records) + "\n";
  if (!flags.output.empty()) {
    TRY(WriteFileAtomically(flags.output, json));
  }
  std::fputs(flags.json ? json.c_str() : TextOf(flags, trace, points).c_str(), stdout);
  std::fflush(stdout);
  if (stop) {
    return kInterrupted;
  }
  const std::vector<std::string> silent = perf::WithoutAnswer(points);
  for (const std::string& name : silent) {
    std::fprintf(stderr, "fak: %s gave not one whole answer\n", Printable(name).c_str());
  }
  return silent.empty() ? 0 : kFailed;
}

void AddLoad(CLI::App& verb, ServeFlags& flags) {
  CLI::Option* rate =
      verb.add_option("--rate,--request-rate", flags.rates,
                      "Requests a second, sent when due whatever the answers do (an open loop); "
                      "several: a sweep")
          ->check(Within({.least = 0, .most = 1e6, .above = true}))
          ->delimiter(',')
          ->allow_extra_args(false);
  verb.add_option("--concurrency,--max-concurrency", flags.concurrencies,
                  "Requests kept open (1), several: a sweep; with --rate, at most so many")
      ->check(WholeWithin({.least = 1, .most = perf::kServeOpenMax}))
      ->delimiter(',')
      ->allow_extra_args(false);
  verb.add_option("--burstiness", flags.synthetic.burstiness,
                  "Shape of the gamma distribution of gaps: 1 is Poisson, below it bursts")
      ->check(Within({.least = 0.01, .most = 1e6}))
      ->needs(rate)
      ->capture_default_str();
  verb.add_option("-n,--num-prompts", flags.synthetic.requests, "Requests a run")
      ->check(WholeWithin({.least = 1, .most = 1e6}))
      ->capture_default_str();
  CLI::Option* trace =
      verb.add_option("--trace", flags.trace,
                      "Mooncake JSONL or Azure CSV, as fak bench route takes it: its lengths, its "
                      "shared prefixes and, without --concurrency, its times")
          ->excludes(rate);
  verb.add_option("--trace-speed", flags.trace_speed, "How much faster than the trace's times")
      ->check(Within({.least = 0, .most = 1e6, .above = true}))
      ->needs(trace)
      ->capture_default_str();
  verb.add_option("--input-len", flags.synthetic.input_words,
                  "Words of a prompt, of about one token each")
      ->check(WholeWithin({.least = 1, .most = 1e6}))
      ->capture_default_str();
  verb.add_option("--output-len", flags.synthetic.output_tokens, "Tokens of an answer")
      ->check(WholeWithin({.least = 1, .most = 1e6}))
      ->capture_default_str();
  verb.add_option("--range-ratio", flags.synthetic.range_ratio,
                  "Both lengths vary evenly by this share of them")
      ->check(Within({.least = 0, .most = 1}))
      ->capture_default_str();
  verb.add_option("--prefix-len", flags.synthetic.prefix_words, "Words in front that prompts share")
      ->check(WholeWithin({.least = 0, .most = 1e6}))
      ->capture_default_str();
  verb.add_option("--num-prefixes", flags.synthetic.prefixes, "So many different ones")
      ->check(WholeWithin({.least = 1, .most = 1e5}))
      ->capture_default_str();
  AddSeed(verb, flags.synthetic.seed,
          "Of lengths, words and gaps; each run adds one, so that no run has another's prompts");
}

void AddRequests(CLI::App& verb, ServeFlags& flags) {
  verb.add_option(
          "--model", flags.models,
          "Model to ask for, for all targets or one for each (the first that a target names)")
      ->allow_extra_args(false);
  verb.add_flag("--chat", flags.options.chat, "Ask /v1/chat/completions, not /v1/completions");
  verb.add_option("--temperature", flags.options.temperature, "Of sampling")
      ->check(Within({.least = 0, .most = 2}))
      ->capture_default_str();
  verb.add_flag("--no-ignore-eos", flags.no_ignore_eos,
                "Let answers end early; don't send ignore_eos, which hosted APIs refuse");
  verb.add_option("--timeout", flags.timeout_s, "Seconds that a request may take")
      ->check(Within({.least = 1, .most = 86400}))
      ->capture_default_str();
  verb.add_option("--api-key", flags.api_key, "Sent to all targets (better: FAK_API_KEY)");
  verb.add_option("--api-key-file", flags.api_key_file, "File with that key");
  verb.add_option("--ca-file", flags.options.ca_file,
                  "PEM certificates to trust instead of the system's");
}

}  // namespace

std::function<ExitStatus()> AddBenchServe(CLI::App& bench) {
  CLI::App* verb = bench.add_subcommand(
      "serve", "Load one or several servers with the same requests, in alternation");
  const auto flags = std::make_shared<ServeFlags>();
  verb->add_option("--target", flags->targets,
                   "[NAME=]URL of a server with the OpenAI API; repeatable, the first is what "
                   "others are compared with")
      ->required()
      ->allow_extra_args(false);
  AddLoad(*verb, *flags);
  AddRequests(*verb, *flags);
  verb->add_option("-r,--repetitions", flags->repetitions, "Runs of each target")
      ->check(WholeWithin({.least = 1, .most = 1000}))
      ->capture_default_str();
  verb->add_option("--slo", flags->slo,
                   "What a good request keeps, in ms: ttft:500,tpot:50,e2e:10000 (some or all)");
  verb->add_flag("--json", flags->json, "Print JSON, with vLLM's names of figures");
  verb->add_flag("--records", flags->records, "Every request in the JSON");
  verb->add_option("-o,--output", flags->output, "Write the JSON to this file too");
  verb->footer(
      "Definitions: docs/bench.md.\n"
      "Examples:\n"
      "  fak bench serve --target http://127.0.0.1:8000 --concurrency 4 -n 40 --output-len 32\n"
      "  fak bench serve --target a=http://127.0.0.1:8000 --target b=http://127.0.0.1:8001 --rate "
      "2 \\\n"
      "    --prefix-len 512 --num-prefixes 4 --slo ttft:500,tpot:50\n"
      "  fak bench serve --target http://127.0.0.1:8000 --rate 1,2,4,8 -r 1 --slo ttft:500");
  return [flags]() -> ExitStatus {
    const Result<ExitStatus> status = BenchServe(*flags);
    return status ? *status : PrintError(status.error());
  };
}

}  // namespace fak::cli
