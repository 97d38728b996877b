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

// A replica's number in this process, from 0 on: never another's.
using ReplicaId = uint32_t;

inline constexpr double kReplicaWeightMax = 1e6;

// What routing knows of a request.
struct RouteTurn {
  int64_t prompt_tokens = 0;      // counted, or estimated from the text
  std::string_view session = {};  // what keeps a client's requests together; empty: nothing
};

// A replica that could take the request, as it is now.
struct ReplicaView {
  ReplicaId id = 0;
  std::string_view name = {};
  int64_t backlog_tokens = 0;  // uncached prompt tokens placed there and not yet prefilled
  int64_t in_flight = 0;       // requests
  int64_t cached_tokens = 0;   // of this prompt, from its start, as the residency index has it
  double weight = 1;           // its share of what is spread; 0: nothing, unless all have 0
};

inline constexpr std::string_view kDefaultRoutingPolicy = "cache_aware";

// Why a replica was chosen.
inline constexpr std::string_view kWhyOnlyOne = "only candidate";
inline constexpr std::string_view kWhyLongestPrefix = "longest prefix";
inline constexpr std::string_view kWhyLeastWork = "least work";
inline constexpr std::string_view kWhyFewestRequests = "fewest requests";
inline constexpr std::string_view kWhyLeastBacklog = "least backlog";  // the rest being equal
inline constexpr std::string_view kWhyNextInTurn = "next in turn";
inline constexpr std::string_view kWhySession = "session";
inline constexpr std::string_view kWhyRandom = "random";

// How one replica came out: for logs and `fak fleet explain`.
struct RouteScore {
  ReplicaId id = 0;
  double cost = 0;  // in the policy's own unit; less is better
  int64_t backlog_tokens = 0;
  int64_t cached_tokens = 0;
};

struct RouteChoice {
  size_t index = 0;                  // in `replicas`
  std::string_view why;              // one of the constants above
  std::vector<RouteScore> compared;  // what the choice was among
};

class RoutingPolicy {
 public:
  virtual ~RoutingPolicy() = default;
  virtual std::string_view name() const = 0;
  // With a state of its own, which begins as this one's is now: for trying what it would choose.
  virtual std::unique_ptr<RoutingPolicy> Copy() const = 0;
  // At least one replica, each that may take the request. Any thread.
  virtual RouteChoice Choose(const RouteTurn& turn, std::span<const ReplicaView> replicas,
                             RandomSource& random) = 0;
};

//   cache_aware   of two drawn at random by weight and the best prefix match (the longest cached;
//                 of equals the least backlog, then at random) the one with the least backlog and
//                 uncached prompt tokens; of equals the least backlog, then at random
//   power_of_two  of two drawn at random by weight the one with fewer requests, then less backlog
//   least_loaded  the fewest requests for its weight, then the least backlog, then at random
//   round_robin   in turn, smoothly by weight
//   session       by rendezvous hashing of the session and the replicas' names, by weight; a
//                 replica that comes or goes moves only its own sessions. Without a session:
//                 cache_aware
//   random        by weight
// The default first.
std::vector<std::string> RoutingPolicyNames();
// kInvalidArgument: none of these.
[[nodiscard]] Result<std::unique_ptr<RoutingPolicy>> MakeRoutingPolicy(std::string_view name);

}  // namespace fak::fleet
