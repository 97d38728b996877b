#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/config.h"
#include "base/result.h"
#include "perf/route_trace.h"
#include "perf/sim_replica.h"

// A fleet in which only time and engines are made up: gateways with the routing policies and the
// residency index of production place the requests of a trace on simulated replicas. One seed, no
// thread, no clock: the same arguments give the same result.
namespace fak::perf {

struct RouteSim {
  SimEngine engine = {};
  size_t replicas = 8;
  // Time of the trace is stretched until the prompt tokens that would have to be computed if the
  // fleet's blocks were one cache come at this share of the rate at which it computes them. A load
  // below 1 so is one that can be carried; by how much more work a policy causes is its own doing.
  double load = 0.8;

  size_t gateways = 1;  // each gets a random share of the requests and knows only its own
  // Replicas tell every gateway what they store and drop; without, gateways know what they routed.
  bool kv_events = true;
  // How often each gateway hears each replica's own load, give or take up to `report_jitter` of it;
  // 0: never.
  int64_t report_us = 1'000'000;
  double report_jitter = 0.2;
  uint64_t seed = 1;

  friend bool operator==(const RouteSim&, const RouteSim&) = default;
};

// The [engine] and [gateway] tables of a file such as tests/sim/fleet.toml, whose [grid] is for its
// own reader; what it leaves out is as above. kInvalidArgument, with file and line: an unknown key,
// a value out of range.
[[nodiscard]] Result<RouteSim> ReadRouteSim(const ConfigTable& file);

struct RouteResult {
  std::string policy;
  int64_t requests = 0;
  double ttft_mean_ms = 0;
  double ttft_p50_ms = 0;
  double ttft_p99_ms = 0;
  double hit_rate = 0;  // of prompt tokens: those that a replica had cached
  double busy = 0;      // of the replicas' time until the last answer ended
  double spread = 0;    // most computed prompt tokens of a replica ÷ the mean
  double predicted =
      0;                // mean |cached tokens that the gateway expected − that there were| ÷ prompt
  uint64_t digest = 0;  // of every placement and time
};

// kInvalidArgument: no such policy, a request that doesn't fit a replica's blocks, a fleet of none.
[[nodiscard]] Result<RouteResult> SimulateRouting(const RouteTrace& trace, const RouteSim& sim,
                                                  std::string_view policy);

}  // namespace fak::perf
