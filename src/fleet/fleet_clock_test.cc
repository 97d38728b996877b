// What a FleetDriver makes of a clock that jumps.
#include <string>

#include <gmock/gmock.h>

#include "fleet/fleet_driver_fixture.h"

namespace fak::fleet {
namespace {

using ::testing::ElementsAre;

using FleetClockTest = FleetDriverTest;

constexpr int64_t kYearNs = int64_t{365} * 86'400 * kNsPerSecond;

TEST_F(FleetClockTest, AStepOfTheWallClockChangesNothing) {
  Make(2, {}, {{.max_concurrency = 1}, {.max_concurrency = 1}});
  a().SetReady(false);
  fleet_->Tick();
  const auto open = Ask("open");
  Ask("second");  // to "a", as the other one is full
  auto prepared = MakePrepared("waits");
  prepared->deadline_ns = clock_.NowNs() + kNsPerSecond;
  const auto waits = std::make_shared<RecordingSink>();
  ASSERT_TRUE(fleet_->Admit(prepared, waits));
  for (const int64_t step_ns : {kYearNs, -2 * kYearNs}) {
    clock_.SetWallNs(clock_.WallNs() + step_ns);
    fleet_->Tick();
    EXPECT_EQ(StatusOf(0).state, ReplicaState::kSuspect) << "and not down, after no time";
    EXPECT_EQ(StatusOf(1).state, ReplicaState::kHealthy);
    EXPECT_EQ(waits->ends(), 0);
  }
  EXPECT_THAT(open->workers(), ElementsAre("b"));
  clock_.AdvanceMs(1'000);
  fleet_->Tick();
  EXPECT_EQ(waits->failure().code, Code::kDeadlineExceeded);
  a().Answer();
  b().Answer();
  EXPECT_EQ(open->text(), "b");
}

// The process was stopped for an hour, or its machine: nobody is to blame, and all goes on.
TEST_F(FleetClockTest, ALeapOfAllTimeBlamesNobody) {
  Make(2, {}, {{.max_concurrency = 1}, {.max_concurrency = 1}});
  const auto first = Ask("1");
  const auto second = Ask("2");
  const auto waits = Ask("3");
  b().Emit(wire::TextDelta{0, "b", {}, {}});
  clock_.AdvanceMs(3'600'000);
  fleet_->Tick();
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(StatusOf(i).state, ReplicaState::kHealthy);
    EXPECT_EQ(StatusOf(i).failures, 0u);
  }
  EXPECT_THAT(first->workers(), ElementsAre("a"));
  a().Answer();
  EXPECT_EQ(first->text(), "a");
  EXPECT_THAT(waits->workers(), ElementsAre("a"));
  b().End("", wire::Done{});
  EXPECT_EQ(second->text(), "b");
  a().Answer();
  EXPECT_EQ(waits->text(), "a");
}

// One that is out when the leap comes is asked again at once, and needs no more than before.
TEST_F(FleetClockTest, ALeapEndsWhatTimeAloneEnds) {
  Make(2);
  for (int i = 0; i < 5; ++i) {
    Ask(std::to_string(i));
    Fail(a(), Code::kUpstreamError, 500);
    b().Answer();
    clock_.AdvanceMs(2'000);  // well again
  }
  ASSERT_EQ(StatusOf(0).breaker, BreakerState::kOpen);
  clock_.AdvanceMs(3'600'000);
  fleet_->Tick();
  EXPECT_EQ(StatusOf(0).breaker, BreakerState::kHalfOpen);
  EXPECT_THAT(Ask("r")->workers(), ElementsAre("a"));
  a().Answer();
  EXPECT_EQ(StatusOf(0).breaker, BreakerState::kClosed);
}

}  // namespace
}  // namespace fak::fleet
