#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace fak::fleet {

// How many retries a fleet can afford: within every window no more than a share of the requests,
// and a least number so that few requests aren't without. When much fails, retries are what would
// bring down the rest. After Finagle's RetryBudget (deposits, withdrawals, a reserve), with counts
// in slices of time. Pure: time comes in. Not thread-safe.
class RetryBudget {
 public:
  struct Options {
    double share = 0.2;       // retries a request
    double least_per_s = 10;  // on top of that
  };

  explicit RetryBudget(Options options) : options_(options) {}

  // A request came.
  void Deposit(int64_t now_ns);
  // Whether one may be tried again, which is then taken off.
  [[nodiscard]] bool TryWithdraw(int64_t now_ns);
  // Retries that are left.
  double BalanceAt(int64_t now_ns) const;

  static constexpr int64_t kSliceMs = 1'000;
  static constexpr size_t kSlices = 10;  // the window

 private:
  struct Slice {
    int64_t number = -1;
    int64_t requests = 0;
    int64_t retries = 0;
  };
  Slice& SliceAt(int64_t now_ns);

  Options options_;
  std::array<Slice, kSlices> slices_ = {};
};

}  // namespace fak::fleet
