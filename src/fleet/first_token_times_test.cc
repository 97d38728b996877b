#include "fleet/first_token_times.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/random.h"

namespace fak::fleet {
namespace {

TEST(FirstTokenTimes, HasQuantilesOfTheLastOnes) {
  FirstTokenTimes times;
  EXPECT_FALSE(times.QuantileNs(0.5));
  for (int64_t i = 1; i <= 1'000; ++i) {
    times.Record(i, i);
  }
  EXPECT_EQ(times.QuantileNs(0), 745);
  EXPECT_EQ(times.QuantileNs(0.5), 872);
  EXPECT_EQ(times.QuantileNs(1), 1'000);
  EXPECT_EQ(times.QuantileNs(0.5, 991), 995);
  EXPECT_FALSE(times.QuantileNs(0.5, 991, 11));
}

TEST(SlowReplicas, FindsTheOneThatIsFarSlowerThanItsFellows) {
  std::vector<TypicalFirstToken> all(4, {kNsPerSecond, false});
  EXPECT_TRUE(SlowReplicas(all).empty());
  all[2].ns = 5 * kNsPerSecond;
  EXPECT_EQ(SlowReplicas(all), std::vector<size_t>{2});
  all[2].ns = 3 * kNsPerSecond;
  EXPECT_TRUE(SlowReplicas(all).empty());
  all = {{kNsPerMs, false}, {kNsPerMs, false}, {100 * kNsPerMs, false}};
  EXPECT_TRUE(SlowReplicas(all).empty());  // nobody would notice
  all[2].ns = 5 * kNsPerSecond;
  all[1].ns.reset();
  EXPECT_TRUE(SlowReplicas(all).empty());  // of two who can say which is slow?
}

TEST(SlowReplicas, LeavesMostOfTheFleet) {
  FakeRandom random(7);
  for (int run = 0; run < 10'000; ++run) {
    std::vector<TypicalFirstToken> all(random.Next64() % 12);
    for (TypicalFirstToken& each : all) {
      if (random.Next64() % 4 != 0) {
        each.ns = static_cast<int64_t>(random.Next64() % 20) * kNsPerSecond;
      }
      each.out = random.Next64() % 5 == 0;
    }
    const auto out_before = static_cast<size_t>(
        std::count_if(all.begin(), all.end(), [](const auto& each) { return each.out; }));
    const std::vector<size_t> slow = SlowReplicas(all);
    for (const size_t i : slow) {
      EXPECT_FALSE(all[i].out);
    }
    if (!slow.empty()) {
      EXPECT_LE(slow.size() + out_before, all.size() / 3);
    }
  }
}

}  // namespace
}  // namespace fak::fleet
