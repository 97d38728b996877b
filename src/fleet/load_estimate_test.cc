#include "fleet/load_estimate.h"

#include <gtest/gtest.h>

namespace fak::fleet {
namespace {

constexpr int64_t kMs = 1000;

TEST(LoadEstimate, CountsWhatWasPlacedUntilItIsComputed) {
  LoadEstimate load;
  load.Place(0, 1000);
  load.Place(0, 500);
  EXPECT_EQ(load.backlog_tokens(50 * kMs), 1500);  // its rate isn't known yet
  EXPECT_EQ(load.in_flight(), 2);
  load.Prefilled(100 * kMs, 1000);
  EXPECT_EQ(load.backlog_tokens(100 * kMs), 500);
  EXPECT_EQ(load.in_flight(), 2);
  load.End();
  load.Prefilled(150 * kMs, 500);
  load.End();
  EXPECT_EQ(load.backlog_tokens(150 * kMs), 0);
  EXPECT_EQ(load.in_flight(), 0);
}

TEST(LoadEstimate, TakesOffWhatTheOldestWillHaveComeToByNow) {
  LoadEstimate load;
  load.Place(0, 1000);
  load.Prefilled(100 * kMs, 1000);  // 10 tokens a ms
  load.Place(1000 * kMs, 600);      // idle time before it says nothing
  load.Place(1000 * kMs, 400);
  EXPECT_EQ(load.backlog_tokens(1000 * kMs), 1000);
  EXPECT_EQ(load.backlog_tokens(1020 * kMs), 800);
  EXPECT_EQ(load.backlog_tokens(9000 * kMs), 400);  // never more than the oldest
  load.Prefilled(1060 * kMs, 600);
  EXPECT_EQ(load.backlog_tokens(1060 * kMs), 400);
}

TEST(LoadEstimate, AddsWhatAReportHasBeyondItsOwn) {
  LoadEstimate load;
  load.Place(0, 1000);
  load.Report(5000, 4);
  EXPECT_EQ(load.backlog_tokens(0), 5000);
  EXPECT_EQ(load.in_flight(), 4);
  load.Place(0, 100);
  EXPECT_EQ(load.backlog_tokens(0), 5100);
  load.Report(700, 1);  // others have nothing left, and of ours it knows better than we do
  EXPECT_EQ(load.backlog_tokens(0), 1100);
  EXPECT_EQ(load.in_flight(), 2);
}

TEST(LoadEstimate, IgnoresWhatItDoesNotKnow) {
  LoadEstimate load;
  load.Place(0, 10);
  load.Prefilled(5, 11);
  EXPECT_EQ(load.backlog_tokens(5), 10);
}

}  // namespace
}  // namespace fak::fleet
