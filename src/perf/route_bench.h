#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "perf/route_sim.h"
#include "perf/route_trace.h"

// Routing policies side by side on one trace: which is faster where, and where ours isn't.
namespace fak::perf {

// One fleet and one load, and what each policy made of them, in the order of the policies.
struct RouteCell {
  size_t replicas = 0;
  double load = 0;
  size_t gateways = 1;
  std::vector<RouteResult> results;

  const RouteResult* maybe_of(std::string_view policy) const;
};

struct RouteGrid {
  std::vector<std::string> policies;  // the first is "ours": what the others are compared with
  std::vector<size_t> replicas;
  std::vector<double> loads;
  std::vector<size_t> gateways;
};

// Every combination, replicas outermost. Errors are SimulateRouting()'s.
[[nodiscard]] Result<std::vector<RouteCell>> RunGrid(const RouteTrace& trace, const RouteSim& sim,
                                                     const RouteGrid& grid);

// How many times as long as ours a policy takes, over all cells: geometric means.
struct RouteRatio {
  std::string policy;
  double mean = 1;    // of mean times to the first token
  double p99 = 1;     // of their 99th percentiles
  size_t faster = 0;  // cells in which it beats ours, by mean or by p99
};
std::vector<RouteRatio> Ratios(std::span<const RouteCell> cells);

// Two tables, mean and 99th percentile of the time to the first token, one row a cell, and bars of
// the geometric means. What beats ours in a cell has a mark.
std::string RouteText(std::span<const RouteCell> cells);
// [{"replicas":4,"load":0.5,"gateways":1,"policy":"cache_aware","ttft_mean_ms":...},...]
std::string RouteJson(std::span<const RouteCell> cells);

}  // namespace fak::perf
