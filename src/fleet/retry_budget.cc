#include "fleet/retry_budget.h"

#include "base/clock.h"

namespace fak::fleet {
namespace {

int64_t NumberAt(int64_t now_ns) {
  return now_ns / (RetryBudget::kSliceMs * kNsPerMs);
}

}  // namespace

RetryBudget::Slice& RetryBudget::SliceAt(int64_t now_ns) {
  const int64_t number = NumberAt(now_ns);
  Slice& slice = slices_[static_cast<size_t>(number) % kSlices];
  if (slice.number != number) {
    slice = {.number = number};
  }
  return slice;
}

void RetryBudget::Deposit(int64_t now_ns) {
  ++SliceAt(now_ns).requests;
}

double RetryBudget::BalanceAt(int64_t now_ns) const {
  constexpr double kWindowS = static_cast<double>(kSlices * kSliceMs) / 1000;
  const int64_t oldest = NumberAt(now_ns) - static_cast<int64_t>(kSlices) + 1;
  double balance = options_.least_per_s * kWindowS;
  for (const Slice& slice : slices_) {
    if (slice.number >= oldest) {
      balance += options_.share * static_cast<double>(slice.requests);
      balance -= static_cast<double>(slice.retries);
    }
  }
  return balance;
}

bool RetryBudget::TryWithdraw(int64_t now_ns) {
  if (BalanceAt(now_ns) < 1) {
    return false;
  }
  ++SliceAt(now_ns).retries;
  return true;
}

}  // namespace fak::fleet
