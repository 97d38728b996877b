#include "fleet/policy_parts.h"

#include <algorithm>
#include <numeric>

namespace fak::fleet::internal {

uint64_t Draws::Next() {
  return SplitMix64(state_);
}

double Draws::Unit() {
  return static_cast<double>(Next() >> 11) * 0x1p-53;
}

size_t DrawByWeight(std::span<const ReplicaView> replicas, std::span<const size_t> among,
                    Draws& draws) {
  double sum = 0;
  for (const size_t index : among) {
    sum += std::max(0.0, replicas[index].weight);
  }
  if (sum <= 0) {
    return among[draws.Next() % among.size()];
  }
  double left = draws.Unit() * sum;
  size_t last = among.front();
  for (const size_t index : among) {
    const double weight = std::max(0.0, replicas[index].weight);
    if (weight > 0) {
      last = index;
      if (left < weight) {
        break;
      }
      left -= weight;
    }
  }
  return last;
}

std::vector<size_t> AllOf(std::span<const ReplicaView> replicas) {
  std::vector<size_t> all(replicas.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

std::vector<size_t> WithShare(std::span<const ReplicaView> replicas) {
  std::vector<size_t> shared = AllOf(replicas);
  std::erase_if(shared, [&](size_t index) { return !(replicas[index].weight > 0); });
  return shared.empty() ? AllOf(replicas) : shared;
}

int64_t UncachedTokens(const RouteTurn& turn, const ReplicaView& replica) {
  return std::max<int64_t>(0, turn.prompt_tokens - replica.cached_tokens);
}

RouteScore ScoreOf(const ReplicaView& replica, double cost) {
  return {replica.id, cost, replica.backlog_tokens, replica.cached_tokens};
}

}  // namespace fak::fleet::internal
