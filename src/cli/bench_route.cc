#include "cli/bench_route.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/strings.h"
#include "cli/number_flag.h"
#include "perf/route_baselines.h"
#include "perf/route_bench.h"

namespace fak::cli {
namespace {

struct RouteFlags {
  std::string trace;
  perf::RouteGrid grid = {perf::PlacerNames(), {8}, {0.8}, {1}};
  std::string sim_file;
  int64_t kv_blocks = 0;  // 0: the file's
  uint64_t seed = 1;
  bool no_kv_events = false;
  bool json = false;
};

std::string Head(const RouteFlags& flags, const perf::RouteTrace& trace,
                 const perf::RouteSim& sim) {
  char text[512];
  std::snprintf(text, sizeof text,
                "%zu requests, %lld prompt tokens, of which %.1f %% could be cached; seed %lld\n"
                "A replica computes %lld prompt tokens a second and has %lld blocks of %lld\n\n",
                trace.requests.size(), static_cast<long long>(trace.prompt_tokens()),
                100.0 - 100.0 * static_cast<double>(trace.new_tokens()) /
                            static_cast<double>(trace.prompt_tokens()),
                static_cast<long long>(flags.seed),
                static_cast<long long>(sim.engine.prefill_tokens_per_s),
                static_cast<long long>(sim.engine.kv_blocks),
                static_cast<long long>(perf::kTraceBlockTokens));
  return flags.trace + ": " + text;
}

// Whether there is a policy of that name.
CLI::Validator Policy() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        const std::vector<std::string> names = perf::PlacerNames();
        const bool known = std::find(names.begin(), names.end(), text) != names.end();
        return known ? "" : "must be one of " + Join(names, ", ") + ", not " + text;
      },
      "");
}

Status BenchRoute(const RouteFlags& flags) {
  perf::RouteSim sim;
  if (!flags.sim_file.empty()) {
    TRY_ASSIGN(const ConfigTable file, ConfigTable::Load(flags.sim_file));
    TRY_ASSIGN(sim, perf::ReadRouteSim(file));
  }
  sim.seed = flags.seed;
  sim.kv_events = sim.kv_events && !flags.no_kv_events;
  sim.engine.kv_blocks = flags.kv_blocks > 0 ? flags.kv_blocks : sim.engine.kv_blocks;
  TRY_ASSIGN(const perf::RouteTrace trace, perf::ReadRouteTrace(flags.trace));
  TRY_ASSIGN(const std::vector<perf::RouteCell> cells, perf::RunGrid(trace, sim, flags.grid));
  const std::string out =
      flags.json ? perf::RouteJson(cells) + "\n" : Head(flags, trace, sim) + perf::RouteText(cells);
  std::fputs(out.c_str(), stdout);
  return {};
}

}  // namespace

std::function<ExitStatus()> AddBenchRoute(CLI::App& bench) {
  CLI::App* verb = bench.add_subcommand(
      "route", "Routing policies side by side on a trace, in a simulated fleet");
  const auto flags = std::make_shared<RouteFlags>();
  verb->add_option("--trace", flags->trace,
                   "Mooncake JSONL (timestamp, input_length, output_length, hash_ids) or Azure CSV "
                   "(TIMESTAMP,ContextTokens,GeneratedTokens)")
      ->required();
  verb->add_option("--policies", flags->grid.policies, "The first is what others are compared with")
      ->check(Policy())
      ->capture_default_str()
      ->delimiter(',')
      ->allow_extra_args(false);
  verb->add_option("--replicas", flags->grid.replicas, "Replicas")
      ->check(WholeWithin({.least = 1, .most = 256}))
      ->capture_default_str()
      ->delimiter(',')
      ->allow_extra_args(false);
  verb->add_option(
          "--load", flags->grid.loads,
          "Prompt tokens to compute if all blocks were one cache, as a share of what can be")
      ->check(Within({.least = 0, .most = 100, .above = true}))
      ->capture_default_str()
      ->delimiter(',')
      ->allow_extra_args(false);
  verb->add_option("--gateways", flags->grid.gateways, "Gateways that share nothing")
      ->check(WholeWithin({.least = 1, .most = 256}))
      ->capture_default_str()
      ->delimiter(',')
      ->allow_extra_args(false);
  verb->add_option("--kv-blocks", flags->kv_blocks, "Blocks of 512 tokens a replica (1000)")
      ->check(WholeWithin({.least = 1, .most = 1e9}));
  verb->add_option("--sim-file", flags->sim_file,
                   "TOML with tables [engine] and [gateway], as tests/sim/fleet.toml");
  verb->add_flag("--no-kv-events", flags->no_kv_events,
                 "Gateways know what they routed, not what replicas store and drop");
  AddSeed(*verb, flags->seed, "Of everything random");
  verb->add_flag("--json", flags->json, "Print JSON, an object a cell and policy");
  verb->footer(
      "Example:\n"
      "  fak bench route --trace tests/sim/traces/mooncake_1000.jsonl --replicas 4,8 --load "
      "0.5,0.8");
  return [flags]() -> ExitStatus {
    const Status measured = BenchRoute(*flags);
    return measured ? 0 : PrintError(measured.error());
  };
}

}  // namespace fak::cli
