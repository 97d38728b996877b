#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "driver/engine_driver.h"
#include "fleet/first_token_times.h"
#include "fleet/generation_schedule.h"
#include "fleet/load_estimate.h"
#include "fleet/replica_health.h"
#include "fleet/residency_feed.h"
#include "fleet/router.h"
#include "wire/event.h"

namespace fak::fleet {

struct ReplicaOptions {
  std::string name = {};
  double weight = 1;
  int32_t max_concurrency = 0;           // requests open there at once; 0: as many as come
  std::vector<std::string> models = {};  // what it is asked for; empty: those that it lists
  bool draining = false;                 // from the start
};

// As it is at one moment, for people and programs. Absent is not 0.
struct ReplicaStatus {
  std::string name;
  ReplicaState state = ReplicaState::kJoining;
  std::string why;       // of a state other than healthy
  bool leaving = false;  // it was taken out of the fleet, and ends what it has
  BreakerState breaker = BreakerState::kClosed;
  std::string engine;
  std::string version;
  std::vector<std::string> models;
  driver::LoadReport load;
  int64_t in_flight = 0;
  int64_t backlog_tokens = 0;
  double weight = 1;
  int32_t max_concurrency = 0;
  std::optional<double> hit_rate;    // cached share of the prompts lately
  std::optional<double> ttft_p50_s;  // of the last FirstTokenTimes::kKept requests
  std::optional<double> ttft_p99_s;
  uint64_t attempts = 0;
  uint64_t failures = 0;
};

// One replica of a fleet: its driver, what is known of its health, and what was placed there and
// hasn't ended. Any thread.
class FleetReplica {
 public:
  FleetReplica(ReplicaId id, ReplicaOptions options, std::unique_ptr<driver::EngineDriver> driver,
               ReplicaHealth::Options health = {});

  ReplicaId id() const { return id_; }
  const std::string& name() const { return name_; }
  double weight() const { return weight_.load(); }
  driver::EngineDriver& driver() const { return *driver_; }
  // What it says of its cache goes into the index, which outlives it. Before its driver starts.
  void HearKvEvents(ResidencyIndex& index);
  // Null: nobody listens.
  ResidencyFeed* maybe_feed() const { return feed_.get(); }

  // What it is asked for, as clients name it: what was set, else what its driver lists.
  std::vector<std::string> models() const;
  void SetModels(std::vector<std::string> models);
  bool ListsModel(const std::string& model) const;
  bool ServesSurface(wire::Surface surface) const;

  struct Seen {
    Tier tier;
    ReplicaState state;
    int64_t backlog_tokens;  // as LoadEstimate has it, with what its driver reports
  };
  // Asks its driver how it is.
  Seen Look(int64_t now_ns);
  // As of ReplicaOptions.
  void SetShare(double weight, int32_t max_concurrency);
  // Whether no more than it may have is open there.
  bool HasRoom() const;
  int64_t in_flight() const { return in_flight_.load(); }

  // An attempt begins, with so many prompt tokens to compute.
  BreakerTicket Begin(int64_t now_ns, int64_t uncached_tokens);
  // Its first content came; of an answer that is not streamed, with all the rest.
  void TakeFirst(const BreakerTicket& ticket, int64_t now_ns, bool streamed);
  // Those tokens are no backlog any more: once an attempt, at its first content or its end.
  void ReleaseBacklog(int64_t now_ns, int64_t uncached_tokens);
  // It ended; once. maybe_error: how it failed.
  void End(const BreakerTicket& ticket, Verdict verdict, int64_t now_ns, const Error* maybe_error);
  void TakeUsage(const wire::Usage& usage);

  // A token of our own that it is asked for.
  struct Generation {
    BreakerTicket ticket;
    int extra_ms;  // GenerationProbe's
  };
  // Begins one where it is time for it; else nullopt. Each one that begins ends.
  std::optional<Generation> BeginGeneration(int64_t now_ns,
                                            const driver::GenerationProbing& wanted);
  void EndGeneration(const BreakerTicket& ticket, int64_t now_ns, const Status& answered);

  void SetDraining(bool draining);
  bool draining() const;
  // As of ReplicaHealth.
  void SetDoubt(std::string why);
  // It was taken out of the fleet: it drains for good.
  void SetLeaving();
  // What tells it from its fellows in speed; out: it gets no requests just now.
  TypicalFirstToken TypicalAt(int64_t now_ns) const;
  // For longer each time, as long as it isn't well in between.
  void EjectForSlowness(int64_t now_ns);

  // Looks, and says what has changed since the last call of this.
  struct Change {
    ReplicaState before;
    ReplicaState now;
    std::string why;
    bool gone;  // down since nobody is there, rather than by its breaker
  };
  std::optional<Change> TakeChange(int64_t now_ns);
  bool IsGone(int64_t now_ns) const;
  // Of one that is passed over for a while.
  std::string WhyWaits() const;
  ReplicaStatus StatusAt(int64_t now_ns) const;

 private:
  const ReplicaId id_;
  const std::string name_;
  std::unique_ptr<ResidencyFeed> feed_;  // which the driver calls
  const std::unique_ptr<driver::EngineDriver> driver_;
  std::atomic<double> weight_;
  std::atomic<int32_t> max_concurrency_;
  std::atomic<int64_t> in_flight_{0};

  mutable std::mutex mutex_;  // guards the members below
  LoadEstimate estimate_;
  std::vector<std::string> models_;  // empty: those that its driver lists
  ReplicaHealth health_;
  GenerationSchedule generations_;
  FirstTokenTimes first_tokens_;
  bool leaving_ = false;
  ReplicaState told_ = ReplicaState::kJoining;
  int64_t eject_ms_;
  int64_t last_ejected_ns_ = 0;
  double prompt_tokens_ = 0;  // decayed, of prompts whose cached part is known
  double cached_tokens_ = 0;
  uint64_t attempts_ = 0;
  uint64_t failures_ = 0;
};

}  // namespace fak::fleet
