#include "cli/bench_load.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "cli/engine_flags.h"
#include "cli/interruptible.h"
#include "cli/number_flag.h"
#include "cli/progress.h"
#include "engine/native_driver.h"
#include "perf/load_bench.h"
#include "perf/model_bench.h"
#include "tensor/gguf.h"

namespace fak::cli {
namespace {

struct LoadFlags {
  EngineFlags engine;
  uint32_t n_prompt = 16;
  uint32_t repetitions = 5;
  bool once = false;
  bool json = false;
};

uint64_t TensorBytes(const tensor::GgufFile& file) {
  uint64_t bytes = 0;
  for (const tensor::GgufTensor& tensor : file.tensors()) {
    bytes += tensor.bytes;
  }
  return bytes;
}

// What a child does.
Status LoadOnce(const LoadFlags& flags) {
  TRY_ASSIGN(const ResolvedModel model, ResolveModel(flags.engine.model));
  TRY_ASSIGN(engine::LoadedEngine loaded, LoadModel(flags.engine, model));
  perf::LoadMoments moments;
  moments.loaded_ns = Clock::Real().NowNs();
  moments.kv_bytes = loaded.plan.kv;
  moments.isa = loaded.backend->info().isa;
  moments.threads = loaded.backend->info().threads;
  const int32_t vocabulary = loaded.card->tokenizer->vocab_size();
  engine::NativeDriver driver(std::move(loaded), {}, Clock::Real(), RandomSource::Real(), nullptr);
  // Up to the first token and no further.
  TRY(perf::RunOnce(driver, {.n_depth = flags.n_prompt}, vocabulary, 1));
  moments.first_token_ns = Clock::Real().NowNs();
  moments.peak_bytes = perf::PeakBytes();
  TRY_ASSIGN(const auto file, tensor::GgufFile::Open(model.path));
  moments.weight_bytes = TensorBytes(*file);
  std::fputs(moments.Line().c_str(), stdout);
  return {};
}

// This program, with the flags that it was given wherever they came from.
std::vector<std::string> ChildOf(const LoadFlags& flags, const std::string& path) {
  const EngineFlags& engine = flags.engine;
  std::vector<std::string> argv = {"/proc/self/exe",
                                   "bench",
                                   "load",
                                   path,
                                   "--once",
                                   "--device",
                                   engine.device,
                                   "--isa",
                                   engine.isa,
                                   "--threads",
                                   std::to_string(engine.threads),
                                   "--max-model-len",
                                   std::to_string(engine.max_model_len),
                                   "--block-size",
                                   std::to_string(engine.block_size),
                                   "--kv-cache-dtype",
                                   engine.kv_cache_dtype,
                                   "--n-prompt",
                                   std::to_string(flags.n_prompt)};
  if (!engine.kv_cache_memory.empty()) {
    argv.insert(argv.end(), {"--kv-cache-memory", engine.kv_cache_memory});
  }
  return argv;
}

Status BenchLoad(const LoadFlags& flags) {
  const Interruptible interruptible;
#ifndef __linux__
  return Fail(Code::kUnsupported, "fak bench load needs Linux");
#endif
  TRY_ASSIGN(const ResolvedModel model, ResolveModel(flags.engine.model));
  TRY_ASSIGN(const auto file, tensor::GgufFile::Open(model.path));
  perf::LoadReport report{
      .model = model.name, .file_bytes = file->file_bytes(), .n_prompt = flags.n_prompt};
  std::vector<std::string> files;
  for (size_t part = 0; part < file->parts(); ++part) {
    files.push_back(file->part_path(part));
  }
  const std::vector<std::string> argv = ChildOf(flags, model.path);
  ProgressBar bar;
  for (uint32_t run = 0; run < 2 * flags.repetitions; ++run) {
    const bool cold = run % 2 == 0;
    bar.ShowCount(cold ? "loading from the disk" : "loading from the page cache", run,
                  2 * flags.repetitions);
    TRY_ASSIGN(const perf::LoadChild child, perf::RunLoadChild(argv, files, cold));
    (cold ? report.cold : report.warm).push_back(child.run);
    report.last = child.moments;
  }
  bar.Finish();
  const std::string out = flags.json ? perf::LoadJson(report) + "\n" : perf::LoadText(report);
  std::fputs(out.c_str(), stdout);
  return {};
}

}  // namespace

std::function<ExitStatus()> AddBenchLoad(CLI::App& bench) {
  CLI::App* verb = bench.add_subcommand(
      "load", "Time and memory from the start of a process to a model's first token");
  const auto flags = std::make_shared<LoadFlags>();
  flags->engine.max_num_seqs = 1;
  AddModel(*verb, flags->engine.model);
  flags->engine.AddMemory(*verb);
  flags->engine.AddMachine(*verb);
  verb->add_option("-p,--n-prompt", flags->n_prompt, "Prompt tokens before the first token")
      ->check(WholeWithin({.least = 1, .most = limits::kContextMax}))
      ->capture_default_str();
  verb->add_option("-r,--repetitions", flags->repetitions, "Runs from the disk, and as many warm")
      ->check(WholeWithin({.least = 1, .most = 1000}))
      ->capture_default_str();
  verb->add_flag("--once", flags->once,
                 "One run in this process, as it finds the page cache; prints when it was how far "
                 "by the machine's clock");
  verb->add_flag("--json", flags->json, "Print JSON, every run");
  verb->footer(
      "Each run is a process of its own. Before every other one the model's file is dropped from\n"
      "the page cache.\n"
      "Examples:\n"
      "  fak bench load smollm2\n"
      "  fak bench load smollm2 -t 2 -r 10 --json");
  return [flags]() -> ExitStatus {
    const Status measured = flags->once ? LoadOnce(*flags) : BenchLoad(*flags);
    return measured ? 0 : PrintError(measured.error());
  };
}

}  // namespace fak::cli
