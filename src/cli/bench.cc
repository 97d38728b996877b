#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdio>

#include "base/json.h"
#include "base/strings.h"
#include "base/version.h"
#include "cli/engine_flags.h"
#include "cli/number_flag.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "engine/native_driver.h"
#include "perf/model_bench.h"
#include "text/tokenizer.h"

namespace fak::cli {
namespace {

struct BenchFlags {
  EngineFlags engine;
  std::vector<uint32_t> n_prompt = {512};
  std::vector<uint32_t> n_gen = {128};
  std::vector<uint32_t> n_depth = {0};
  std::vector<uint32_t> parallel = {1};
  std::vector<std::string> peers;  // NAME=DIR
  uint32_t repetitions = 5;
  bool json = false;
};

struct Row {
  perf::TestResult ours;
  std::vector<perf::TestResult> peers;
};

std::vector<perf::ModelTest> TestsOf(const BenchFlags& flags) {
  std::vector<perf::ModelTest> tests;
  for (const uint32_t depth : flags.n_depth) {
    for (const uint32_t prompt : flags.n_prompt) {
      if (prompt > 0) {
        tests.push_back({.n_prompt = prompt, .n_depth = depth});
      }
    }
    for (const uint32_t gen : flags.n_gen) {
      for (const uint32_t parallel : flags.parallel) {
        if (gen > 0) {
          tests.push_back({.n_gen = gen, .n_depth = depth, .parallel = parallel});
        }
      }
    }
  }
  return tests;
}

Result<std::vector<perf::Peer>> PeersOf(const BenchFlags& flags) {
  std::vector<perf::Peer> peers;
  for (const std::string& text : flags.peers) {
    const auto parts = Cut(text, "=");
    if (!parts || parts->first.empty() || parts->second.empty()) {
      return Fail(Code::kInvalidArgument, "--peer " + text + ": must be NAME=DIR", "--peer");
    }
    peers.push_back({std::string(parts->first), std::string(parts->second)});
  }
  return peers;
}

// Rounds go ours, peer, peer, ours ...: each sees the same weather. The first round is a warm-up.
Result<Row> RunTest(driver::EngineDriver& driver, const perf::ModelTest& test, int32_t vocabulary,
                    const std::vector<perf::Peer>& peers, const ResolvedModel& model,
                    uint32_t threads, uint32_t repetitions, uint64_t& run) {
  Row row;
  row.ours.test = test;
  row.peers.resize(peers.size());
  TRY(perf::RunOnce(driver, test, vocabulary, ++run));
  for (uint32_t i = 0; i < repetitions; ++i) {
    TRY_ASSIGN(const uint64_t ns, perf::RunOnce(driver, test, vocabulary, ++run));
    row.ours.samples_ns.push_back(ns);
    for (size_t peer = 0; peer < peers.size(); ++peer) {
      row.peers[peer].test = test;
      TRY_ASSIGN(const uint64_t peer_ns, perf::RunPeerOnce(peers[peer], test, model.path, threads));
      row.peers[peer].samples_ns.push_back(peer_ns);
    }
  }
  return row;
}

void PrintRow(const Row& row, const std::vector<perf::Peer>& peers) {
  const std::vector<double> rates = row.ours.SamplesTs();
  const auto [low, high] = std::minmax_element(rates.begin(), rates.end());
  std::printf("| %-20s | %10.2f | %10.2f | %10.2f |", row.ours.test.Name().c_str(),
              row.ours.MedianTs(), *low, *high);
  for (size_t i = 0; i < peers.size(); ++i) {
    std::printf(" %12.2f | %6.2fx |", row.peers[i].MedianTs(),
                row.ours.MedianTs() / row.peers[i].MedianTs());
  }
  std::printf("\n");
  std::fflush(stdout);
}

void WriteJsonRow(JsonWriter& json, const perf::TestResult& result, const std::string& engine,
                  const std::string& model, const tensor::BackendInfo& info) {
  const std::vector<double> rates = result.SamplesTs();
  double mean = 0.0;
  for (const double rate : rates) {
    mean += rate / static_cast<double>(rates.size());
  }
  double squares = 0.0;
  for (const double rate : rates) {
    squares += (rate - mean) * (rate - mean);
  }
  const double deviation =
      rates.size() > 1 ? std::sqrt(squares / static_cast<double>(rates.size() - 1)) : 0.0;
  json.BeginObject().Key("engine").String(engine).Key("model_filename").String(model);
  json.Key("backends").String(info.name).Key("isa").String(info.isa);
  json.Key("n_threads").Uint(info.threads).Key("n_prompt").Uint(result.test.n_prompt);
  json.Key("n_gen").Uint(result.test.n_gen).Key("n_depth").Uint(result.test.n_depth);
  json.Key("n_parallel").Uint(result.test.parallel);
  json.Key("avg_ts").Double(mean).Key("stddev_ts").Double(deviation);
  json.Key("median_ts").Double(result.MedianTs()).Key("samples_ns").BeginArray();
  for (const uint64_t ns : result.samples_ns) {
    json.Uint(ns);
  }
  json.EndArray().Key("samples_ts").BeginArray();
  for (const double rate : rates) {
    json.Double(rate);
  }
  json.EndArray().EndObject();
}

Status BenchModel(const BenchFlags& given) {
  BenchFlags flags = given;
  const uint32_t most = *std::max_element(flags.parallel.begin(), flags.parallel.end());
  flags.engine.max_num_seqs = most;
  TRY_ASSIGN(const std::vector<perf::Peer> peers, PeersOf(flags));
  TRY_ASSIGN(const ResolvedModel model, ResolveModel(flags.engine.model));
  TRY_ASSIGN(engine::LoadedEngine loaded, LoadModel(flags.engine, model));
  const tensor::BackendInfo info = loaded.backend->info();
  const int32_t vocabulary = loaded.card->tokenizer->vocab_size();
  engine::NativeDriver driver(std::move(loaded), {}, Clock::Real(), RandomSource::Real(), nullptr);
  std::string out;
  JsonWriter json(out);
  json.BeginArray();
  if (!flags.json) {
    std::printf("fak %s, %s, %s %s, %u threads; tokens a second, medians of %u runs\n", kVersion,
                model.name.c_str(), info.name.c_str(), info.isa.c_str(), info.threads,
                flags.repetitions);
    std::printf("| %-20s | %10s | %10s | %10s |", "test", "median", "lowest", "highest");
    for (const perf::Peer& peer : peers) {
      std::printf(" %12s | %7s |", peer.name.c_str(), "ratio");
    }
    std::printf("\n");
  }
  uint64_t run = 0;
  for (const perf::ModelTest& test : TestsOf(flags)) {
    TRY_ASSIGN(const Row row, RunTest(driver, test, vocabulary, peers, model, info.threads,
                                      flags.repetitions, run));
    if (!flags.json) {
      PrintRow(row, peers);
      continue;
    }
    WriteJsonRow(json, row.ours, "fak", model.path, info);
    for (size_t i = 0; i < peers.size(); ++i) {
      WriteJsonRow(json, row.peers[i], peers[i].name, model.path, info);
    }
  }
  json.EndArray();
  if (flags.json) {
    std::printf("%s\n", out.c_str());
  }
  return {};
}

}  // namespace

std::function<ExitStatus()> AddBench(CLI::App& program) {
  CLI::App* bench = program.add_subcommand("bench", "Measure speed");
  bench->require_subcommand(1);
  CLI::App* verb = bench->add_subcommand(
      "model", "Prompt and generation speed of a model in this process, as llama-bench has it");
  const auto flags = std::make_shared<BenchFlags>();
  AddModel(*verb, flags->engine.model);
  flags->engine.AddStepRows(*verb);
  flags->engine.AddMemory(*verb);
  flags->engine.AddMachine(*verb);
  verb->add_option("-p,--n-prompt", flags->n_prompt, "Prompt tokens")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb->add_option("-n,--n-gen", flags->n_gen, "Generated tokens")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb->add_option("-d,--n-depth", flags->n_depth, "Tokens in the KV beforehand")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb->add_option("--parallel", flags->parallel, "Sequences that generate together")
      ->check(Within({.least = 1, .most = 4096}))
      ->delimiter(',')
      ->allow_extra_args(false);
  verb->add_option("-r,--repetitions", flags->repetitions, "Runs of each test")
      ->check(Within({.least = 1, .most = 1000}))
      ->capture_default_str();
  verb->add_option("--peer", flags->peers,
                   "NAME=DIR of a llama.cpp build to run in alternation; repeatable")
      ->allow_extra_args(false);
  verb->add_flag("--json", flags->json, "Print JSON with llama-bench's field names");
  bench->footer(
      "Example:\n"
      "  fak bench model smollm2 -p 512 -n 128 -t 2 --parallel 1,4,8 --peer llama.cpp=build/bin");
  verb->footer("Example:\n  fak bench model smollm2 -p 512 -n 128 -t 2 --parallel 1,4,8");
  return [flags]() -> ExitStatus {
    const Status measured = BenchModel(*flags);
    return measured ? 0 : PrintError(measured.error());
  };
}

}  // namespace fak::cli
