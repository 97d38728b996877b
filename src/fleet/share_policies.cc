#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "base/hash.h"
#include "base/limits.h"
#include "fleet/policy_parts.h"

namespace fak::fleet::internal {
namespace {

RouteChoice Chosen(std::span<const ReplicaView> replicas, size_t index, std::string_view why) {
  return {index, replicas.size() == 1 ? kWhyOnlyOne : why, {ScoreOf(replicas[index], 0)}};
}

class Random final : public RoutingPolicy {
 public:
  std::string_view name() const override { return "random"; }
  std::unique_ptr<RoutingPolicy> Copy() const override { return std::make_unique<Random>(); }

  RouteChoice Choose(const RouteTurn&, std::span<const ReplicaView> replicas,
                     RandomSource& random) override {
    Draws draws(random);
    return Chosen(replicas, DrawByWeight(replicas, AllOf(replicas), draws), kWhyRandom);
  }
};

// Smooth weighted round robin, as nginx has it: in each round every candidate is credited with its
// weight, and the one with most credit pays for all. Whatever is missing from a round neither gains
// nor loses by it, so that models which share a policy don't disturb each other.
class RoundRobin final : public RoutingPolicy {
 public:
  std::string_view name() const override { return "round_robin"; }
  std::unique_ptr<RoutingPolicy> Copy() const override {
    auto copy = std::make_unique<RoundRobin>();
    const std::lock_guard lock(mutex_);
    copy->credit_ = credit_;
    return copy;
  }

  RouteChoice Choose(const RouteTurn&, std::span<const ReplicaView> replicas,
                     RandomSource&) override {
    const std::vector<size_t> among = WithShare(replicas);
    const std::lock_guard lock(mutex_);
    if (credit_.size() > 2 * limits::kUpstreamsMax) {
      credit_.clear();  // most are of replicas that have left
    }
    double sum = 0;
    size_t most = among.front();
    for (const size_t index : among) {
      const double weight = replicas[index].weight > 0 ? replicas[index].weight : 1;
      sum += weight;
      credit_[replicas[index].id] += weight;
      if (credit_[replicas[index].id] > credit_[replicas[most].id]) {
        most = index;
      }
    }
    credit_[replicas[most].id] -= sum;
    return Chosen(replicas, most, kWhyNextInTurn);
  }

 private:
  mutable std::mutex mutex_;
  std::map<ReplicaId, double> credit_;  // guarded by mutex_
};

// Weighted rendezvous hashing (Thaler and Ravishankar 1998; weights as by Schindelhauer and
// Schomaker 2005): of a session's numbers, one for each replica's name, the highest decides. When a
// replica goes only its own sessions move, when one comes only those that it takes; and every
// gateway decides alike.
class Session final : public RoutingPolicy {
 public:
  std::string_view name() const override { return "session"; }
  std::unique_ptr<RoutingPolicy> Copy() const override { return std::make_unique<Session>(); }

  RouteChoice Choose(const RouteTurn& turn, std::span<const ReplicaView> replicas,
                     RandomSource& random) override {
    if (turn.session.empty()) {
      return without_session_->Choose(turn, replicas, random);
    }
    const uint64_t session = Xxh3(turn.session);
    const std::vector<size_t> among = WithShare(replicas);
    size_t best = among.front();
    double best_score = -1;
    for (const size_t index : among) {
      const uint64_t hash = Xxh3(replicas[index].name, session);
      const double unit = (static_cast<double>(hash >> 11) + 0.5) * 0x1p-53;  // in (0, 1)
      const double weight = replicas[index].weight > 0 ? replicas[index].weight : 1;
      if (const double score = weight / -std::log(unit); score > best_score) {
        best_score = score;
        best = index;
      }
    }
    return Chosen(replicas, best, kWhySession);
  }

 private:
  const std::unique_ptr<RoutingPolicy> without_session_ = MakeCacheAware();
};

}  // namespace

std::unique_ptr<RoutingPolicy> MakeRoundRobin() {
  return std::make_unique<RoundRobin>();
}
std::unique_ptr<RoutingPolicy> MakeSession() {
  return std::make_unique<Session>();
}
std::unique_ptr<RoutingPolicy> MakeRandom() {
  return std::make_unique<Random>();
}

}  // namespace fak::fleet::internal
