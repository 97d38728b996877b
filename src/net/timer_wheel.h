#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/unique_function.h"

namespace fak::net {

class TimerWheel;

// One deadline. Owned by whoever waits for it; disarms itself when destroyed. Loop thread only.
class Timer {
 public:
  Timer(TimerWheel& wheel, UniqueFunction<void()> on_fire)
      : wheel_(wheel), on_fire_(std::move(on_fire)) {}
  ~Timer() { Disarm(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // Calls on_fire once, `delay_ms` from now: never early, at most a tick late (see TimerWheel).
  // Arming an armed timer moves it. O(1), no system call in most cases. on_fire may arm or
  // destroy this and any other timer.
  void ArmMs(int64_t delay_ms);
  void Disarm();
  bool armed() const { return previous_ != nullptr; }

 private:
  friend class TimerWheel;
  TimerWheel& wheel_;
  UniqueFunction<void()> on_fire_;
  int64_t due_tick_ = 0;
  Timer* next_ = nullptr;      // ring of a slot
  Timer* previous_ = nullptr;  // null: not armed
};

// Deadlines of one loop, coarse: they are about slow peers, not about precision. A hashed wheel
// (Varghese and Lauck's scheme 6): a ring of slots, one a tick; a timer further away than a turn
// waits in its slot for later turns. No system timers and no clock in here: whoever drives it
// calls Advance() at NextDueNs(). Not thread-safe.
class TimerWheel {
 public:
  static constexpr int64_t kTickNs = 5'000'000;
  static constexpr size_t kSlots = 1024;

  // `on_sooner` is called when a timer was armed that is due before NextDueNs() said so far.
  TimerWheel(int64_t now_ns, UniqueFunction<int64_t()> now, UniqueFunction<void()> on_sooner);
  // Every timer must be disarmed or gone by then.
  ~TimerWheel();
  TimerWheel(const TimerWheel&) = delete;
  TimerWheel& operator=(const TimerWheel&) = delete;

  // Fires what is due.
  void Advance(int64_t now_ns);
  // When Advance() shall be called at the latest; INT64_MAX: nothing is armed. May be early for a
  // timer more than a turn away.
  int64_t NextDueNs() const;
  size_t armed() const { return armed_; }

 private:
  friend class Timer;
  // Head of a slot's ring.
  struct Slot {
    Timer* first = nullptr;
  };

  void Insert(Timer& timer, int64_t due_tick);
  void Remove(Timer& timer);

  UniqueFunction<int64_t()> now_;
  UniqueFunction<void()> on_sooner_;
  std::array<Slot, kSlots> slots_{};
  std::array<uint64_t, kSlots / 64> occupied_{};  // a bit a slot
  int64_t tick_ = 0;                              // all before it have been fired
  size_t armed_ = 0;
};

}  // namespace fak::net
