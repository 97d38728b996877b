#include <algorithm>
#include <utility>

#include "fleet/dispatcher.h"
#include "kv/unit_keys.h"

// What would become of a request: the routing of production, without its effects.
namespace fak::fleet {
namespace {

std::string NotCandidate(FleetReplica& replica, const Asked& asked, bool alone,
                         const FleetReplica::Seen& seen, Tier tier) {
  if (!alone && !replica.ListsModel(asked.model)) {
    return "doesn't list the model";
  }
  if (!alone && !replica.ServesSurface(asked.surface)) {
    return "doesn't serve this surface";
  }
  if (seen.tier == Tier::kNever) {
    return "draining";
  }
  if (!replica.HasRoom()) {
    return "has as many requests as it may";
  }
  if (seen.tier == Tier::kThird) {
    return replica.WhyWaits();
  }
  return tier == Tier::kNever ? "those that are full go first" : "those that are better go first";
}

}  // namespace

Explanation Dispatcher::Explain(const std::shared_ptr<const driver::Prepared>& prepared) {
  const auto request = std::make_shared<FleetRequest>(*this, prepared, nullptr);
  const std::shared_ptr<const Replicas> replicas = roster_.Now();
  const std::vector<uint32_t> units = UnitsHeld(*replicas, *prepared);
  const std::unique_ptr<RoutingPolicy> policy = policy_->Copy();
  const int64_t now_ns = clock_.NowNs();
  const std::lock_guard placing(placing_);
  const Candidates candidates = FindCandidates(*replicas, *request, now_ns, units);
  const RouteTurn turn{.prompt_tokens = request->prompt_tokens(), .session = request->session()};
  Explanation said;
  said.policy = policy->name();
  said.model = request->model();
  said.prompt_tokens = turn.prompt_tokens;
  for (size_t i = 0; i < replicas->list.size(); ++i) {
    FleetReplica& replica = *replicas->list[i];
    const FleetReplica::Seen seen = replica.Look(now_ns);
    Explanation::Row& row = said.replicas.emplace_back();
    row = {
        .name = replica.name(),
        .state = seen.state,
        .backlog_tokens = seen.backlog_tokens,
        .in_flight = replica.in_flight(),
        .cached_tokens = std::min(int64_t{units[i]} * int64_t{kv::kUnitTokens}, turn.prompt_tokens),
        .weight = replica.weight()};
    const auto its =
        std::find_if(candidates.list.begin(), candidates.list.end(),
                     [&](const Candidate& each) { return each.view.id == replica.id(); });
    if (its == candidates.list.end()) {
      row.why_not = NotCandidate(replica, request->asked(), replicas->list.size() == 1, seen,
                                 candidates.tier);
      continue;
    }
    // What it would cost there, whomever it is compared with.
    row.cost = policy->Copy()->Choose(turn, {&its->view, 1}, random_).compared.front().cost;
  }
  if (candidates.list.empty()) {
    said.why = candidates.any_full ? "all that could answer have as many requests as they may"
                                   : NobodyServes(*replicas, request->asked()).detail;
    return said;
  }
  std::vector<ReplicaView> views;
  for (const Candidate& each : candidates.list) {
    views.push_back(each.view);
  }
  const RouteChoice choice = policy->Choose(turn, views, random_);
  said.chosen = views[choice.index].name;
  said.why = WhyChosen(choice, candidates);
  return said;
}

}  // namespace fak::fleet
