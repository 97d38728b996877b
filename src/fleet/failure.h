#pragma once

#include "base/result.h"
#include "fleet/circuit_breaker.h"

namespace fak::fleet {

// What of an attempt's error its code doesn't say.
struct FailureContext {
  bool reached = true;         // somebody was there to connect to
  bool lists_model = false;    // the replica says that it serves what was asked for
  bool deadline_over = false;  // the request's own
  bool kept_silent = false;    // the replica had it for most of its time, and gave nothing
};

struct FailureReading {
  Verdict verdict = Verdict::kNothing;
  bool curable = false;  // another replica may do better: not so a 4xx that would repeat
};

// What an attempt's error says of the replica, and of the request. Pure.
FailureReading ReadFailure(const Error& error, const FailureContext& context);

}  // namespace fak::fleet
