#include "fleet/retry_budget.h"

#include <deque>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/random.h"

namespace fak::fleet {
namespace {

constexpr int64_t kWindowMs = RetryBudget::kSliceMs * static_cast<int64_t>(RetryBudget::kSlices);

TEST(RetryBudget, GivesALeastRateWithoutRequests) {
  FakeClock clock;
  RetryBudget budget({.share = 0.2, .least_per_s = 1});
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(budget.TryWithdraw(clock.NowNs()));
  }
  EXPECT_FALSE(budget.TryWithdraw(clock.NowNs()));
  clock.AdvanceMs(kWindowMs);
  EXPECT_TRUE(budget.TryWithdraw(clock.NowNs()));
}

TEST(RetryBudget, GivesAShareOfTheRequests) {
  FakeClock clock;
  RetryBudget budget({.share = 0.25, .least_per_s = 0});
  EXPECT_FALSE(budget.TryWithdraw(clock.NowNs()));
  for (int i = 0; i < 8; ++i) {
    budget.Deposit(clock.NowNs());
  }
  EXPECT_DOUBLE_EQ(budget.BalanceAt(clock.NowNs()), 2);
  EXPECT_TRUE(budget.TryWithdraw(clock.NowNs()));
  EXPECT_TRUE(budget.TryWithdraw(clock.NowNs()));
  EXPECT_FALSE(budget.TryWithdraw(clock.NowNs()));
  for (int i = 0; i < 8; ++i) {
    budget.Deposit(clock.NowNs());
  }
  clock.AdvanceMs(kWindowMs);  // what isn't used is lost
  EXPECT_FALSE(budget.TryWithdraw(clock.NowNs()));
}

// In no window are there more retries than the share of its requests and the least rate allow.
TEST(RetryBudget, HoldsInEveryWindow) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    FakeRandom random(seed);
    FakeClock clock;
    const RetryBudget::Options options{.share = 0.1 * static_cast<double>(seed % 5),
                                       .least_per_s = static_cast<double>(seed % 3)};
    RetryBudget budget(options);
    std::deque<std::pair<int64_t, bool>> seen;  // slice, and whether it was a retry
    for (int step = 0; step < 3'000; ++step) {
      const int64_t slice = clock.NowNs() / (RetryBudget::kSliceMs * kNsPerMs);
      if (random.Next64() % 3 == 0) {
        budget.Deposit(clock.NowNs());
        seen.emplace_back(slice, false);
      } else if (budget.TryWithdraw(clock.NowNs())) {
        seen.emplace_back(slice, true);
        while (seen.front().first <= slice - static_cast<int64_t>(RetryBudget::kSlices)) {
          seen.pop_front();
        }
        double allowed = options.least_per_s * static_cast<double>(kWindowMs) / 1000;
        double retries = 0;
        for (const auto& [at, retry] : seen) {
          retry ? retries += 1 : allowed += options.share;
        }
        EXPECT_LE(retries, allowed + 1e-6);
      }
      clock.AdvanceMs(static_cast<int64_t>(random.Next64() % 200));
    }
  }
}

}  // namespace
}  // namespace fak::fleet
