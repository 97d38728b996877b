#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/result.h"

// The one decision of the fleet: which replica gets a request. What a policy knows stands in its
// arguments, so that the fleet, the simulation and `fak fleet explain` decide alike.
namespace fak::fleet {

// A replica's number in this process: small, dense, and not another's while anything of its first
// owner is remembered.
using ReplicaId = uint32_t;

// What routing knows of a request.
struct RouteTurn {
  int64_t prompt_tokens = 0;           // counted, or estimated from the text
  int64_t expected_output_tokens = 0;  // from history; 0: not known
  std::string_view session;            // what keeps a client's requests together; empty: nothing
};

// A replica that could take the request, as it is now.
struct ReplicaView {
  ReplicaId id = 0;
  std::string_view name;
  int64_t backlog_tokens = 0;  // uncached prompt tokens placed there and not yet prefilled
  int64_t in_flight = 0;       // requests
  int64_t cached_tokens = 0;   // of this prompt, from its start, as the residency index has it
  double weight = 1;           // its share, where a policy spreads by shares
};

// How one replica came out: for logs and `fak fleet explain`.
struct RouteScore {
  ReplicaId id = 0;
  double cost = 0;  // in the policy's own unit; less is better
  int64_t backlog_tokens = 0;
  int64_t cached_tokens = 0;
};

struct RouteChoice {
  size_t index = 0;                  // in `replicas`
  std::string_view why;              // a constant: "longest prefix", "least backlog", "random" ...
  std::vector<RouteScore> compared;  // what the choice was among
};

class RoutingPolicy {
 public:
  virtual ~RoutingPolicy() = default;
  virtual std::string_view name() const = 0;
  // At least one replica, each that may take the request. Any thread.
  virtual RouteChoice Choose(const RouteTurn& turn, std::span<const ReplicaView> replicas,
                             RandomSource& random) = 0;
};

// "cache_aware", "power_of_two", "least_loaded", "round_robin", "session", "random".
std::vector<std::string> RoutingPolicyNames();
// kInvalidArgument: none of these.
[[nodiscard]] Result<std::unique_ptr<RoutingPolicy>> MakeRoutingPolicy(std::string_view name);

}  // namespace fak::fleet
