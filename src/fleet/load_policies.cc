#include <algorithm>
#include <tuple>

#include "fleet/policy_parts.h"

namespace fak::fleet::internal {
namespace {

// Of `among`, those for which `key` is least.
template <class Key>
std::vector<size_t> Least(std::span<const size_t> among, Key key) {
  std::vector<size_t> least;
  for (const size_t index : among) {
    if (!least.empty() && key(index) < key(least.front())) {
      least.clear();
    }
    if (least.empty() || !(key(least.front()) < key(index))) {
      least.push_back(index);
    }
  }
  return least;
}

// Two different ones, or the only one.
std::vector<size_t> DrawTwo(std::span<const ReplicaView> replicas, std::vector<size_t> among,
                            Draws& draws) {
  std::vector<size_t> drawn = {DrawByWeight(replicas, among, draws)};
  std::erase(among, drawn.front());
  if (!among.empty()) {
    drawn.push_back(DrawByWeight(replicas, among, draws));
  }
  return drawn;
}

// Of `candidates` the one whose cost is least, then whose backlog is, then whichever. `why` of the
// choice is for a cost that decided.
template <class Cost>
RouteChoice ChooseLeast(std::span<const ReplicaView> replicas, std::span<const size_t> candidates,
                        std::string_view why, Draws& draws, Cost cost) {
  RouteChoice choice;
  for (const size_t index : candidates) {
    choice.compared.push_back(ScoreOf(replicas[index], static_cast<double>(cost(index))));
  }
  const std::vector<size_t> cheapest = Least(candidates, cost);
  const std::vector<size_t> best =
      Least(cheapest, [&](size_t index) { return replicas[index].backlog_tokens; });
  choice.index = best.size() == 1 ? best.front() : DrawByWeight(replicas, best, draws);
  if (candidates.size() == 1) {
    choice.why = kWhyOnlyOne;
  } else if (cheapest.size() == 1) {
    choice.why = why;
  } else {
    choice.why = best.size() == 1 ? kWhyLeastBacklog : kWhyRandom;
  }
  return choice;
}

// Two choices at random (Mitzenmacher, "The power of two choices in randomized load balancing",
// 2001), so that gateways that know nothing of each other don't all run to one replica, and beside
// them the one place where the least of the prompt is computed again.
class CacheAware final : public RoutingPolicy {
 public:
  std::string_view name() const override { return kDefaultRoutingPolicy; }
  std::unique_ptr<RoutingPolicy> Copy() const override { return std::make_unique<CacheAware>(); }

  RouteChoice Choose(const RouteTurn& turn, std::span<const ReplicaView> replicas,
                     RandomSource& random) override {
    Draws draws(random);
    const std::vector<size_t> shared = WithShare(replicas);
    const size_t match = BestMatch(replicas, shared, draws);
    std::vector<size_t> candidates = DrawTwo(replicas, shared, draws);
    if (std::find(candidates.begin(), candidates.end(), match) == candidates.end()) {
      candidates.push_back(match);
    }
    RouteChoice choice = ChooseLeast(replicas, candidates, kWhyLeastWork, draws, [&](size_t index) {
      return replicas[index].backlog_tokens + UncachedTokens(turn, replicas[index]);
    });
    if (choice.why == kWhyLeastWork && choice.index == match && replicas[match].cached_tokens > 0) {
      choice.why = kWhyLongestPrefix;
    }
    return choice;
  }

 private:
  static size_t BestMatch(std::span<const ReplicaView> replicas, std::span<const size_t> among,
                          Draws& draws) {
    const std::vector<size_t> best = Least(among, [&](size_t index) {
      return std::tuple(-replicas[index].cached_tokens, replicas[index].backlog_tokens);
    });
    return best.size() == 1 ? best.front() : DrawByWeight(replicas, best, draws);
  }
};

class PowerOfTwo final : public RoutingPolicy {
 public:
  std::string_view name() const override { return "power_of_two"; }
  std::unique_ptr<RoutingPolicy> Copy() const override { return std::make_unique<PowerOfTwo>(); }

  RouteChoice Choose(const RouteTurn&, std::span<const ReplicaView> replicas,
                     RandomSource& random) override {
    Draws draws(random);
    const std::vector<size_t> two = DrawTwo(replicas, WithShare(replicas), draws);
    return ChooseLeast(replicas, two, kWhyFewestRequests, draws,
                       [&](size_t index) { return replicas[index].in_flight; });
  }
};

class LeastLoaded final : public RoutingPolicy {
 public:
  std::string_view name() const override { return "least_loaded"; }
  std::unique_ptr<RoutingPolicy> Copy() const override { return std::make_unique<LeastLoaded>(); }

  RouteChoice Choose(const RouteTurn&, std::span<const ReplicaView> replicas,
                     RandomSource& random) override {
    Draws draws(random);
    return ChooseLeast(replicas, WithShare(replicas), kWhyFewestRequests, draws, [&](size_t index) {
      const ReplicaView& replica = replicas[index];
      const double weight = replica.weight > 0 ? replica.weight : 1;
      return static_cast<double>(replica.in_flight) / weight;
    });
  }
};

}  // namespace

std::unique_ptr<RoutingPolicy> MakeCacheAware() {
  return std::make_unique<CacheAware>();
}
std::unique_ptr<RoutingPolicy> MakePowerOfTwo() {
  return std::make_unique<PowerOfTwo>();
}
std::unique_ptr<RoutingPolicy> MakeLeastLoaded() {
  return std::make_unique<LeastLoaded>();
}

}  // namespace fak::fleet::internal
