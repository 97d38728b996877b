#include "fleet/generation_schedule.h"

#include <gtest/gtest.h>

#include "base/clock.h"

namespace fak::fleet {
namespace {

constexpr driver::GenerationProbing kBatches = {.every_ms = 60'000, .beside_requests = true};
constexpr driver::GenerationProbing kOneByOne = {.every_ms = 60'000, .beside_requests = false};

class GenerationScheduleTest : public ::testing::Test {
 protected:
  GenerationSchedule::Moment After(int64_t ms) {
    clock_.AdvanceMs(ms);
    return {.now_ns = clock_.NowNs(), .proof_ns = proof_ns_};
  }
  void End(Verdict verdict) {
    schedule_.Begin();
    schedule_.End(clock_.NowNs(), verdict);
  }

  FakeClock clock_;
  int64_t proof_ns_ = clock_.NowNs();
  GenerationSchedule schedule_;
};

TEST_F(GenerationScheduleTest, AsksOnlyAfterAnIntervalWithoutAWord) {
  EXPECT_FALSE(schedule_.DueAt(kBatches, After(59'999)));
  EXPECT_EQ(schedule_.DueAt(kBatches, After(1)), 0);
  proof_ns_ = clock_.NowNs();
  EXPECT_FALSE(schedule_.DueAt(kBatches, After(59'999)));
  EXPECT_FALSE(schedule_.DueAt({}, After(1'000'000))) << "never";
}

TEST_F(GenerationScheduleTest, AsksOnceAtATime) {
  EXPECT_TRUE(schedule_.DueAt(kBatches, After(60'000)));
  schedule_.Begin();
  EXPECT_FALSE(schedule_.DueAt(kBatches, After(600'000)));
  schedule_.End(clock_.NowNs(), Verdict::kFailed);
  EXPECT_FALSE(schedule_.DueAt(kBatches, After(0)));
  EXPECT_TRUE(schedule_.DueAt(kBatches, After(GenerationSchedule::kAgainMs))) << "soon";
}

TEST_F(GenerationScheduleTest, LeavesABusyOneAlone) {
  auto moment = After(600'000);
  moment.streaming = 1;
  EXPECT_FALSE(schedule_.DueAt(kBatches, moment));
  moment.streaming = 0;
  moment.waiting = 1;
  EXPECT_FALSE(schedule_.DueAt(kOneByOne, moment)) << "it would stand in line";
  moment.backlog_tokens = 1'000;
  EXPECT_EQ(schedule_.DueAt(kBatches, moment), 20'000) << "that is computed first";
  moment.tokens_per_s = 3'000;
  EXPECT_EQ(schedule_.DueAt(kBatches, moment), 1'000);
  moment.backlog_tokens = 1'000'000'000;
  EXPECT_EQ(schedule_.DueAt(kBatches, moment), GenerationSchedule::kExtraMsMax);
}

TEST_F(GenerationScheduleTest, AsksFarLessOftenWhereItTeachesNothing) {
  clock_.AdvanceMs(60'000);
  End(Verdict::kNothing);
  EXPECT_FALSE(schedule_.DueAt(kBatches, After(9 * 60'000)));
  EXPECT_TRUE(schedule_.DueAt(kBatches, After(60'000)));
  EXPECT_FALSE(schedule_.TakesTrials(kBatches, 0)) << "a client's request has to show it";
}

TEST_F(GenerationScheduleTest, IsTheTrialOfAHalfOpenBreaker) {
  auto moment = After(10'000);
  moment.breaker = BreakerState::kOpen;
  EXPECT_FALSE(schedule_.DueAt(kBatches, moment));
  moment.breaker = BreakerState::kHalfOpen;
  EXPECT_TRUE(schedule_.DueAt(kBatches, moment)) << "whatever the interval";
  moment.on_trial = true;
  EXPECT_FALSE(schedule_.DueAt(kBatches, moment)) << "somebody else is";
  EXPECT_TRUE(schedule_.TakesTrials(kBatches, 3));
  EXPECT_TRUE(schedule_.TakesTrials(kOneByOne, 0));
  EXPECT_FALSE(schedule_.TakesTrials(kOneByOne, 3));
  EXPECT_FALSE(schedule_.TakesTrials({}, 0));
}

}  // namespace
}  // namespace fak::fleet
