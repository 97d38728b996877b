#pragma once

#include <cstdint>
#include <string_view>

namespace fak::fleet {

// What an attempt at a replica showed of the replica.
enum class Verdict : uint8_t {
  kAnswered,  // content of a real 2xx came
  kFailed,    // no connection, a time-out, a 5xx, a stream that broke
  kBusy,      // 429, 503, a full queue: it works, and wants less
  kNothing,   // a 4xx, a cancel, a deadline of the client's own: it may be well or not
};

enum class BreakerState : uint8_t { kClosed, kOpen, kHalfOpen };
std::string_view BreakerStateName(BreakerState state);

// What an attempt has from its beginning to its end.
struct BreakerTicket {
  int64_t began_ns = 0;
  bool trial = false;
};

// Keeps requests from a replica that fails them (Nygard, "Release It!"). Closed, it counts failures
// in a row; at `failures_to_open` it opens. After a time it is half open: one attempt may go there,
// the trial. Only kAnswered closes it, of an attempt that began after it opened; kFailed opens it
// again for twice as long; kBusy and kNothing prove nothing, and the next attempt is the trial.
// Pure: time comes in. Not thread-safe.
class CircuitBreaker {
 public:
  struct Options {
    int failures_to_open = 5;
    int64_t open_ms = 5'000;
    int64_t open_ms_max = 60'000;
    int64_t trial_ms = 30'000;  // a trial that says nothing for so long is given up
  };

  explicit CircuitBreaker(Options options) : options_(options), open_ms_(options.open_ms) {}

  BreakerState StateAt(int64_t now_ns) const;
  // Closed, or half open and nobody is on trial.
  bool LetsThrough(int64_t now_ns) const;
  // An attempt goes there, whether it is let through or nobody else is left.
  BreakerTicket Begin(int64_t now_ns);
  void End(const BreakerTicket& ticket, Verdict verdict, int64_t now_ns);
  int failures_in_a_row() const { return failures_; }

 private:
  bool OnTrial(int64_t now_ns) const;
  void Open(int64_t now_ns);

  Options options_;
  int failures_ = 0;
  bool open_ = false;
  int64_t opened_ns_ = 0;
  int64_t open_ms_;
  int64_t trial_began_ns_ = -1;  // -1: nobody is
};

}  // namespace fak::fleet
