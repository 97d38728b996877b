#include "cli/bench_doctor.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/thread_pool.h"
#include "cli/interruptible.h"
#include "cli/number_flag.h"
#include "cli/progress.h"
#include "perf/doctor.h"

namespace fak::cli {
namespace {

struct DoctorFlags {
  uint32_t threads = 0;  // 0: all
  bool json = false;
};

Result<bool> BenchDoctor(const DoctorFlags& flags) {
  const Interruptible interruptible;
  const uint32_t threads =
      flags.threads > 0 ? flags.threads : static_cast<uint32_t>(ThreadPool::UsableCpus());
  ProgressBar bar;
  TRY_ASSIGN(const perf::Examination seen, perf::Examine(threads, [&bar](uint32_t part) {
               bar.ShowCount("watching the clock", part, 3);
             }));
  bar.Finish();
  const std::vector<perf::Finding> findings = perf::Judge(seen);
  if (flags.json) {
    std::printf("%s\n", perf::FindingsJson(findings).c_str());
  } else {
    std::fputs(perf::FindingsText(findings).c_str(), stdout);
  }
  return perf::Spoiled(findings);
}

}  // namespace

std::function<ExitStatus()> AddBenchDoctor(CLI::App& bench) {
  CLI::App* verb = bench.add_subcommand("doctor", "What on this machine will spoil a measurement");
  const auto flags = std::make_shared<DoctorFlags>();
  verb->add_option("-t,--threads", flags->threads, "Threads that are watched (default: all)")
      ->check(WholeWithin({.least = 1, .most = limits::kThreadsMax}));
  verb->add_flag("--json", flags->json, "Print JSON");
  verb->footer(
      "Takes two seconds. Exit status 1 when something will make runs differ from each other.\n"
      "Examples:\n"
      "  fak bench doctor\n"
      "  fak bench doctor -t 2 --json && fak bench model smollm2 -t 2");
  return [flags]() -> ExitStatus {
    const Result<bool> spoiled = BenchDoctor(*flags);
    return !spoiled ? PrintError(spoiled.error()) : *spoiled ? kFailed : 0;
  };
}

}  // namespace fak::cli
