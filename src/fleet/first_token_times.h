#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace fak::fleet {

// The last times to a first token at one replica, with when they were seen. Fixed memory. Not
// thread-safe.
class FirstTokenTimes {
 public:
  static constexpr size_t kKept = 256;

  void Record(int64_t now_ns, int64_t took_ns);
  // The smallest of those seen since then that a share q of them doesn't exceed; nullopt: fewer
  // than `least` were seen.
  std::optional<int64_t> QuantileNs(double q, int64_t since_ns = INT64_MIN, size_t least = 1) const;

 private:
  struct Seen {
    int64_t at_ns;
    int64_t took_ns;
  };
  std::array<Seen, kKept> ring_;
  size_t count_ = 0;  // ever recorded
};

// Of one replica, for SlowReplicas().
struct TypicalFirstToken {
  std::optional<int64_t> ns;  // median; absent: too few to tell
  bool out = false;           // gets no requests already, whyever
};

// Those that are far slower to a first token than their fellows typically are: more than kSlowTimes
// times the median of the others' medians and at least kSlowLeastNs above it. Among fewer than
// three who is slow can't be told. With those that are out already never more than a third, so that
// a fleet doesn't eject itself: the slowest first.
inline constexpr int64_t kSlowTimes = 4;
inline constexpr int64_t kSlowLeastNs = 500'000'000;
std::vector<size_t> SlowReplicas(std::span<const TypicalFirstToken> replicas);

}  // namespace fak::fleet
