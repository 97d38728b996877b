#pragma once

#include <cstdint>
#include <optional>

#include "driver/engine_driver.h"
#include "fleet/circuit_breaker.h"

namespace fak::fleet {

// When a replica is asked for one token of our own: where it has given no content for as long as
// its driver says, and nobody else's request shows how it is. Never two at once. What came of it is
// read like a request's: a failure is asked about again soon, so that the breaker opens by it as it
// would by requests; where nothing could be learned (a 4xx) it is asked far less often. Pure: time
// comes in. Not thread-safe.
class GenerationSchedule {
 public:
  static constexpr int64_t kAgainMs = 5'000;   // after a failure, or where it had no time for us
  static constexpr int64_t kUnusedTimes = 10;  // the interval, after what taught nothing
  static constexpr int64_t kTokenMs = 20;      // for a prompt token, where its speed isn't known
  static constexpr double kSlowdown = 3;       // times its usual time for what it has to compute
  static constexpr int64_t kExtraMsMax = 600'000;  // for that

  struct Moment {
    int64_t now_ns = 0;
    int64_t proof_ns = 0;  // last content, or since when it says that it is ready
    BreakerState breaker = BreakerState::kClosed;
    bool on_trial = false;       // some request is, of a breaker that is half open
    int64_t waiting = 0;         // requests of ours there that have no content yet
    int64_t streaming = 0;       // those that have
    int64_t backlog_tokens = 0;  // that it has to compute before ours
    double tokens_per_s = 0;     // usually computed; 0: not known
  };
  // How much longer than usual it may take, in ms; nullopt: not now.
  std::optional<int> DueAt(const driver::GenerationProbing& wanted, const Moment& moment) const;
  void Begin() { running_ = true; }
  void End(int64_t now_ns, Verdict verdict);
  // Whether a breaker's trial is left to it.
  bool TakesTrials(const driver::GenerationProbing& wanted, int64_t open_requests) const;

 private:
  bool running_ = false;
  std::optional<Verdict> last_;
  int64_t ended_ns_ = 0;
};

}  // namespace fak::fleet
