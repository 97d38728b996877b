#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "fleet/circuit_breaker.h"

namespace fak::fleet {

enum class ReplicaState : uint8_t {
  kJoining,  // has never been ready
  kHealthy,
  kSuspect,   // works, perhaps: gets requests when nobody healthy is left
  kDraining,  // told to take nothing new
  kDown,      // gets requests when nobody else is left
};
std::string_view ReplicaStateName(ReplicaState state);

// In which order replicas are taken: one of a tier is chosen only where none before it is left.
enum class Tier : uint8_t {
  kFirst,   // healthy, or its breaker's trial
  kSecond,  // suspect
  kThird,   // passed over for a while: mostly as it asked to be left alone
  kLast,    // joining or down
  kNever,   // draining
};

// How a replica is, from what its driver says (active) and what became of requests there (passive).
// Neither is believed alone: an engine's own health check says 200 while it is paused, and fails
// while it is busy with a long prompt.
//
//   joining  -- ready -->  healthy
//   healthy  -- not ready, two failures in a row, ejected, doubted, or mute -->  suspect
//   suspect  -- not ready for down_after_ms without any progress, or its breaker opens -->  down
//   suspect  -- ready and without a failure for up_after_ms -->  healthy
//   down     -- ready again, or its breaker half open -->  suspect
//   any      -- drain -->  draining, until undrained; then what it would be
//
// So nothing comes and goes faster than up_after_ms, and a replica on its way back meets requests
// in small numbers first: the breaker lets one through. Pure: time comes in; what time alone
// changes is seen at the next look. Not thread-safe.
class ReplicaHealth {
 public:
  struct Options {
    int64_t down_after_ms = 3'000;
    int64_t up_after_ms = 2'000;
    int64_t progress_ms = 10'000;  // tokens this recent show that it lives
    int64_t busy_ms = 1'000;       // that one is passed over which is busy and names no time
    int64_t busy_ms_max = 60'000;  // whatever time it names
    int failures_to_suspect = 2;   // in a row
    CircuitBreaker::Options breaker = {};
  };

  explicit ReplicaHealth(Options options) : options_(options), breaker_(options.breaker) {}

  // What its driver says now.
  void Observe(int64_t now_ns, bool ready, std::string_view why_not);
  BreakerTicket Begin(int64_t now_ns) { return breaker_.Begin(now_ns); }
  // At the first content and again at the end; `why` of a failure, for a person.
  void End(const BreakerTicket& ticket, Verdict verdict, int64_t now_ns, std::string_view why = {});
  // It is to be passed over for a while: it asked for that, or what its requests need is used up
  // here. retry_after_s: 0 where nobody names a time. `why`: for a person.
  void PassOver(int64_t now_ns, int retry_after_s, std::string why);
  // Out, as one that is much slower than its fellows.
  void Eject(int64_t now_ns, int64_t for_ms, std::string why);
  void SetDraining(bool draining) { draining_ = draining; }
  // Somebody who should know isn't sure that it is there: it is suspect at best. Empty: he is.
  void SetDoubt(std::string why) { doubt_ = std::move(why); }

  // Asked for one token it failed, for this reason, and nothing has come from it since: it is
  // suspect at best until something does.
  void SetMute(std::string why) { mute_ = std::move(why); }
  // Its breaker's trial is a token that we ask for, rather than a client's request.
  void SetTriedByUs(bool by_us) { tried_by_us_ = by_us; }

  ReplicaState StateAt(int64_t now_ns) const;
  Tier TierAt(int64_t now_ns) const;
  // Of a state other than healthy, for a person.
  std::string WhyAt(int64_t now_ns) const;
  // Of one that WaitsAt() now.
  const std::string& why_waits() const { return why_waits_; }
  BreakerState BreakerAt(int64_t now_ns) const { return breaker_.StateAt(now_ns); }
  // Down since nobody is there, or since it gives nothing and its breaker is open, rather than by
  // its breaker alone; or would be if it didn't drain or had ever been there.
  bool GoneAt(int64_t now_ns) const;
  bool ready() const { return ready_; }
  // Its last content, or, where that is older, when it became ready; 0: it isn't.
  int64_t ProofNs() const { return ready_ ? std::max(progress_ns_, ready_since_ns_) : 0; }
  bool OnTrialAt(int64_t now_ns) const { return !breaker_.LetsThrough(now_ns); }
  bool draining() const { return draining_; }
  bool EjectedAt(int64_t now_ns) const { return now_ns < ejected_until_ns_; }
  bool WaitsAt(int64_t now_ns) const { return now_ns < wait_until_ns_; }

 private:
  bool MadeProgress(int64_t now_ns) const;
  bool GoneFor(int64_t now_ns) const;

  Options options_;
  CircuitBreaker breaker_;
  bool joined_ = false;
  bool draining_ = false;
  std::string doubt_;
  std::string mute_;
  bool tried_by_us_ = false;
  bool ready_ = false;
  int64_t ready_since_ns_ = 0;
  std::string why_not_;
  int64_t not_ready_since_ns_ = -1;  // valid while it isn't; -1: nobody has looked yet
  int64_t trouble_ns_ = -1;   // when it last wasn't ready or failed; -1: never since it joined
  int64_t progress_ns_ = -1;  // last content; -1: none
  std::string last_failure_;
  int64_t wait_until_ns_ = 0;
  std::string why_waits_;
  int64_t ejected_until_ns_ = 0;
  std::string why_ejected_;
};

}  // namespace fak::fleet
