#include <map>
#include <utility>

#include "fleet/dispatcher.h"

// What waits until a replica has room for it.
namespace fak::fleet {

bool Dispatcher::IsFull(const FleetRequest& request) const {
  const auto replicas = roster_.Now();
  const Candidates candidates = FindCandidates(*replicas, request, clock_.NowNs(),
                                               std::vector<uint32_t>(replicas->list.size()));
  return candidates.list.empty() && candidates.any_full;
}

// With the mutex held.
AdmissionQueue::Entry Dispatcher::EntryOf(const FleetRequest& request) const {
  const std::shared_ptr<const driver::Prepared> prepared = request.prepared();
  return {.tenant = prepared->tenant,
          .model = request.model(),
          .weight = prepared->tenant_weight,
          .priority = prepared->priority,
          .cost = static_cast<double>(request.prompt_tokens()) + output_tokens_ + 1,
          .deadline_ns = request.deadline_ns(),
          .begun = request.resumed() > 0};
}

// The next queue_.Pop() comes after the one that was popped was placed, or is back.
Status Dispatcher::Enqueue(const std::shared_ptr<FleetRequest>& request,
                           std::optional<AdmissionQueue::Id> maybe_popped) {
  std::vector<std::shared_ptr<FleetRequest>> displaced;
  int retry_after_s = 0;
  {
    const std::lock_guard lock(mutex_);
    if (request->cancelled()) {
      return Fail(Code::kCancelled, "cancelled");
    }
    AdmissionQueue::Id id = maybe_popped.value_or(0);
    if (!maybe_popped || !queue_.PutBack(id)) {
      TRY_ASSIGN(id, queue_.Push(EntryOf(*request), clock_.NowNs()));
    }
    if (const auto lost = queue_.TakeDisplaced()) {
      displaced = TakeWaiting({&*lost, 1});
      retry_after_s = queue_.RetryAfterS(clock_.NowNs());
    }
    const auto found = open_.find(request->id());
    if (found == open_.end() || stopping_.load()) {
      queue_.Remove(id);
      return Fail(Code::kUnavailable, "the server is shutting down");
    }
    found->second.maybe_waits = id;
    waiting_.emplace(id, request.get());
    queued_.store(queue_.size());
  }
  for (const std::shared_ptr<FleetRequest>& each : displaced) {
    each->Fail({Code::kResourceExhausted,
                "others, who had fewer requests waiting, needed this one's place in the queue", "",
                0, retry_after_s},
               std::nullopt);
  }
  Pump();  // room that came in between
  return {};
}

// With the mutex held: they are out of the queue already, and nobody has them then.
std::vector<std::shared_ptr<FleetRequest>> Dispatcher::TakeWaiting(
    std::span<const AdmissionQueue::Id> ids) {
  std::vector<std::shared_ptr<FleetRequest>> taken;
  for (const AdmissionQueue::Id id : ids) {
    Open& open = open_.at(waiting_.at(id)->id());
    open.maybe_waits.reset();
    taken.push_back(open.request);
    waiting_.erase(id);
  }
  queued_.store(queue_.size());
  return taken;
}

std::optional<Dispatcher::Popped> Dispatcher::TakeFitting() {
  // Who could take what has been nowhere yet hangs on these alone.
  std::map<std::pair<std::string_view, wire::Surface>, bool> full;
  const std::lock_guard lock(mutex_);
  const auto id = queue_.Pop([this, &full](AdmissionQueue::Id each) {
    const FleetRequest& request = *waiting_.at(each);
    if (request.attempts() > 0) {
      return !IsFull(request);
    }
    const auto [found, is_new] = full.try_emplace({request.model(), request.turn().surface}, false);
    if (is_new) {
      found->second = IsFull(request);
    }
    return !found->second;
  });
  return id ? std::optional(Popped{TakeWaiting({&*id, 1}).front(), *id}) : std::nullopt;
}

// One at a time: whoever is in it goes round again for those who came meanwhile, so that ends
// within ends need no more stack.
void Dispatcher::Pump() {
  if (queued_.load() == 0 || pumps_.fetch_add(1) > 0) {
    return;
  }
  int64_t rounds = 1;
  do {
    PumpAll();
    rounds = pumps_.fetch_sub(rounds) - rounds;
  } while (rounds > 0);
}

void Dispatcher::PumpAll() {
  EndHopeless(clock_.NowNs());
  while (const std::optional<Popped> next = TakeFitting()) {
    Status placed = Place(*next->request, next->request->last_error(), next->id);
    if (!placed) {
      next->request->Fail(std::move(placed).error(), std::nullopt);
    }
  }
}

void Dispatcher::EndOverdue(int64_t now_ns) {
  if (queued_.load() == 0) {
    return;
  }
  std::vector<std::shared_ptr<FleetRequest>> overdue;
  {
    const std::lock_guard lock(mutex_);
    overdue = TakeWaiting(queue_.TakeOverdue(now_ns));
  }
  for (const std::shared_ptr<FleetRequest>& request : overdue) {
    request->Fail(driver::DeadlineError(*request->prepared()), std::nullopt);
  }
}

void Dispatcher::EndHopeless(int64_t now_ns) {
  std::vector<std::shared_ptr<FleetRequest>> hopeless;
  int retry_after_s = 0;
  {
    const std::lock_guard lock(mutex_);
    hopeless = TakeWaiting(queue_.TakeHopeless(now_ns));
    retry_after_s = queue_.RetryAfterS(now_ns);
  }
  for (const std::shared_ptr<FleetRequest>& request : hopeless) {
    request->Fail({Code::kResourceExhausted,
                   "every upstream has as many requests as it may, and too little of this one's "
                   "time is left for an answer",
                   "", 0, retry_after_s},
                  std::nullopt);
  }
}

void Dispatcher::NoteService(int64_t took_ns) {
  const std::lock_guard lock(mutex_);
  queue_.NoteService(took_ns);
}

void Dispatcher::Stop() {
  stopping_.store(true);
  std::vector<std::shared_ptr<FleetRequest>> waited;
  {
    const std::lock_guard lock(mutex_);
    std::vector<AdmissionQueue::Id> ids;
    for (const auto& [id, request] : waiting_) {
      queue_.Remove(id);
      ids.push_back(id);
    }
    waited = TakeWaiting(ids);
  }
  for (const std::shared_ptr<FleetRequest>& request : waited) {
    request->Fail({Code::kUnavailable, "the server is shutting down"}, std::nullopt);
  }
}

}  // namespace fak::fleet
