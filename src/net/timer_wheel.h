#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/unique_function.h"

namespace fak::net {

class TimerWheel;

namespace internal {
// A place in a ring of timers; alone it is an empty ring.
struct TimerLink {
  TimerLink() = default;
  TimerLink(const TimerLink&) = delete;
  TimerLink& operator=(const TimerLink&) = delete;
  bool empty() const { return next == this; }
  void InsertBefore(TimerLink& other);
  void Unlink();

  TimerLink* next = this;
  TimerLink* previous = this;
};
}  // namespace internal

// One deadline. Owned by whoever waits for it; disarms itself when destroyed. Loop thread only.
class Timer : private internal::TimerLink {
 public:
  Timer(TimerWheel& wheel, UniqueFunction<void()> on_fire)
      : wheel_(wheel), on_fire_(std::move(on_fire)) {}
  ~Timer() { Disarm(); }

  // Calls on_fire once, `delay_ms` from now: never early, at most a tick late (see TimerWheel), and
  // never from inside this call. Arming an armed timer moves it. O(1); a system call only when no
  // other timer of the loop is due sooner. on_fire may arm, disarm or destroy any timer, its own
  // as the last thing it does.
  void ArmMs(int64_t delay_ms);
  void Disarm();
  bool armed() const { return !empty(); }

 private:
  friend class TimerWheel;
  TimerWheel& wheel_;
  UniqueFunction<void()> on_fire_;
  int64_t due_tick_ = 0;
};

// Deadlines of one loop, coarse: they are about slow peers, not about precision. A hashed wheel
// (Varghese and Lauck 1987, scheme 6): a ring of slots, one a tick; a timer further away than a
// turn stays in its slot for later turns. No system timer in here: whoever drives it calls
// Advance() at NextDueNs(). Not thread-safe.
class TimerWheel {
 public:
  static constexpr int64_t kTickNs = 5'000'000;
  static constexpr size_t kSlots = 1024;

  // `now` reads a monotonic clock in ns. `on_sooner` is called when a timer was armed that is due
  // before the time that NextDueNs() has said last.
  TimerWheel(UniqueFunction<int64_t()> now, UniqueFunction<void()> on_sooner);
  // Every timer must be gone by then.
  ~TimerWheel();
  TimerWheel(const TimerWheel&) = delete;
  TimerWheel& operator=(const TimerWheel&) = delete;

  // Fires what is due.
  void Advance();
  // When Advance() shall be called at the latest; INT64_MAX: nothing is armed. May be early for a
  // timer more than a turn away.
  int64_t NextDueNs();
  size_t armed() const { return armed_; }

 private:
  friend class Timer;

  void Insert(Timer& timer, int64_t due_tick);
  void Remove(Timer& timer);
  // Moves the timers of a slot that are due into `due`.
  static void TakeDue(internal::TimerLink& slot, int64_t now_tick, internal::TimerLink& due);

  UniqueFunction<int64_t()> now_;
  UniqueFunction<void()> on_sooner_;
  std::array<internal::TimerLink, kSlots> slots_;
  std::array<uint64_t, kSlots / 64> occupied_{};  // a bit a slot
  int64_t tick_;                                  // all up to it have been fired
  int64_t announced_tick_ = INT64_MAX;            // what NextDueNs() has said
  size_t armed_ = 0;
};

}  // namespace fak::net
