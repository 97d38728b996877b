#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "base/version.h"
#include "cli/bench_compare.h"
#include "cli/bench_doctor.h"
#include "cli/bench_load.h"
#include "cli/bench_roofline.h"
#include "cli/bench_route.h"
#include "cli/bench_serve.h"
#include "cli/engine_flags.h"
#include "cli/interruptible.h"
#include "cli/number_flag.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "engine/native_driver.h"
#include "perf/model_bench.h"
#include "tensor/gguf.h"
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

// What is measured, as llama-bench describes it.
struct Subject {
  std::string path;
  std::string type;  // "llama 134.52 M Q4_1": the type is that of most of its bytes
  uint64_t bytes = 0;
  uint64_t parameters = 0;
  uint32_t threads = 0;
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

// Before anything is measured or printed.
Status CheckFits(const std::vector<perf::ModelTest>& tests, uint32_t context) {
  for (const perf::ModelTest& test : tests) {
    const bool prompt = test.n_prompt > 0;
    const uint64_t tokens = prompt ? uint64_t{test.n_depth} + test.n_prompt
                                   : uint64_t{std::max(1u, test.n_depth)} + test.n_gen;
    if (tokens >= context) {
      const std::string flag = prompt ? "--n-prompt" : "--n-gen";
      return Fail(
          Code::kContextTooLong,
          flag + " " + std::to_string(prompt ? test.n_prompt : test.n_gen) +
              (test.n_depth > 0 ? " behind --n-depth " + std::to_string(test.n_depth) : "") +
              " doesn't fit the context of " + std::to_string(context) + " tokens",
          flag);
    }
  }
  return {};
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

std::string Millions(uint64_t count) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f M", static_cast<double>(count) / 1e6);
  return text;
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

Result<Subject> Describe(const std::string& path, const engine::LoadedEngine& loaded) {
  TRY_ASSIGN(const auto file, tensor::GgufFile::Open(path));
  std::map<tensor::DType, uint64_t> bytes;
  for (const tensor::GgufTensor& tensor : file->tensors()) {
    bytes[tensor.type] += tensor.bytes;
  }
  const auto most = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  Subject subject{path, "", loaded.plan.weights, loaded.card->parameters,
                  loaded.backend->info().threads};
  subject.type = loaded.shape.architecture + " " + Millions(subject.parameters) + " " +
                 std::string(tensor::DTypeName(most->first));
  return subject;
}

void PrintHead(const std::vector<perf::Peer>& peers) {
  std::printf("| %-28s | %10s | %10s | %-10s | %7s | %-15s | %20s | %10s |", "model", "size",
              "params", "backend", "threads", "test", "t/s", "median");
  for (const perf::Peer& peer : peers) {
    std::printf(" %12s | %7s |", peer.name.c_str(), "ratio");
  }
  std::printf("\n| %s | ---------: | ---------: | %s | ------: | %s | %s: | ---------: |",
              std::string(28, '-').c_str(), std::string(10, '-').c_str(),
              std::string(15, '-').c_str(), std::string(19, '-').c_str());
  for (size_t i = 0; i < peers.size(); ++i) {
    std::printf(" -----------: | ------: |");
  }
  std::printf("\n");
}

void PrintRow(const Row& row, const Subject& subject, const tensor::BackendInfo& info) {
  char rate[64];
  std::snprintf(rate, sizeof rate, "%.2f ± %.2f", perf::Mean(row.ours.SamplesTs()),
                perf::Deviation(row.ours.SamplesTs()));
  // One column more: ± has two bytes.
  std::printf("| %-28s | %6.2f MiB | %10s | %-10s | %7u | %15s | %21s | %10.2f |",
              subject.type.c_str(), static_cast<double>(subject.bytes) / 1048576.0,
              Millions(subject.parameters).c_str(), (info.name + " " + info.isa).c_str(),
              subject.threads, row.ours.test.Name().c_str(), rate, row.ours.MedianTs());
  for (const perf::TestResult& peer : row.peers) {
    std::printf(" %12.2f | %6.2fx |", peer.MedianTs(), row.ours.MedianTs() / peer.MedianTs());
  }
  std::printf("\n");
  std::fflush(stdout);
}

void WriteJsonRow(JsonWriter& json, const perf::TestResult& result, const std::string& engine,
                  const Subject& subject, const std::string& test_time) {
  const std::vector<double> rates = result.SamplesTs();
  const std::vector<double> times(result.samples_ns.begin(), result.samples_ns.end());
  json.Key("engine").String(engine).Key("cpu_info").String(perf::CpuName());
  json.Key("model_filename")
      .String(ReplaceInvalidUtf8(subject.path))
      .Key("model_type")
      .String(subject.type);
  json.Key("model_size").Uint(subject.bytes).Key("model_n_params").Uint(subject.parameters);
  json.Key("n_threads").Uint(subject.threads).Key("n_prompt").Uint(result.test.n_prompt);
  json.Key("n_gen").Uint(result.test.n_gen).Key("n_depth").Uint(result.test.n_depth);
  json.Key("n_parallel").Uint(result.test.parallel).Key("test_time").String(test_time);
  json.Key("avg_ns").Uint(static_cast<uint64_t>(perf::Mean(times)));
  json.Key("stddev_ns").Uint(static_cast<uint64_t>(perf::Deviation(times)));
  json.Key("avg_ts").Double(perf::Mean(rates)).Key("stddev_ts").Double(perf::Deviation(rates));
  json.Key("median_ts").Double(result.MedianTs()).Key("samples_ns").BeginArray();
  for (const uint64_t ns : result.samples_ns) {
    json.Uint(ns);
  }
  json.EndArray().Key("samples_ts").BeginArray();
  for (const double rate : rates) {
    json.Double(rate);
  }
  json.EndArray();
}

// What only our own rows can say: how this build ran it.
void WriteOurs(JsonWriter& json, const BenchFlags& flags, const tensor::BackendInfo& info) {
  json.Key("build_commit").String(kVersion);
  json.Key("backends").String(info.name).Key("isa").String(info.isa);
  json.Key("n_batch").Uint(flags.engine.max_num_batched_tokens);
  json.Key("n_ubatch").Uint(flags.engine.max_num_batched_tokens);
  json.Key("type_k").String(flags.engine.kv_cache_dtype);
  json.Key("type_v").String(flags.engine.kv_cache_dtype);
}

Status BenchModel(const BenchFlags& given) {
  const Interruptible interruptible;
  BenchFlags flags = given;
  const std::vector<perf::ModelTest> tests = TestsOf(flags);
  if (tests.empty()) {
    return Fail(Code::kInvalidArgument, "--n-prompt and --n-gen are 0: there is nothing to measure",
                "--n-prompt");
  }
  const uint32_t most = *std::max_element(flags.parallel.begin(), flags.parallel.end());
  flags.engine.max_num_seqs = most;
  TRY_ASSIGN(const std::vector<perf::Peer> peers, PeersOf(flags));
  TRY_ASSIGN(const ResolvedModel model, ResolveModel(flags.engine.model));
  TRY_ASSIGN(engine::LoadedEngine loaded, LoadModel(flags.engine, model));
  const tensor::BackendInfo info = loaded.backend->info();
  const int32_t vocabulary = loaded.card->tokenizer->vocab_size();
  TRY(CheckFits(tests, loaded.plan.context));
  TRY_ASSIGN(const Subject subject, Describe(model.path, loaded));
  engine::NativeDriver driver(std::move(loaded), {}, Clock::Real(), RandomSource::Real(), nullptr);
  std::string out;
  JsonWriter json(out);
  json.BeginArray();
  if (!flags.json) {
    PrintHead(peers);
  }
  // On a GPU we have none, and peers that have no GPU take all.
  const uint32_t peer_threads =
      info.threads == 0 ? std::thread::hardware_concurrency() : info.threads;
  uint64_t run = 0;
  for (const perf::ModelTest& test : tests) {
    TRY_ASSIGN(const Row row, RunTest(driver, test, vocabulary, peers, model, peer_threads,
                                      flags.repetitions, run));
    if (!flags.json) {
      PrintRow(row, subject, info);
      continue;
    }
    const std::string test_time = FormatUtc(Clock::Real().WallNs());
    json.BeginObject();
    WriteJsonRow(json, row.ours, "fak", subject, test_time);
    WriteOurs(json, flags, info);
    json.EndObject();
    for (size_t i = 0; i < peers.size(); ++i) {
      json.BeginObject();
      WriteJsonRow(json, row.peers[i], peers[i].name, subject, test_time);
      json.EndObject();
    }
  }
  json.EndArray();
  if (flags.json) {
    std::printf("%s\n", out.c_str());
  } else {
    std::printf("\nfak %s; tokens a second of %u runs: mean ± deviation, and median\n", kVersion,
                flags.repetitions);
  }
  return {};
}

}  // namespace

std::function<ExitStatus()> AddBench(Program& program) {
  CLI::App* bench = program.app.add_subcommand("bench", "Measure speed");
  bench->require_subcommand(1);
  CLI::App* verb = bench->add_subcommand(
      "model", "Prompt and generation speed of a model in this process, as llama-bench has it");
  const auto flags = std::make_shared<BenchFlags>();
  AddModel(*verb, flags->engine.model);
  flags->engine.AddStepRows(*verb);
  flags->engine.AddMemory(*verb);
  flags->engine.AddMachine(*verb);
  verb->add_option("-p,--n-prompt", flags->n_prompt, "Prompt tokens")
      ->check(WholeWithin({.least = 0, .most = limits::kContextMax}))
      ->capture_default_str()
      ->delimiter(',')
      ->allow_extra_args(false);
  verb->add_option("-n,--n-gen", flags->n_gen, "Generated tokens")
      ->check(WholeWithin({.least = 0, .most = limits::kContextMax}))
      ->capture_default_str()
      ->delimiter(',')
      ->allow_extra_args(false);
  verb->add_option("-d,--n-depth", flags->n_depth, "Tokens in the KV beforehand")
      ->check(WholeWithin({.least = 0, .most = limits::kContextMax}))
      ->capture_default_str()
      ->delimiter(',')
      ->allow_extra_args(false);
  verb->add_option("--parallel", flags->parallel, "Sequences that generate together")
      ->check(WholeWithin({.least = 1, .most = 4096}))
      ->capture_default_str()
      ->delimiter(',')
      ->allow_extra_args(false);
  verb->add_option("-r,--repetitions", flags->repetitions, "Runs of each test")
      ->check(WholeWithin({.least = 1, .most = 1000}))
      ->capture_default_str();
  verb->add_option("--peer", flags->peers,
                   "NAME=DIR of a llama.cpp build to run in alternation; repeatable")
      ->allow_extra_args(false);
  verb->add_flag("--json", flags->json, "Print JSON with llama-bench's field names");
  const std::vector<std::pair<std::string, std::function<ExitStatus()>>> others = {
      {"serve", AddBenchServe(*bench)},   {"compare", AddBenchCompare(*bench)},
      {"route", AddBenchRoute(*bench)},   {"roofline", AddBenchRoofline(*bench)},
      {"doctor", AddBenchDoctor(*bench)}, {"load", AddBenchLoad(*bench)},
  };
  bench->footer(
      "Examples:\n"
      "  fak bench model smollm2 -p 512 -n 128 -t 2 --parallel 1,4,8\n"
      "  fak bench serve --target http://127.0.0.1:8000 -n 40 --output-len 32 -o before.json\n"
      "  fak bench compare before.json after.json --fail-if 'p99_ttft_ms>+5%'\n"
      "  fak bench route --trace tests/sim/traces/mooncake_1000.jsonl --replicas 4,8\n"
      "  fak bench roofline smollm2 -t 2\n"
      "  fak bench doctor\n"
      "  fak bench load smollm2");
  verb->footer("Example:\n  fak bench model smollm2 -p 512 -n 128 -t 2 --parallel 1,4,8");
  return [flags, bench, others]() -> ExitStatus {
    for (const auto& [name, run] : others) {
      if (bench->got_subcommand(name)) {
        return run();
      }
    }
    const Status measured = BenchModel(*flags);
    return measured ? 0 : PrintError(measured.error());
  };
}

}  // namespace fak::cli
