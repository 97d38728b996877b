#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "base/random.h"
#include "driver/engine_driver.h"
#include "fleet/admission_queue.h"
#include "fleet/fleet_replica.h"
#include "fleet/fleet_request.h"
#include "fleet/residency_index.h"
#include "fleet/residency_tally.h"
#include "fleet/retry_budget.h"
#include "fleet/roster.h"
#include "fleet/router.h"

namespace fak::fleet {

struct DispatchOptions {
  RetryBudget::Options retries = {};
  int attempts_max = 3;                      // of a request, each at another replica
  size_t residency_pairs_max = 1024 * 1024;  // of the residency index
  size_t queue_max = limits::kFleetQueueMax;
  // A stream whose replica fails after content goes on at another one of the same artifact, where
  // the engines can (driver::EngineDriver::CanContinue).
  bool resume_streams = false;
};

struct FleetStatus {
  std::string policy;
  bool panic = false;  // all that don't drain are down or joining, and get requests all the same
  int64_t open_requests = 0;
  int64_t queued_requests = 0;  // of these, wait until a replica has room
  double retries_left = 0;      // of the budget
  uint64_t retries = 0;
  uint64_t retries_denied = 0;  // by the budget
  uint64_t resumed = 0;         // of the retries: with streams that had begun
  // Of the residency index.
  size_t index_pairs = 0;
  size_t index_bytes = 0;
  ResidencyTally::Figures index_tally;
  std::vector<ReplicaStatus> replicas;
};

// How a request would be placed now.
struct Explanation {
  struct Row {
    std::string name;
    ReplicaState state = ReplicaState::kJoining;
    std::optional<double> cost = {};  // of a candidate, in the policy's own unit: less is better
    std::string why_not = {};         // it is no candidate
    int64_t backlog_tokens = 0;
    int64_t in_flight = 0;
    int64_t cached_tokens = 0;
    double weight = 1;
  };
  std::string policy;
  std::string model;  // that it would be asked for
  int64_t prompt_tokens = 0;
  std::string chosen;  // by this draw; empty: nobody
  std::string why;     // it was chosen, or nobody was
  std::vector<Row> replicas;
};

// Who gets a request, and who gets it next when that fails. Replicas come and go meanwhile; one
// that goes keeps what it has until that ends. Any thread; calls sinks, and drivers but for their
// Load(), capabilities() and CanContinue(), without a lock held. Outlives its requests.
class Dispatcher {
 public:
  Dispatcher(std::unique_ptr<RoutingPolicy> policy, DispatchOptions options, const Clock& clock,
             RandomSource& random);

  // One more, or one in the place of that of its name. Between the two its driver starts: it is
  // listened to from the first on, and gets requests from the second on.
  std::shared_ptr<FleetReplica> MakeReplica(ReplicaOptions options,
                                            std::unique_ptr<driver::EngineDriver> driver,
                                            const ReplicaHealth::Options& health);
  Roster& roster() { return roster_; }

  Status Admit(std::shared_ptr<const driver::Prepared> prepared,
               std::shared_ptr<driver::EventSink> sink);
  void Cancel(std::string_view request_id);
  // To be called several times a second: notes and logs what changed, ejects who is slow, asks for
  // a token where nothing else shows how a replica is, takes requests away from replicas that are
  // gone, takes apart those that have left.
  void Tick();
  // Nothing new is taken; `done` when the last request has ended.
  void Drain(std::function<void()> done);
  // After that: the drivers are about to be told to drain, so what they say of themselves from here
  // on is nothing of their engines'. Tick() does nothing any more.
  void Rest() { rests_.store(true); }
  // Nothing is tried again, and what waits here ends.
  void Stop();
  // kNotFound: nobody is called that.
  [[nodiscard]] Status SetDraining(std::string_view name, bool draining);
  FleetStatus Describe() const;
  // By the policy in use and what is known now. Nothing is placed, and nobody's turn used up.
  Explanation Explain(const std::shared_ptr<const driver::Prepared>& prepared);

  std::shared_ptr<const Replicas> replicas() const { return roster_.Now(); }
  // That replica's cache is empty, as far as we know.
  static void ForgetCacheOf(const FleetReplica& replica);
  const Clock& clock() const { return clock_; }

  // For requests and their attempts.
  // Gives it to a replica that hasn't had it, and to the next where one refuses it at once. On
  // error it is nobody's; maybe_before: the error where nobody is left, of an attempt before. Where
  // those that are left have no room it waits for one; maybe_popped: at its place in the queue.
  [[nodiscard]] Status Place(FleetRequest& request, std::optional<Error> maybe_before,
                             std::optional<AdmissionQueue::Id> maybe_popped = std::nullopt);
  // Whether a request that failed may be tried at another replica, which is taken off the budget.
  bool MayTryElsewhere(const FleetRequest& request);
  // Whether one that waits for a replica that is gone may leave it. Off no budget: nothing was
  // computed there that is computed again.
  bool MayLeave(const FleetRequest& request) const;
  void CountResumed() { resumed_.fetch_add(1); }
  // Whether one that has been elsewhere before may go nowhere any more, whoever comes back.
  bool IsAtItsLast(const FleetRequest& request) const;
  // An attempt has ended there. cached_tokens: as the index had it; usage: as the engine had it.
  void OnLeft(const FleetReplica& replica, const FleetRequest& request, int64_t cached_tokens,
              const wire::Usage& usage);
  // Before that: nothing shows that it computed the prompt, so it doesn't hold what it was given
  // for having been sent it, beyond the cached_tokens that it had before.
  void OnNothingComputed(const FleetReplica& replica, const FleetRequest& request,
                         int64_t cached_tokens);
  // Whether there is more than one replica.
  bool has_choice() const { return replicas()->list.size() > 1; }
  // An answer took so long at its replica, or wasn't whole by its deadline after that long.
  void NoteService(int64_t took_ns);
  // It has ended. Once, before its sink is told.
  void Ended(const FleetRequest& request, const wire::Usage& usage);

 private:
  // An open request.
  struct Open {
    std::shared_ptr<FleetRequest> request;
    std::optional<AdmissionQueue::Id> maybe_waits;  // its place in the queue
  };
  struct Candidate {
    std::shared_ptr<FleetReplica> replica;
    ReplicaView view;
  };
  struct Candidates {
    std::vector<Candidate> list;  // of the least tier that anybody has
    Tier tier = Tier::kNever;
    bool any_full = false;
  };
  struct Chosen {
    std::shared_ptr<Attempt> attempt;
    std::string why;
  };
  static Error NobodyServes(const Replicas& replicas, const Asked& asked);
  // units: that each of the replicas holds.
  static Candidates FindCandidates(const Replicas& replicas, const FleetRequest& request,
                                   int64_t now_ns, const std::vector<uint32_t>& units);
  // A replica that another try may go to, of this tier or a better one.
  bool HasElsewhere(const FleetRequest& request, Tier worst) const;
  bool MayTryAgain(const FleetRequest& request, Tier worst) const;
  // How many of the prompts' first units each replica holds.
  std::vector<uint32_t> UnitsHeld(const Replicas& replicas, const driver::Prepared& prepared) const;
  Result<Chosen> Choose(FleetRequest& request);
  static std::string WhyChosen(const RouteChoice& choice, const Candidates& candidates);
  // Whether every replica that could take it has as many requests as it may.
  bool IsFull(const FleetRequest& request) const;
  AdmissionQueue::Entry EntryOf(const FleetRequest& request) const;
  Status Enqueue(const std::shared_ptr<FleetRequest>& request,
                 std::optional<AdmissionQueue::Id> maybe_popped);
  // Places what waits and finds room now.
  void Pump();
  void PumpAll();
  struct Popped {
    std::shared_ptr<FleetRequest> request;
    AdmissionQueue::Id id = 0;
  };
  std::optional<Popped> TakeFitting();
  std::vector<std::shared_ptr<FleetRequest>> TakeWaiting(std::span<const AdmissionQueue::Id> ids);
  void EndOverdue(int64_t now_ns);
  void EndHopeless(int64_t now_ns);
  void LeaveGone(int64_t now_ns);
  void TakeApartGone();
  void ProbeSilent(int64_t now_ns);
  void EjectSlow(int64_t now_ns);
  bool InPanic(int64_t now_ns) const;
  void NotePanic(int64_t now_ns);

  ResidencyIndex index_;
  ResidencyTally tally_;
  Roster roster_;  // whose replicas tell the index
  std::atomic<ReplicaId> ids_{0};
  const std::unique_ptr<RoutingPolicy> policy_;
  const DispatchOptions options_;
  const Clock& clock_;
  RandomSource& random_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> rests_{false};
  std::atomic<uint64_t> resumed_{0};
  std::atomic<size_t> queued_{0};  // size of the queue
  std::atomic<int64_t> pumps_{0};  // calls of Pump() that whoever is in it answers for

  int64_t looked_for_slow_ns_ = 0;  // thread of Tick()
  bool panicked_ = false;           // the same

  std::mutex placing_;  // one choice at a time: the next one sees what it adds

  mutable std::mutex mutex_;  // guards the members below
  std::unordered_map<std::string, Open> open_;
  AdmissionQueue queue_;
  std::unordered_map<AdmissionQueue::Id, FleetRequest*> waiting_;  // in open_ too
  RetryBudget budget_;
  double output_tokens_ = 0;  // of a request, decayed; 0: not known
  uint64_t retries_ = 0;
  uint64_t retries_denied_ = 0;
  bool draining_ = false;
  std::vector<std::function<void()>> idle_;
};

}  // namespace fak::fleet
