#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"

// How fast this machine's cores are for us right now: additions that wait for each other, one a
// cycle on every processor that we know, so that rates read as GHz. What neighbours, a hypervisor
// or a hot package take away is missing here, whether the system admits it or not.
namespace fak::perf {

struct ClockGuard {
  uint32_t threads = 1;
  double alone_ghz = 0;  // one thread, before; its best 10 ms
  double after_ghz = 0;  // the same after all threads ran
  double all_ghz = 0;    // the sum over all threads that ran together
  double least_ghz = 0;  // the worst 10 ms of any of them
};

// Takes about 2 s, of which `threads` threads are busy 1.5. on_part: before each of three parts.
// kResourceExhausted when the system gives fewer threads.
[[nodiscard]] Result<ClockGuard> RunClockGuard(uint32_t threads,
                                               const std::function<void(uint32_t part)>& on_part);

}  // namespace fak::perf
