#include "fleet/dispatcher.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "fleet/drained.h"
#include "kv/unit_keys.h"

namespace fak::fleet {

Dispatcher::Dispatcher(std::unique_ptr<RoutingPolicy> policy, DispatchOptions options,
                       const Clock& clock, RandomSource& random)
    : index_(options.residency_pairs_max, random),
      policy_(std::move(policy)),
      options_(options),
      clock_(clock),
      random_(random),
      queue_(options.queue_max),
      budget_(options.retries) {}

std::shared_ptr<FleetReplica> Dispatcher::MakeReplica(ReplicaOptions options,
                                                      std::unique_ptr<driver::EngineDriver> driver,
                                                      const ReplicaHealth::Options& health) {
  auto replica = std::make_shared<FleetReplica>(ids_.fetch_add(1), std::move(options),
                                                std::move(driver), health);
  replica->HearKvEvents(index_);
  return replica;
}

Status Dispatcher::Admit(std::shared_ptr<const driver::Prepared> prepared,
                         std::shared_ptr<driver::EventSink> sink) {
  if (options_.resume_streams && has_choice() && MayBeResumed(*prepared)) {
    auto for_resumption = std::make_shared<driver::Prepared>(*prepared);
    for_resumption->for_resumption = true;
    prepared = std::move(for_resumption);
  }
  const auto request = std::make_shared<FleetRequest>(*this, std::move(prepared), std::move(sink));
  {
    const std::lock_guard lock(mutex_);
    if (draining_ || stopping_.load()) {
      return Fail(Code::kUnavailable, "the server is shutting down");
    }
    const std::string& id = request->id();
    if (!open_.emplace(id, Open{request, std::nullopt}).second) {
      return Fail(Code::kAlreadyExists, "request id " + id + " is in use already");
    }
    budget_.Deposit(clock_.NowNs());
  }
  // What can begin overtakes nobody: those who wait, wait for others' room.
  const Status placed = Place(*request, std::nullopt);
  if (!placed) {
    Ended(*request, {-1, -1});
  }
  return placed;
}

Status Dispatcher::Place(FleetRequest& request, std::optional<Error> maybe_before,
                         std::optional<AdmissionQueue::Id> maybe_popped) {
  for (;;) {
    Result<Chosen> chosen = Choose(request);
    if (!chosen) {
      const bool full = chosen.error().code == Code::kResourceExhausted;
      if (full && !request.cancelled() && !request.only_well()) {
        request.NoteError(maybe_before);
        Status waits = Enqueue(request.shared_from_this(), maybe_popped);
        return waits || !maybe_before ? waits : Status(Fail(*std::move(maybe_before)));
      }
      return Fail(maybe_before
                      ? WithDrained(*std::move(maybe_before), *roster_.Now(), request.asked())
                      : std::move(chosen).error());
    }
    FleetReplica& replica = *chosen->attempt->replica();
    TRY(request.GoTo(chosen->attempt->replica()));
    request.sink().OnPlaced({.worker = replica.name(),
                             .why = chosen->why,
                             .attempt = request.attempts(),
                             .resumed = request.resumed()});
    Status admitted = replica.driver().Admit(request.prepared(), chosen->attempt);
    if (admitted) {
      request.SetTaken(chosen->attempt);
      if (request.cancelled()) {
        replica.driver().Cancel(request.id());
      }
      return {};
    }
    const FailureReading reading = chosen->attempt->Refused(admitted.error());
    if (!reading.curable) {
      return admitted;
    }
    if (request.attempts() >= options_.attempts_max) {
      return Fail(WithDrained(std::move(admitted).error(), *roster_.Now(), request.asked()));
    }
    maybe_before = std::move(admitted).error();
  }
}

void Dispatcher::Cancel(std::string_view request_id) {
  std::shared_ptr<FleetRequest> request;
  {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(std::string(request_id));
    if (found == open_.end()) {
      return;
    }
    request = found->second.request;
  }
  request->Cancel();  // from here on Enqueue() refuses it
  std::vector<std::shared_ptr<FleetRequest>> waited;
  {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(std::string(request_id));
    if (found != open_.end() && found->second.request == request && found->second.maybe_waits) {
      const AdmissionQueue::Id waits = *found->second.maybe_waits;
      queue_.Remove(waits);
      waited = TakeWaiting({&waits, 1});
    }
  }
  if (!waited.empty()) {
    request->Fail({Code::kCancelled, "cancelled"}, std::nullopt);
  }
}

std::vector<uint32_t> Dispatcher::UnitsHeld(const Replicas& replicas,
                                            const driver::Prepared& prepared) const {
  std::vector<uint32_t> units(replicas.list.size());
  if (units.size() <= 1) {
    return units;
  }
  for (const driver::PreparedPrompt& prompt : prepared.prompts) {
    const std::vector<uint32_t> held = index_.Match(prompt.unit_keys, replicas.ids);
    for (size_t i = 0; i < held.size(); ++i) {
      units[i] += held[i];
    }
  }
  return units;
}

Dispatcher::Candidates Dispatcher::FindCandidates(const Replicas& replicas,
                                                  const FleetRequest& request, int64_t now_ns,
                                                  const std::vector<uint32_t>& units) {
  Candidates found;
  bool any_full = false;
  for (size_t i = 0; i < replicas.list.size(); ++i) {
    const std::shared_ptr<FleetReplica>& replica = replicas.list[i];
    if (!Serves(replicas, *replica, request.asked()) || !request.MayGoTo(*replica)) {
      continue;
    }
    const FleetReplica::Seen seen = replica->Look(now_ns);
    if (seen.tier == Tier::kNever) {
      continue;
    }
    if (!replica->HasRoom()) {
      any_full = any_full || seen.tier < Tier::kLast;
      continue;
    }
    if (seen.tier < found.tier) {
      found.tier = seen.tier;
      found.list.clear();
    }
    if (seen.tier == found.tier) {
      const int64_t cached = int64_t{units[i]} * int64_t{kv::kUnitTokens};
      found.list.push_back({replica,
                            {.id = replica->id(),
                             .name = replica->name(),
                             .backlog_tokens = seen.backlog_tokens,
                             .in_flight = replica->in_flight(),
                             .cached_tokens = std::min(cached, request.prompt_tokens()),
                             .weight = replica->weight()}});
    }
  }
  // Who works will have room, and who is down won't answer.
  if ((any_full && found.tier == Tier::kLast) ||
      (request.only_well() && found.tier > Tier::kSecond)) {
    found.list.clear();
  }
  found.any_full = any_full;
  return found;
}

Result<Dispatcher::Chosen> Dispatcher::Choose(FleetRequest& request) {
  const std::shared_ptr<const driver::Prepared> prepared = request.prepared();
  const std::shared_ptr<const Replicas> replicas = roster_.Now();
  const std::vector<uint32_t> units = UnitsHeld(*replicas, *prepared);
  Chosen chosen;
  {
    const std::lock_guard placing(placing_);
    const int64_t now_ns = clock_.NowNs();
    const Candidates candidates = FindCandidates(*replicas, request, now_ns, units);
    if (candidates.list.empty()) {
      return Fail(candidates.any_full
                      ? Error{Code::kResourceExhausted,
                              "every upstream that could answer has as many requests as it may", "",
                              0, 1}
                      : NobodyServes(*replicas, request.asked()));
    }
    const RouteTurn turn{.prompt_tokens = request.prompt_tokens(), .session = request.session()};
    std::vector<ReplicaView> views;
    views.reserve(candidates.list.size());
    for (const Candidate& each : candidates.list) {
      views.push_back(each.view);
    }
    const RouteChoice choice = policy_->Choose(turn, views, random_);
    const Candidate& won = candidates.list[choice.index];
    chosen.why = WhyChosen(choice, candidates);
    chosen.attempt = std::make_shared<Attempt>(request.shared_from_this(), *this, won.replica,
                                               now_ns, won.view.cached_tokens);
  }
  if (replicas->list.size() > 1) {
    for (const driver::PreparedPrompt& prompt : prepared->prompts) {
      index_.Add(chosen.attempt->replica()->id(), prompt.unit_keys);
    }
  }
  return chosen;
}

std::string Dispatcher::WhyChosen(const RouteChoice& choice, const Candidates& candidates) {
  constexpr size_t kShown = 4;
  std::string why(choice.why);
  if (candidates.list.size() > 1) {
    for (size_t i = 0; i < std::min(choice.compared.size(), kShown); ++i) {
      const RouteScore& score = choice.compared[i];
      const auto its = std::find_if(candidates.list.begin(), candidates.list.end(),
                                    [&](const auto& each) { return each.view.id == score.id; });
      why += fmt::format("{}{} {:.6g} (backlog {}, cached {})", i == 0 ? ": " : ", ",
                         its->view.name, score.cost, score.backlog_tokens, score.cached_tokens);
    }
  }
  switch (candidates.tier) {
    case Tier::kSecond: return why + "; nobody is healthy, these are suspect";
    case Tier::kThird: return why + "; nobody is left who isn't passed over for a while";
    case Tier::kLast: return why + "; nobody is healthy or suspect";
    case Tier::kFirst:
    case Tier::kNever: break;
  }
  return why;
}

Error Dispatcher::NobodyServes(const Replicas& replicas, const Asked& asked) {
  constexpr int kAgainS = 1;
  if (replicas.list.empty()) {
    return {Code::kUnavailable, "there is no upstream at present", "", 0, kAgainS};
  }
  bool any_lists = false;
  bool any_serves = false;
  bool any_unknown = false;
  std::vector<std::string> models;
  std::vector<std::string> why_not;
  for (const auto& replica : replicas.list) {
    const std::vector<std::string> its = replica->models();
    any_unknown = any_unknown || its.empty();
    any_lists = any_lists || replica->ListsModel(asked.model);
    any_serves = any_serves || Serves(replicas, *replica, asked);
    std::copy_if(its.begin(), its.end(), std::back_inserter(models), [&](const auto& model) {
      return std::find(models.begin(), models.end(), model) == models.end();
    });
    if (const std::string why = replica->driver().Load().why_not; !why.empty()) {
      why_not.push_back(why);
    }
  }
  if (any_serves) {
    const std::string drained = DrainedInWords(replicas, asked);  // empty: no more
    return {Code::kUnavailable,
            "every upstream that could answer is being drained" +
                (drained.empty() ? "" : ": " + drained),
            "", 0, kAgainS};
  }
  if (any_lists) {
    return {Code::kUnsupported,
            "no upstream with the model \"" + asked.model + "\" serves this surface", "model"};
  }
  if (any_unknown) {
    return {Code::kUnavailable,
            "no upstream that is up lists the model \"" + asked.model +
                "\", and not all are: " + Join(why_not, "; "),
            "", 0, kAgainS};
  }
  return {Code::kNotFound,
          "the model \"" + asked.model + "\" does not exist here; served: " + Join(models, ", "),
          "model"};
}

bool Dispatcher::HasElsewhere(const FleetRequest& request, Tier worst) const {
  const int64_t now_ns = clock_.NowNs();
  const std::shared_ptr<const Replicas> replicas = roster_.Now();
  return std::any_of(replicas->list.begin(), replicas->list.end(), [&](const auto& replica) {
    return Serves(*replicas, *replica, request.asked()) && request.MayGoTo(*replica) &&
           replica->Look(now_ns).tier <= worst;
  });
}

bool Dispatcher::MayTryAgain(const FleetRequest& request, Tier worst) const {
  return !stopping_.load() && !request.cancelled() && request.attempts() < options_.attempts_max &&
         HasElsewhere(request, worst);
}

// Not to those who asked to be left alone.
bool Dispatcher::MayTryElsewhere(const FleetRequest& request) {
  if (!MayTryAgain(request, Tier::kSecond)) {
    return false;
  }
  const std::lock_guard lock(mutex_);
  const bool may = budget_.TryWithdraw(clock_.NowNs());
  ++(may ? retries_ : retries_denied_);
  return may;
}

bool Dispatcher::MayLeave(const FleetRequest& request) const {
  return MayTryAgain(request, Tier::kThird);
}

bool Dispatcher::IsAtItsLast(const FleetRequest& request) const {
  return request.attempts() > 1 && !stopping_.load() && !request.cancelled() &&
         (request.attempts() >= options_.attempts_max || !HasElsewhere(request, Tier::kLast));
}

void Dispatcher::ForgetCacheOf(const FleetReplica& replica) {
  if (ResidencyFeed* feed = replica.maybe_feed()) {
    feed->Clear();
  }
}

void Dispatcher::OnNothingComputed(const FleetReplica& replica, const FleetRequest& request,
                                   int64_t cached_tokens) {
  const std::vector<std::vector<uint64_t>> prompts = request.UnitKeys();
  if (!has_choice() || prompts.size() != 1) {
    return;  // of several prompts the tokens are told together
  }
  const auto held = static_cast<size_t>(cached_tokens) / kv::kUnitTokens;
  const std::span<const uint64_t> keys = prompts.front();
  index_.DropUnconfirmed(replica.id(), keys.subspan(std::min(held, keys.size())));
}

void Dispatcher::OnLeft(const FleetReplica& replica, const FleetRequest& request,
                        int64_t cached_tokens, const wire::Usage& usage) {
  if (!has_choice()) {
    return;
  }
  const std::vector<std::vector<uint64_t>> prompts = request.UnitKeys();
  // Usage is of all prompts together.
  const bool one = prompts.size() == 1;
  for (const std::vector<uint64_t>& keys : prompts) {
    replica.maybe_feed()->OnEnded(keys, one ? std::max(0, usage.cached_tokens) : 0);
  }
  if (usage.cached_tokens >= 0) {
    tally_.Count(usage.prompt_tokens, cached_tokens, usage.cached_tokens);
  }
}

void Dispatcher::Ended(const FleetRequest& request, const wire::Usage& usage) {
  constexpr double kKept = 0.95;        // of what was before: about the last 20 requests
  constexpr double kOutlier = 4;        // times what is usual
  constexpr double kUsualTokens = 256;  // of an answer, before any is known
  std::vector<std::function<void()>> idle;
  std::shared_ptr<FleetRequest> kept;  // until the lock is given back
  {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(request.id());
    if (found != open_.end() && found->second.request.get() == &request) {
      kept = std::move(found->second.request);
      open_.erase(found);
    }
    if (request.attempts() > 0) {
      queue_.NoteEnd(clock_.NowNs());
    }
    if (usage.completion_tokens > 0) {
      // One that is far out, or lies, moves it little.
      const double most = kOutlier * std::max(output_tokens_, kUsualTokens);
      const double tokens = std::min<double>(usage.completion_tokens, most);
      output_tokens_ = output_tokens_ == 0 ? tokens : output_tokens_ * kKept + tokens * (1 - kKept);
    }
    if (open_.empty()) {
      idle.swap(idle_);
    }
  }
  for (const std::function<void()>& done : idle) {
    done();
  }
  Pump();
}

void Dispatcher::Drain(std::function<void()> done) {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    if (!open_.empty()) {
      idle_.push_back(std::move(done));
      return;
    }
  }
  done();
}

Status Dispatcher::SetDraining(std::string_view name, bool draining) {
  const std::shared_ptr<const Replicas> replicas = roster_.Now();
  const std::shared_ptr<FleetReplica> replica = replicas->Find(name);
  if (replica == nullptr) {
    return Fail(
        Code::kNotFound,
        "no upstream has the name " + std::string(name) + "; there are: " + NamesInWords(*replicas),
        "name");
  }
  replica->SetDraining(draining);
  return {};
}

void Dispatcher::Tick() {
  const int64_t now_ns = clock_.NowNs();
  const std::shared_ptr<const Replicas> replicas = roster_.Now();
  for (const auto& replica : replicas->list) {
    const auto change = replica->TakeChange(now_ns);
    if (rests_.load()) {
      return;
    }
    if (change) {
      const bool well = change->now == ReplicaState::kHealthy;
      Log(well ? LogLevel::kInfo : LogLevel::kWarning, "upstream {}: {}, was {}{}{}",
          replica->name(), ReplicaStateName(change->now), ReplicaStateName(change->before),
          change->why.empty() ? "" : ": ", change->why);
      if (change->gone) {
        ForgetCacheOf(*replica);  // what comes back may have begun anew
      }
    }
  }
  for (const auto& replica : roster_.Leaving()) {
    replica->Look(now_ns);
  }
  NotePanic(now_ns);
  EjectSlow(now_ns);
  ProbeSilent(now_ns);
  LeaveGone(now_ns);
  EndOverdue(now_ns);
  TakeApartGone();
  Pump();
}

// Whoever chose one just before it left may have noted its prompt in the index meanwhile.
void Dispatcher::TakeApartGone() {
  for (std::shared_ptr<FleetReplica>& replica : roster_.TakeGone()) {
    const std::string name = replica->name();
    replica->driver().Stop();  // it tells of its cache no more
    ForgetCacheOf(*replica);
    replica.reset();
    Log(LogLevel::kInfo, "upstream {} has left", name);
  }
}

void Dispatcher::LeaveGone(int64_t now_ns) {
  const auto is_gone = [now_ns](const auto& replica) { return replica->IsGone(now_ns); };
  const std::shared_ptr<const Replicas> replicas = roster_.Now();
  const std::vector<std::shared_ptr<FleetReplica>> leaving = roster_.Leaving();
  if (std::none_of(replicas->list.begin(), replicas->list.end(), is_gone) &&
      std::none_of(leaving.begin(), leaving.end(), is_gone)) {
    return;
  }
  std::vector<std::shared_ptr<FleetRequest>> open;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, each] : open_) {
      open.push_back(each.request);
    }
  }
  for (const std::shared_ptr<FleetRequest>& request : open) {
    request->LeaveIfGone(now_ns);
  }
}

void Dispatcher::ProbeSilent(int64_t now_ns) {
  const std::shared_ptr<const Replicas> replicas = roster_.Now();
  for (const auto& replica : replicas->list) {
    driver::GenerationProbe* probe = replica->driver().maybe_generation_probe();
    if (probe == nullptr) {
      continue;
    }
    const auto begun = replica->BeginGeneration(now_ns, probe->generation_probing());
    if (begun) {
      // A replica that has left meanwhile needs no answer.
      probe->ProbeGeneration(begun->extra_ms, [weak = std::weak_ptr(replica), &clock = clock_,
                                               ticket = begun->ticket](const Status& answered) {
        if (const auto asked = weak.lock()) {
          asked->EndGeneration(ticket, clock.NowNs(), answered);
        }
      });
    }
  }
}

bool Dispatcher::InPanic(int64_t now_ns) const {
  bool any_down = false;
  const std::shared_ptr<const Replicas> replicas = roster_.Now();
  for (const auto& replica : replicas->list) {
    const FleetReplica::Seen seen = replica->Look(now_ns);
    if (seen.tier < Tier::kLast) {
      return false;
    }
    any_down = any_down || seen.state == ReplicaState::kDown;
  }
  return any_down;
}

void Dispatcher::NotePanic(int64_t now_ns) {
  const bool panic = InPanic(now_ns);
  if (rests_.load() || std::exchange(panicked_, panic) == panic || !has_choice()) {
    return;
  }
  if (panic) {
    Log(LogLevel::kWarning,
        "no upstream is healthy or suspect: requests go to all that aren't drained");
  } else {
    Log(LogLevel::kInfo, "not all upstreams are out any more");
  }
}

void Dispatcher::EjectSlow(int64_t now_ns) {
  constexpr int64_t kEveryMs = 1'000;
  if (now_ns - looked_for_slow_ns_ < kEveryMs * kNsPerMs) {
    return;
  }
  looked_for_slow_ns_ = now_ns;
  std::map<std::vector<std::string>, std::vector<size_t>> fellows;  // by what they serve
  const std::shared_ptr<const Replicas> replicas = roster_.Now();
  for (size_t i = 0; i < replicas->list.size(); ++i) {
    fellows[replicas->list[i]->models()].push_back(i);
  }
  for (const auto& [models, members] : fellows) {
    std::vector<TypicalFirstToken> typical;
    for (const size_t i : members) {
      typical.push_back(replicas->list[i]->TypicalAt(now_ns));
    }
    for (const size_t slow : SlowReplicas(typical)) {
      replicas->list[members[slow]]->EjectForSlowness(now_ns);
    }
  }
}

FleetStatus Dispatcher::Describe() const {
  const int64_t now_ns = clock_.NowNs();
  FleetStatus status;
  status.policy = policy_->name();
  status.panic = InPanic(now_ns);
  std::vector<std::shared_ptr<FleetReplica>> all = roster_.Now()->list;
  const std::vector<std::shared_ptr<FleetReplica>> leaving = roster_.Leaving();
  all.insert(all.end(), leaving.begin(), leaving.end());
  for (const auto& replica : all) {
    replica->Look(now_ns);
    status.replicas.push_back(replica->StatusAt(now_ns));
  }
  status.index_pairs = index_.pairs();
  status.index_bytes = index_.bytes();
  status.index_tally = tally_.figures();
  const std::lock_guard lock(mutex_);
  status.open_requests = static_cast<int64_t>(open_.size());
  status.queued_requests = static_cast<int64_t>(queue_.size());
  status.retries_left = budget_.BalanceAt(now_ns);
  status.retries = retries_;
  status.retries_denied = retries_denied_;
  status.resumed = resumed_.load();
  return status;
}

}  // namespace fak::fleet
