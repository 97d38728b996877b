// What routing promises, on traces of real traffic: docs/routing.md has the whole grid.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/config.h"
#include "base/strings.h"
#include "perf/route_baselines.h"
#include "perf/route_bench.h"
#include "perf/route_sim.h"
#include "perf/route_trace.h"

namespace fak::perf {
namespace {

constexpr const char* kFolder = "tests/sim/";

RouteTrace Trace(const std::string& name) {
  auto trace = ReadRouteTrace(kFolder + ("traces/" + name));
  CHECK(trace.has_value()) << trace.error().detail;
  return *std::move(trace);
}

struct FleetToml {
  RouteSim sim;
  std::vector<size_t> replicas;
  std::vector<double> loads;
};

FleetToml ReadFleetToml() {
  const auto file = ConfigTable::Load(std::string(kFolder) + "fleet.toml");
  CHECK(file.has_value()) << file.error().detail;
  auto sim = ReadRouteSim(*file);
  CHECK(sim.has_value()) << sim.error().detail;
  FleetToml setup{*sim, {}, {}};
  const ConfigTable grid = (*file->Table("grid")).value();
  const auto replicas = grid.Texts("replicas").value();
  for (const std::string& text : replicas.value()) {
    setup.replicas.push_back(*ParseUint(text));
  }
  const auto loads = grid.Texts("loads").value();
  for (const std::string& text : loads.value()) {
    setup.loads.push_back(*ParseFloat(text));
  }
  return setup;
}

// The first requests only, for what needs no whole trace.
RouteTrace Head(RouteTrace trace, size_t requests) {
  trace.requests.resize(std::min(requests, trace.requests.size()));
  return trace;
}

TEST(FleetToml, IsWhatTheProgramDoesByDefault) {
  EXPECT_EQ(ReadFleetToml().sim, RouteSim());
}

TEST(RouteSim, GivesTheSameForASeed) {
  const RouteTrace trace = Head(Trace("mooncake_1000.jsonl"), 150);
  for (const std::string& policy : PlacerNames()) {
    RouteSim sim{.replicas = 5, .gateways = 3};
    const auto once = SimulateRouting(trace, sim, policy);
    const auto again = SimulateRouting(trace, sim, policy);
    ASSERT_TRUE(once && again) << policy;
    EXPECT_EQ(once->digest, again->digest) << policy;
    EXPECT_EQ(once->requests, 150);
    sim.seed = 2;
    EXPECT_NE(once->digest, SimulateRouting(trace, sim, policy)->digest) << policy;
  }
}

TEST(RouteSim, RefusesWhatNeverFits) {
  const RouteTrace trace = Head(Trace("mooncake_1000.jsonl"), 20);
  const auto small = SimulateRouting(trace, {.engine = {.kv_blocks = 2}}, "cache_aware");
  ASSERT_FALSE(small);
  EXPECT_THAT(small.error().detail, ::testing::HasSubstr("blocks, and a replica has 2"));
  EXPECT_FALSE(SimulateRouting(trace, {.replicas = 0}, "cache_aware"));
  EXPECT_FALSE(SimulateRouting(trace, {}, "best"));
}

std::vector<RouteCell> CellsOf(const std::string& trace, const RouteGrid& grid) {
  auto cells = RunGrid(Trace(trace), ReadFleetToml().sim, grid);
  CHECK(cells.has_value()) << cells.error().detail;
  return *std::move(cells);
}

TEST(CacheAware, IsFasterThanSglangsRuleUnderKvPressure) {
  const FleetToml toml = ReadFleetToml();
  for (const char* name : {"mooncake_1000.jsonl", "mooncake_synthetic_1500.jsonl"}) {
    RouteGrid grid{{"cache_aware", "sglang"}, {4, 16}, toml.loads, {1}};
    const auto cells = CellsOf(name, grid);
    const RouteRatio sglang = Ratios(cells).back();
    EXPECT_GE(sglang.mean, 1.2) << name;
    EXPECT_GE(sglang.p99, 1.1) << name;
    for (const RouteCell& cell : cells) {
      const RouteResult& ours = cell.results.front();
      EXPECT_LE(ours.ttft_p99_ms, cell.results.back().ttft_p99_ms)
          << name << ": " << cell.replicas << " at " << cell.load;
    }
  }
}

TEST(CacheAware, IsAsFastAsTheBestWhereNothingIsShared) {
  for (const RouteCell& cell :
       CellsOf("azure_conv_2023_5000.csv", {PlacerNames(), {8, 16}, {0.8}, {1}})) {
    const RouteResult& ours = cell.results.front();
    for (const RouteResult& other : cell.results) {
      EXPECT_LE(ours.ttft_mean_ms, 1.03 * other.ttft_mean_ms)
          << other.policy << ", " << cell.replicas;
    }
  }
}

// Sixteen gateways that share nothing know little more than one in sixteen requests between two
// reports of the replicas. Herding would make that worse than not to look at all; they are still
// better than the choice of one gateway that sees everything and draws two.
TEST(CacheAware, DoesNotHerdWithGatewaysThatShareNothing) {
  for (const char* name : {"mooncake_1000.jsonl", "azure_conv_2023_5000.csv"}) {
    const auto cells = CellsOf(name, {{"cache_aware", "power_of_two"}, {16}, {0.8}, {1, 4, 16}});
    const RouteResult& one = cells.front().results.front();
    const RouteResult& one_of_two = cells.front().results.back();
    for (const RouteCell& cell : cells) {
      const RouteResult& ours = cell.results.front();
      EXPECT_LE(ours.ttft_mean_ms, one_of_two.ttft_mean_ms) << name << ": " << cell.gateways;
      EXPECT_LE(ours.ttft_p99_ms, one_of_two.ttft_p99_ms) << name << ": " << cell.gateways;
      EXPECT_LE(ours.ttft_mean_ms, 2.6 * one.ttft_mean_ms) << name << ": " << cell.gateways;
      EXPECT_LE(ours.ttft_p99_ms, 2.9 * one.ttft_p99_ms) << name << ": " << cell.gateways;
    }
  }
}

}  // namespace
}  // namespace fak::perf
