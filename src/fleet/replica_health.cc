#include "fleet/replica_health.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace fak::fleet {

std::string_view ReplicaStateName(ReplicaState state) {
  switch (state) {
    case ReplicaState::kJoining: return "joining";
    case ReplicaState::kHealthy: return "healthy";
    case ReplicaState::kSuspect: return "suspect";
    case ReplicaState::kDraining: return "draining";
    case ReplicaState::kDown: return "down";
  }
  return "down";
}

void ReplicaHealth::Observe(int64_t now_ns, bool ready, std::string_view why_not) {
  if (!ready && (ready_ || not_ready_since_ns_ < 0)) {
    not_ready_since_ns_ = now_ns;
  }
  if (joined_ && !(ready && ready_)) {
    trouble_ns_ = now_ns;  // also in the moment that it is back
  }
  if (!ready) {
    why_not_ = why_not;
  } else if (!ready_) {
    ready_since_ns_ = now_ns;
  }
  ready_ = ready;
  joined_ = joined_ || ready;
}

void ReplicaHealth::End(const BreakerTicket& ticket, Verdict verdict, int64_t now_ns,
                        std::string_view why) {
  const bool was_closed = breaker_.StateAt(now_ns) == BreakerState::kClosed;
  breaker_.End(ticket, verdict, now_ns);
  if (verdict == Verdict::kAnswered) {
    progress_ns_ = now_ns;
    const bool was_mute = !std::exchange(mute_, "").empty();
    if (was_mute || (!was_closed && breaker_.StateAt(now_ns) == BreakerState::kClosed)) {
      trouble_ns_ = now_ns;  // just back
    }
  } else if (verdict == Verdict::kFailed) {
    last_failure_ = why;
    if (breaker_.failures_in_a_row() >= options_.failures_to_suspect) {
      trouble_ns_ = now_ns;
    }
  }
}

void ReplicaHealth::PassOver(int64_t now_ns, int retry_after_s, std::string why) {
  constexpr int64_t kMsPerSecond = 1000;
  const int64_t ms = retry_after_s > 0
                         ? std::min(retry_after_s * kMsPerSecond, options_.busy_ms_max)
                         : options_.busy_ms;
  const int64_t until_ns = now_ns + ms * kNsPerMs;
  if (until_ns >= wait_until_ns_) {
    wait_until_ns_ = until_ns;
    why_waits_ = std::move(why);
  }
}

void ReplicaHealth::Eject(int64_t now_ns, int64_t for_ms, std::string why) {
  ejected_until_ns_ = now_ns + for_ms * kNsPerMs;
  why_ejected_ = std::move(why);
}

bool ReplicaHealth::MadeProgress(int64_t now_ns) const {
  return progress_ns_ >= 0 && now_ns - progress_ns_ < options_.progress_ms * kNsPerMs;
}

bool ReplicaHealth::GoneFor(int64_t now_ns) const {
  return !ready_ && not_ready_since_ns_ >= 0 &&
         now_ns - not_ready_since_ns_ >= options_.down_after_ms * kNsPerMs && !MadeProgress(now_ns);
}

bool ReplicaHealth::GoneAt(int64_t now_ns) const {
  return (!ready_ && GoneFor(now_ns)) ||
         ((!ready_ || !mute_.empty()) && breaker_.StateAt(now_ns) == BreakerState::kOpen);
}

ReplicaState ReplicaHealth::StateAt(int64_t now_ns) const {
  if (draining_) {
    return ReplicaState::kDraining;
  }
  if (!joined_) {
    return ReplicaState::kJoining;
  }
  if (GoneFor(now_ns) || breaker_.StateAt(now_ns) == BreakerState::kOpen) {
    return ReplicaState::kDown;
  }
  const bool troubled = trouble_ns_ >= 0 && now_ns - trouble_ns_ < options_.up_after_ms * kNsPerMs;
  return !ready_ || troubled || EjectedAt(now_ns) || !doubt_.empty() || !mute_.empty() ||
                 breaker_.StateAt(now_ns) == BreakerState::kHalfOpen
             ? ReplicaState::kSuspect
             : ReplicaState::kHealthy;
}

Tier ReplicaHealth::TierAt(int64_t now_ns) const {
  switch (StateAt(now_ns)) {
    case ReplicaState::kDraining: return Tier::kNever;
    case ReplicaState::kJoining:
    case ReplicaState::kDown: return Tier::kLast;
    case ReplicaState::kHealthy: return WaitsAt(now_ns) ? Tier::kThird : Tier::kFirst;
    case ReplicaState::kSuspect: break;
  }
  if (breaker_.StateAt(now_ns) == BreakerState::kHalfOpen && ready_) {
    // It has to meet a request to be known well, and no more than one.
    return breaker_.LetsThrough(now_ns) && !tried_by_us_ ? Tier::kFirst : Tier::kLast;
  }
  return WaitsAt(now_ns) ? Tier::kThird : Tier::kSecond;
}

std::string ReplicaHealth::WhyAt(int64_t now_ns) const {
  if (draining_) {
    return "an operator drains it";
  }
  if (!ready_) {
    return why_not_;
  }
  const BreakerState breaker = breaker_.StateAt(now_ns);
  if (breaker != BreakerState::kClosed) {
    return (breaker == BreakerState::kOpen ? "failed " : "on trial after it failed ") +
           std::to_string(breaker_.failures_in_a_row()) + " times in a row: " + last_failure_;
  }
  if (!mute_.empty()) {
    return "it says that it is well, and failed when it was asked for one token: " + mute_;
  }
  if (EjectedAt(now_ns)) {
    return why_ejected_;
  }
  if (!doubt_.empty()) {
    return doubt_;
  }
  if (WaitsAt(now_ns)) {
    return why_waits_;
  }
  if (StateAt(now_ns) == ReplicaState::kSuspect) {
    return breaker_.failures_in_a_row() == 0 ? "just back" : "just failed: " + last_failure_;
  }
  return "";
}

}  // namespace fak::fleet
