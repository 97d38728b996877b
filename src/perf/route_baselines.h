#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "fleet/router.h"
#include "perf/route_trace.h"

// What routing policies are compared by: the policies of production, and published rules, written
// here anew.
namespace fak::perf {

// Chooses for each request of a trace, as one gateway does. Not thread-safe.
class Placer {
 public:
  virtual ~Placer() = default;
  // At least one replica, always the same ones. Returns an index.
  virtual size_t Place(const TraceRequest& request,
                       std::span<const fleet::ReplicaView> replicas) = 0;
};

// The rule of SGLang's router, policy cache_aware, over a history of its own: unless the fleet is
// out of balance (most − fewest requests > balance_abs and most > balance_rel · fewest) the replica
// to which the longest prefix of the prompt went first, if that is more than cache_threshold of it.
// Else the one with fewest requests, of equals the first: so does the router of version 0.3.2
// (tests/sim/beside_sglang_router). Its documents say that what matches nothing goes where the
// least text went before, which `smallest_tree` does; out of balance it stays the fewest requests.
struct SglangRule {
  double cache_threshold = 0.3;
  double balance_abs = 64;
  double balance_rel = 1.5;
  bool smallest_tree = false;

  friend bool operator==(const SglangRule&, const SglangRule&) = default;
};

std::unique_ptr<Placer> MakeSglangPlacer(const SglangRule& rule);

// Names that MakePlacer() takes: those of fleet::RoutingPolicyNames(), then
//   sglang         SglangRule at its defaults
//   sglang_0.5     with a cache_threshold of 0.5
//   sglang_tree    with smallest_tree
//   longest_match  the longest prefix that is cached; of equals the least backlog, then at random
std::vector<std::string> PlacerNames();
// `random` outlives it. kInvalidArgument: none of these.
[[nodiscard]] Result<std::unique_ptr<Placer>> MakePlacer(std::string_view name,
                                                         RandomSource& random);

}  // namespace fak::perf
