#include "fleet/generation_schedule.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"

namespace fak::fleet {

std::optional<int> GenerationSchedule::DueAt(const driver::GenerationProbing& wanted,
                                             const Moment& moment) const {
  const int64_t open = moment.waiting + moment.streaming;
  if (wanted.every_ms <= 0 || running_ || moment.streaming > 0 ||
      (open > 0 && !wanted.beside_requests) || moment.breaker == BreakerState::kOpen) {
    return std::nullopt;
  }
  const int64_t every_ms = wanted.every_ms;
  const int64_t again_ms = std::min(every_ms, kAgainMs);
  const bool trial = moment.breaker == BreakerState::kHalfOpen;
  if (trial && moment.on_trial) {
    return std::nullopt;
  }
  const bool soon = trial || last_ == Verdict::kFailed || last_ == Verdict::kBusy;
  const int64_t pause_ms = last_ == Verdict::kNothing ? every_ms * kUnusedTimes
                           : soon                     ? again_ms
                                                      : every_ms;
  const bool rested = !last_ || moment.now_ns - ended_ns_ >= pause_ms * kNsPerMs;
  const bool silent = moment.now_ns - moment.proof_ns >= every_ms * kNsPerMs;
  if (!rested || !(trial || silent || (soon && ended_ns_ > moment.proof_ns))) {
    return std::nullopt;
  }
  const auto backlog = static_cast<double>(moment.backlog_tokens);
  const double extra_ms = moment.tokens_per_s > 0 ? kSlowdown * 1e3 * backlog / moment.tokens_per_s
                                                  : static_cast<double>(kTokenMs) * backlog;
  return static_cast<int>(std::clamp<double>(extra_ms, 0, kExtraMsMax));
}

void GenerationSchedule::End(int64_t now_ns, Verdict verdict) {
  running_ = false;
  last_ = verdict;
  ended_ns_ = now_ns;
}

bool GenerationSchedule::TakesTrials(const driver::GenerationProbing& wanted,
                                     int64_t open_requests) const {
  return wanted.every_ms > 0 && last_ != Verdict::kNothing &&
         (open_requests == 0 || wanted.beside_requests);
}

}  // namespace fak::fleet
