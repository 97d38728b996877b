#include "cli/bench_roofline.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/printable.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "base/version.h"
#include "cli/engine_flags.h"
#include "cli/interruptible.h"
#include "cli/number_flag.h"
#include "cli/progress.h"
#include "engine/native_driver.h"
#include "perf/roofline.h"
#include "tensor/gguf.h"

namespace fak::cli {
namespace {

struct RooflineFlags {
  std::string model;
  std::vector<uint32_t> threads;
  std::vector<std::string> isas;
  uint32_t n_prompt = 512;
  uint32_t n_gen = 64;
  uint32_t repetitions = 5;
  std::string memory;  // "1GiB"; empty: chosen
  bool json = false;
};

// A loaded model, run a test at a time.
class Runner {
 public:
  static Result<Runner> Load(const RooflineFlags& flags) {
    EngineFlags engine;
    engine.device = "cpu";
    engine.max_num_seqs = 1;
    engine.threads = flags.threads.empty() ? 0 : flags.threads[0];
    engine.isa = flags.isas.empty() ? "auto" : flags.isas[0];
    TRY_ASSIGN(const ResolvedModel model, ResolveModel(flags.model));
    TRY_ASSIGN(engine::LoadedEngine loaded, LoadModel(engine, model));
    const uint32_t longest = std::max(flags.n_prompt, flags.n_gen + 1);
    if (longest >= loaded.plan.context) {
      return Fail(Code::kContextTooLong, "a context of " + std::to_string(loaded.plan.context) +
                                             " tokens has no room for --n-prompt " +
                                             std::to_string(flags.n_prompt) + " and --n-gen " +
                                             std::to_string(flags.n_gen));
    }
    TRY_ASSIGN(const auto file, tensor::GgufFile::Open(model.path));
    Runner runner;
    TRY_ASSIGN(runner.share.work, perf::WorkOf(*file));
    TRY_ASSIGN(runner.isa, tensor::ParseIsa(loaded.backend->info().isa));
    runner.threads = loaded.backend->info().threads;
    runner.share.model = model.name;
    runner.share.decode.test = {.n_gen = flags.n_gen};
    runner.share.prefill.test = {.n_prompt = flags.n_prompt};
    runner.vocabulary_ = loaded.card->tokenizer->vocab_size();
    runner.driver_ =
        std::make_unique<engine::NativeDriver>(std::move(loaded), engine::NativeDriverOptions{},
                                               Clock::Real(), RandomSource::Real(), nullptr);
    // The first of each is a warm-up.
    TRY(runner.RunOnce(runner.share.decode));
    TRY(runner.RunOnce(runner.share.prefill));
    return runner;
  }

  Status Round(ProgressBar& bar, size_t done, size_t all) {
    for (perf::TestResult* result : {&share.decode, &share.prefill}) {
      bar.ShowCount("measuring " + result->test.Name(), done++, all);
      TRY_ASSIGN(const uint64_t ns, RunOnce(*result));
      result->samples_ns.push_back(ns);
    }
    return {};
  }

  perf::ModelShare share;
  tensor::Isa isa = tensor::Isa::kScalar;
  uint32_t threads = 1;

 private:
  Result<uint64_t> RunOnce(const perf::TestResult& result) {
    return perf::RunOnce(*driver_, result.test, vocabulary_, ++run_);
  }

  std::unique_ptr<engine::NativeDriver> driver_;
  int32_t vocabulary_ = 0;
  uint64_t run_ = 0;
};

// 1, 2, 4 ... and all.
std::vector<uint32_t> UsualThreads() {
  const auto most = static_cast<uint32_t>(ThreadPool::UsableCpus());
  std::vector<uint32_t> threads;
  for (uint32_t count = 1; count < most; count *= 2) {
    threads.push_back(count);
  }
  threads.push_back(most);
  return threads;
}

Result<std::vector<tensor::Isa>> IsasOf(const RooflineFlags& flags) {
  const std::vector<tensor::Isa> here = tensor::CpuIsas();
  std::vector<tensor::Isa> isas;
  for (const std::string& name : flags.isas) {
    TRY_ASSIGN(const tensor::Isa isa, tensor::ParseIsa(name));
    if (std::find(here.begin(), here.end(), isa) == here.end()) {
      return Fail(Code::kUnsupported, "this machine has no " + name);
    }
    isas.push_back(isa);
  }
  return isas.empty() ? here : isas;
}

Result<perf::Roofline::Options> OptionsOf(const RooflineFlags& flags,
                                          const std::optional<Runner>& runner) {
  perf::Roofline::Options options;
  if (runner) {
    options = {{runner->isa}, {runner->threads}, 0};
  } else {
    TRY_ASSIGN(options.isas, IsasOf(flags));
    options.threads = flags.threads.empty() ? UsualThreads() : flags.threads;
  }
  options.bytes = tensor::EnoughToRead();
  if (!flags.memory.empty()) {
    const auto bytes = ParseBytes(flags.memory);
    if (!bytes || *bytes == 0) {
      return Fail(Code::kInvalidArgument,
                  "--memory \"" + flags.memory + "\": must be like 512MiB or 2GiB", "--memory");
    }
    options.bytes = *bytes;
  }
  return options;
}

void PrintJson(const RooflineFlags& flags, const perf::Roofline& roofline,
               const std::vector<perf::Ceiling>& ceilings, const std::optional<Runner>& runner) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("build_commit").String(kVersion);
  json.Key("cpu_info").String(perf::CpuName());
  json.Key("test_time").String(FormatUtc(Clock::Real().WallNs()));
  json.Key("repetitions").Uint(flags.repetitions);
  json.Key("memory_bytes").Uint(roofline.bytes());
  json.Key("huge_page_bytes").Uint(roofline.huge_page_bytes());
  json.Key("ceilings");
  perf::WriteJson(ceilings, json);
  if (runner) {
    json.Key("model");
    perf::WriteJson(runner->share, json);
  }
  json.EndObject();
  std::printf("%s\n", out.c_str());
}

void PrintText(const RooflineFlags& flags, const perf::Roofline& roofline,
               const std::vector<perf::Ceiling>& ceilings, const std::optional<Runner>& runner) {
  const std::string cpu = perf::CpuName();
  std::printf("%s%s%s are read, %.0f %% of it in huge pages; medians of %u rounds\n\n%s",
              Printable(cpu).c_str(), cpu.empty() ? "" : "; ",
              FormatBytes(roofline.bytes()).c_str(),
              100.0 * static_cast<double>(roofline.huge_page_bytes()) /
                  static_cast<double>(roofline.bytes()),
              flags.repetitions, perf::CeilingsText(ceilings).c_str());
  if (runner) {
    std::printf("\n%s, %s, %u %s\n%s", Printable(runner->share.model).c_str(),
                std::string(tensor::IsaName(runner->isa)).c_str(), runner->threads,
                runner->threads == 1 ? "thread" : "threads",
                perf::ShareText(runner->share).c_str());
  }
}

Status BenchRoofline(const RooflineFlags& flags) {
  const Interruptible interruptible;
  std::optional<Runner> runner;
  if (!flags.model.empty()) {
    if (flags.threads.size() > 1 || flags.isas.size() > 1) {
      return Fail(Code::kInvalidArgument,
                  "a model runs with one --threads and one --isa: give it once", "--threads");
    }
    TRY_ASSIGN(runner, Runner::Load(flags));
  }
  TRY_ASSIGN(const perf::Roofline::Options options, OptionsOf(flags, runner));
  TRY_ASSIGN(perf::Roofline roofline, perf::Roofline::Make(options));
  const size_t all = (roofline.loops() + (runner ? 2 : 0)) * flags.repetitions;
  ProgressBar bar;
  size_t done = 0;
  for (uint32_t round = 0; round < flags.repetitions; ++round) {
    roofline.Round(
        [&](const std::string& what) { bar.ShowCount("measuring " + what, done++, all); });
    if (runner) {
      TRY(runner->Round(bar, done, all));
      done += 2;
    }
  }
  bar.Finish();
  const std::vector<perf::Ceiling> ceilings = roofline.Ceilings();
  if (runner) {
    perf::TakeBounds(ceilings, runner->isa, runner->threads, runner->share);
  }
  (flags.json ? PrintJson : PrintText)(flags, roofline, ceilings, runner);
  return {};
}

}  // namespace

std::function<ExitStatus()> AddBenchRoofline(CLI::App& bench) {
  CLI::App* verb = bench.add_subcommand(
      "roofline", "What this machine gives at most, and the share of it that a model reaches");
  const auto flags = std::make_shared<RooflineFlags>();
  verb->add_option("model,--model", flags->model,
                   "Also measure this model's decode and prefill, in the same rounds");
  verb->add_option("-t,--threads", flags->threads, "Threads (default: 1, 2, 4 ... and all)")
      ->check(WholeWithin({.least = 1, .most = limits::kThreadsMax}))
      ->delimiter(',')
      ->allow_extra_args(false);
  verb->add_option("--isa", flags->isas,
                   "Instruction sets: scalar, avx2, avx512, neon (default: all that are here; with "
                   "a model the best)")
      ->check(CLI::IsMember({"scalar", "avx2", "avx512", "neon"}))
      ->delimiter(',')
      ->allow_extra_args(false);
  verb->add_option("--memory", flags->memory,
                   "Memory to read, many times the last cache (default: 512MiB or four caches)");
  verb->add_option("-p,--n-prompt", flags->n_prompt, "Prompt tokens of the model's prefill")
      ->check(WholeWithin({.least = 1, .most = limits::kContextMax}))
      ->capture_default_str();
  verb->add_option("-n,--n-gen", flags->n_gen, "Generated tokens of the model's decode")
      ->check(WholeWithin({.least = 1, .most = limits::kContextMax}))
      ->capture_default_str();
  verb->add_option("-r,--repetitions", flags->repetitions, "Rounds: each thing once a round")
      ->check(WholeWithin({.least = 1, .most = 1000}))
      ->capture_default_str();
  verb->add_flag("--json", flags->json, "Print JSON, every sample");
  verb->footer(
      "Examples:\n"
      "  fak bench roofline\n"
      "  fak bench roofline -t 1,2 --isa avx2,avx512 --json\n"
      "  fak bench roofline smollm2 -t 2");
  return [flags]() -> ExitStatus {
    const Status measured = BenchRoofline(*flags);
    return measured ? 0 : PrintError(measured.error());
  };
}

}  // namespace fak::cli
