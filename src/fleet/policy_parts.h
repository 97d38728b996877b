#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fleet/router.h"

// What routing policies are made of. For the policies' own files only; any thread, but for Draws.
namespace fak::fleet::internal {

// The random numbers of one decision: splitmix64 from one draw of the source. Not thread-safe.
class Draws {
 public:
  explicit Draws(RandomSource& random) : state_(random.Next64()) {}
  uint64_t Next();
  double Unit();  // in [0, 1)

 private:
  uint64_t state_;
};

// One of `among` (indices into `replicas`, at least one), each as often as its weight says; of a
// weight of zero or less never, unless all are.
size_t DrawByWeight(std::span<const ReplicaView> replicas, std::span<const size_t> among,
                    Draws& draws);

// Every index of `replicas`.
std::vector<size_t> AllOf(std::span<const ReplicaView> replicas);

// Those with a weight above zero; all, if there is none.
std::vector<size_t> WithShare(std::span<const ReplicaView> replicas);

// Of the prompt, what the replica would have to compute; at least 0.
int64_t UncachedTokens(const RouteTurn& turn, const ReplicaView& replica);

RouteScore ScoreOf(const ReplicaView& replica, double cost);

// load_policies.cc: they choose by what replicas have to do.
std::unique_ptr<RoutingPolicy> MakeCacheAware();
std::unique_ptr<RoutingPolicy> MakePowerOfTwo();
std::unique_ptr<RoutingPolicy> MakeLeastLoaded();

// share_policies.cc: they spread by weights, whatever the load.
std::unique_ptr<RoutingPolicy> MakeRoundRobin();
std::unique_ptr<RoutingPolicy> MakeSession();
std::unique_ptr<RoutingPolicy> MakeRandom();

}  // namespace fak::fleet::internal
