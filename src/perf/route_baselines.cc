#include "perf/route_baselines.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/strings.h"

namespace fak::perf {
namespace {

constexpr std::string_view kSglang = "sglang";
constexpr std::string_view kSglangHalf = "sglang_0.5";
constexpr std::string_view kSglangTree = "sglang_tree";
constexpr std::string_view kLongestMatch = "longest_match";

class ProductionPlacer final : public Placer {
 public:
  ProductionPlacer(std::unique_ptr<fleet::RoutingPolicy> policy, RandomSource& random)
      : policy_(std::move(policy)), random_(random) {}

  size_t Place(const TraceRequest& request, std::span<const fleet::ReplicaView> replicas) override {
    const std::string session = std::to_string(request.session);
    return policy_
        ->Choose({.prompt_tokens = request.prompt_tokens, .session = session}, replicas, random_)
        .index;
  }

 private:
  const std::unique_ptr<fleet::RoutingPolicy> policy_;
  RandomSource& random_;
};

class SglangPlacer final : public Placer {
 public:
  explicit SglangPlacer(const SglangRule& rule) : rule_(rule) {}

  size_t Place(const TraceRequest& request, std::span<const fleet::ReplicaView> replicas) override {
    sizes_.resize(replicas.size());
    const auto [fewest, most] =
        std::minmax_element(replicas.begin(), replicas.end(),
                            [](const auto& a, const auto& b) { return a.in_flight < b.in_flight; });
    const auto low = static_cast<double>(fewest->in_flight);
    const auto high = static_cast<double>(most->in_flight);
    auto chosen = static_cast<size_t>(fewest - replicas.begin());
    if (high - low <= rule_.balance_abs || high <= rule_.balance_rel * low) {
      const auto [matched, holder] = LongestMatch(request);
      const double least = rule_.cache_threshold * static_cast<double>(request.prompt_tokens);
      if (static_cast<double>(matched) > least) {
        chosen = holder;
      } else if (rule_.smallest_tree) {
        chosen =
            static_cast<size_t>(std::min_element(sizes_.begin(), sizes_.end()) - sizes_.begin());
      }
    }
    Insert(request, chosen);
    return chosen;
  }

 private:
  // Tokens of the longest prefix that went anywhere, and where its end went first.
  std::pair<int64_t, size_t> LongestMatch(const TraceRequest& request) const {
    int64_t tokens = 0;
    size_t holder = 0;
    for (const uint64_t key : request.keys) {
      const auto at = nodes_.find(key);
      if (at == nodes_.end()) {
        break;
      }
      tokens = std::min(tokens + kTraceBlockTokens, request.prompt_tokens);
      holder = at->second.front();
    }
    return {tokens, holder};
  }

  void Insert(const TraceRequest& request, size_t replica) {
    int64_t left = request.prompt_tokens;
    for (const uint64_t key : request.keys) {
      std::vector<size_t>& holders = nodes_[key];
      if (std::find(holders.begin(), holders.end(), replica) == holders.end()) {
        holders.push_back(replica);
        sizes_[replica] += std::min(left, kTraceBlockTokens);
      }
      left -= kTraceBlockTokens;
    }
  }

  const SglangRule rule_;
  std::unordered_map<uint64_t, std::vector<size_t>> nodes_;  // where a prefix went, first one first
  std::vector<int64_t> sizes_;  // tokens of the nodes that a replica holds
};

class LongestMatchPlacer final : public Placer {
 public:
  explicit LongestMatchPlacer(RandomSource& random) : random_(random) {}

  size_t Place(const TraceRequest&, std::span<const fleet::ReplicaView> replicas) override {
    const auto rank = [](const fleet::ReplicaView& replica) {
      return std::tuple(-replica.cached_tokens, replica.backlog_tokens);
    };
    std::vector<size_t> best;
    for (size_t i = 0; i < replicas.size(); ++i) {
      if (!best.empty() && rank(replicas[i]) < rank(replicas[best.front()])) {
        best.clear();
      }
      if (best.empty() || rank(replicas[i]) == rank(replicas[best.front()])) {
        best.push_back(i);
      }
    }
    return best[random_.Next64() % best.size()];
  }

 private:
  RandomSource& random_;
};

}  // namespace

std::unique_ptr<Placer> MakeSglangPlacer(const SglangRule& rule) {
  return std::make_unique<SglangPlacer>(rule);
}

std::vector<std::string> PlacerNames() {
  std::vector<std::string> names = fleet::RoutingPolicyNames();
  for (const std::string_view name : {kSglang, kSglangHalf, kSglangTree, kLongestMatch}) {
    names.emplace_back(name);
  }
  return names;
}

Result<std::unique_ptr<Placer>> MakePlacer(std::string_view name, RandomSource& random) {
  if (name == kSglang) {
    return MakeSglangPlacer({});
  }
  if (name == kSglangHalf) {
    return MakeSglangPlacer({.cache_threshold = 0.5});
  }
  if (name == kSglangTree) {
    return MakeSglangPlacer({.smallest_tree = true});
  }
  if (name == kLongestMatch) {
    return std::make_unique<LongestMatchPlacer>(random);
  }
  auto policy = fleet::MakeRoutingPolicy(name);
  if (!policy) {
    return Fail(Code::kInvalidArgument, "no routing policy " + std::string(name) + ": there are " +
                                            Join(PlacerNames(), ", "));
  }
  return std::make_unique<ProductionPlacer>(*std::move(policy), random);
}

}  // namespace fak::perf
