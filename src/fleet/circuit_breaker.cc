#include "fleet/circuit_breaker.h"

#include <algorithm>

#include "base/clock.h"

namespace fak::fleet {

std::string_view BreakerStateName(BreakerState state) {
  switch (state) {
    case BreakerState::kClosed: return "closed";
    case BreakerState::kOpen: return "open";
    case BreakerState::kHalfOpen: return "half_open";
  }
  return "closed";
}

BreakerState CircuitBreaker::StateAt(int64_t now_ns) const {
  if (!open_) {
    return BreakerState::kClosed;
  }
  return now_ns - opened_ns_ < open_ms_ * kNsPerMs ? BreakerState::kOpen : BreakerState::kHalfOpen;
}

bool CircuitBreaker::OnTrial(int64_t now_ns) const {
  return trial_began_ns_ >= 0 && now_ns - trial_began_ns_ < options_.trial_ms * kNsPerMs;
}

bool CircuitBreaker::LetsThrough(int64_t now_ns) const {
  const BreakerState state = StateAt(now_ns);
  return state == BreakerState::kClosed || (state == BreakerState::kHalfOpen && !OnTrial(now_ns));
}

BreakerTicket CircuitBreaker::Begin(int64_t now_ns) {
  const bool trial = StateAt(now_ns) == BreakerState::kHalfOpen && !OnTrial(now_ns);
  if (trial) {
    trial_began_ns_ = now_ns;
  }
  return {now_ns, trial};
}

void CircuitBreaker::End(const BreakerTicket& ticket, Verdict verdict, int64_t now_ns) {
  if (ticket.trial && ticket.began_ns == trial_began_ns_) {
    trial_began_ns_ = -1;
  }
  // What began before it opened says nothing new, and what came just then neither.
  const bool of_before = open_ && ticket.began_ns <= opened_ns_;
  if (of_before) {
    return;
  }
  if (verdict == Verdict::kAnswered) {
    failures_ = 0;
    open_ = false;
    open_ms_ = options_.open_ms;
  } else if (verdict == Verdict::kFailed) {
    ++failures_;
    const BreakerState state = StateAt(now_ns);
    if (state == BreakerState::kHalfOpen) {
      open_ms_ = std::min(open_ms_ * 2, options_.open_ms_max);
    }
    const bool enough = failures_ >= options_.failures_to_open;
    if (state == BreakerState::kHalfOpen || (state == BreakerState::kClosed && enough)) {
      Open(now_ns);
    }
  }
}

void CircuitBreaker::Open(int64_t now_ns) {
  open_ = true;
  opened_ns_ = now_ns;
  trial_began_ns_ = -1;
}

}  // namespace fak::fleet
