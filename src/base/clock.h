#pragma once

#include <atomic>
#include <cstdint>

namespace fak {

inline constexpr int64_t kNsPerUs = 1'000;
inline constexpr int64_t kNsPerMs = 1'000'000;
inline constexpr int64_t kNsPerSecond = 1'000'000'000;

// Where time comes from, so that tests can hold it still. Any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic; its zero means nothing. For durations and deadlines.
  virtual int64_t NowNs() const = 0;
  // Since 1970 in UTC. For showing and storing only; it may jump.
  virtual int64_t WallNs() const = 0;

  // The machine's clock; lives as long as the program.
  static const Clock& Real();
};

// A clock that moves only when told to.
class FakeClock : public Clock {
 public:
  explicit FakeClock(int64_t wall_ns = 1'700'000'000 * kNsPerSecond) : wall_ns_(wall_ns) {}
  int64_t NowNs() const override { return now_ns_.load(); }
  int64_t WallNs() const override { return wall_ns_.load(); }
  // Moves both.
  void AdvanceNs(int64_t ns) {
    now_ns_.fetch_add(ns);
    wall_ns_.fetch_add(ns);
  }
  void AdvanceMs(int64_t ms) { AdvanceNs(ms * kNsPerMs); }
  // A step of the wall clock, as NTP or an operator makes one.
  void SetWallNs(int64_t ns) { wall_ns_.store(ns); }

 private:
  std::atomic<int64_t> now_ns_{kNsPerSecond};
  std::atomic<int64_t> wall_ns_;
};

}  // namespace fak
