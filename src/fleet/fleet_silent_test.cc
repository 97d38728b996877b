// What a FleetDriver does about replicas that say that they are well and answer nothing.
#include <string>

#include <gmock/gmock.h>

#include "fleet/fleet_driver_fixture.h"

namespace fak::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FleetSilentTest : public FleetDriverTest {
 protected:
  static constexpr int64_t kEveryMs = 60'000;
  void MakeProbed(size_t count) {
    Make(count);
    for (ScriptedReplica* replica : replicas_) {
      replica->SetProbing({.every_ms = kEveryMs, .beside_requests = true});
    }
  }
  void TickAfter(int64_t ms) {
    clock_.AdvanceMs(ms);
    fleet_->Tick();
  }
  void TimeOut(ScriptedReplica& replica) {
    replica.EndProbe(fak::Fail(Code::kUpstreamError, "nothing within 20 s"));
  }
  void TimeOutUntilItsBreakerOpens(ScriptedReplica& replica) {
    TickAfter(kEveryMs);
    for (int i = 0; i < 5; ++i) {
      TickAfter(GenerationSchedule::kAgainMs);
      TimeOut(replica);
    }
    TickAfter(200);
  }
};

TEST_F(FleetSilentTest, AsksForATokenWhereNothingElseShowsHowItIs) {
  MakeProbed(2);
  TickAfter(kEveryMs / 2);
  Ask();
  a().Answer();
  TickAfter(kEveryMs / 2);
  EXPECT_EQ(a().probes(), 0) << "a client's answer is proof";
  EXPECT_EQ(b().probes(), 1);
  TickAfter(kEveryMs);
  EXPECT_EQ(b().probes(), 1) << "one at a time";
  b().EndProbe({});
  TickAfter(kEveryMs / 2);
  EXPECT_EQ(b().probes(), 1);
  TickAfter(kEveryMs / 2);
  EXPECT_EQ(b().probes(), 2);
  EXPECT_EQ(StatusOf(1).attempts, 0u) << "it is no request";
  EXPECT_EQ(StatusOf(1).state, ReplicaState::kHealthy);
}

TEST_F(FleetSilentTest, AStreamIsProofForAsLongAsItLasts) {
  MakeProbed(1);
  Ask();
  a().Emit(wire::TextDelta{0, "1", {}, {}});
  TickAfter(10 * kEveryMs);
  EXPECT_EQ(a().probes(), 0);
  a().End("", wire::Done{});
}

TEST_F(FleetSilentTest, AsksNobodyWhoIsNotReadyOrDrains) {
  MakeProbed(2);
  a().SetReady(false);
  ASSERT_TRUE(fleet_->DrainReplica("b"));
  TickAfter(10 * kEveryMs);
  EXPECT_EQ(a().probes() + b().probes(), 0);
}

TEST_F(FleetSilentTest, APausedOneIsSuspectThenDownAndBackWithAToken) {
  MakeProbed(2);
  TickAfter(kEveryMs);
  TimeOut(a());
  b().EndProbe({});
  EXPECT_EQ(StatusOf(0).state, ReplicaState::kSuspect);
  EXPECT_THAT(StatusOf(0).why, HasSubstr("says that it is well"));
  EXPECT_THAT(Ask("1")->workers(), ElementsAre("b"));
  EXPECT_THAT(Ask("2")->workers(), ElementsAre("b")) << "for as long as nothing comes from it";
  for (int i = 0; i < 4; ++i) {
    TickAfter(GenerationSchedule::kAgainMs);
    TimeOut(a());
  }
  EXPECT_EQ(StatusOf(0).state, ReplicaState::kDown);
  EXPECT_EQ(StatusOf(0).breaker, BreakerState::kOpen);
  const int before = a().probes();
  TickAfter(5'000);  // half open: the trial is ours
  EXPECT_EQ(a().probes(), before + 1);
  EXPECT_THAT(Ask("3")->workers(), ElementsAre("b"));
  a().EndProbe({});
  EXPECT_EQ(StatusOf(0).breaker, BreakerState::kClosed);
  EXPECT_EQ(StatusOf(0).why, "just back");
  TickAfter(2'000);
  EXPECT_EQ(StatusOf(0).state, ReplicaState::kHealthy);
  EXPECT_EQ(StatusOf(0).failures, 0u);
}

TEST_F(FleetSilentTest, WhatWaitsAtAPausedOneGoesElsewhere) {
  MakeProbed(2);
  const auto waits = Ask();
  ASSERT_THAT(waits->workers(), ElementsAre("a"));
  TimeOutUntilItsBreakerOpens(a());
  EXPECT_GT(a().extra_ms(), 0) << "it had a prompt to compute";
  EXPECT_THAT(waits->workers(), ElementsAre("a", "b"));
  b().Answer();
  EXPECT_EQ(waits->text(), "b");
}

// It would wait for as long as a first byte may take, which is ten minutes.
TEST_F(FleetSilentTest, OneThatWaitsAtTheLastReplicaEndsWhenThatIsGone) {
  Make(2);
  const auto sink = Ask();
  Fail(a(), Code::kUpstreamError, 500);
  ASSERT_THAT(sink->workers(), ElementsAre("a", "b"));
  b().SetReady(false);
  fleet_->Tick();
  EXPECT_EQ(sink->ends(), 0);
  clock_.AdvanceMs(3'000);
  fleet_->Tick();
  ASSERT_EQ(sink->ends(), 1);
  EXPECT_EQ(sink->failure().code, Code::kUnavailable);
  EXPECT_THAT(sink->failure().detail, HasSubstr("upstream b went away: b is away"));
  EXPECT_GT(sink->failure().retry_after_s, 0);
}

TEST_F(FleetSilentTest, OneThatMayYetGoElsewhereWaitsForThat) {
  Make(3);
  replicas_[2]->SetReady(false);
  fleet_->Tick();
  clock_.AdvanceMs(3'000);
  fleet_->Tick();
  const auto sink = Ask();
  Fail(a(), Code::kUpstreamError, 500);
  ASSERT_THAT(sink->workers(), ElementsAre("a", "b"));
  b().SetReady(false);
  fleet_->Tick();
  clock_.AdvanceMs(3'000);
  fleet_->Tick();
  EXPECT_EQ(sink->ends(), 0);
  replicas_[2]->SetReady(true);
  fleet_->Tick();
  EXPECT_THAT(sink->workers(), ElementsAre("a", "b", "c"));
}

TEST_F(FleetSilentTest, AnUpstreamThatIsAloneIsWaitedFor) {
  Make(1);
  const auto sink = Ask();
  a().SetReady(false);
  for (int i = 0; i < 10; ++i) {
    fleet_->Tick();
    clock_.AdvanceMs(3'000);
  }
  EXPECT_EQ(sink->ends(), 0);
  a().Answer();
  EXPECT_EQ(sink->text(), "a");
}

TEST_F(FleetSilentTest, ARefusalProvesNothing) {
  MakeProbed(1);
  TickAfter(kEveryMs);
  a().EndProbe(fak::Fail({Code::kUpstreamError, "no such thing", "", 400}));
  EXPECT_EQ(StatusOf(0).state, ReplicaState::kHealthy);
  // Nor does it take the breaker's trial from the clients.
  for (int i = 0; i < 5; ++i) {
    Ask();
    Fail(a(), Code::kUpstreamError, 500);
  }
  ASSERT_EQ(StatusOf(0).breaker, BreakerState::kOpen);
  TickAfter(5'000);
  EXPECT_EQ(a().probes(), 1);
  Ask();
  a().Answer();
  EXPECT_EQ(StatusOf(0).breaker, BreakerState::kClosed);
}

TEST_F(FleetSilentTest, OneThatIsBusyIsNotBroken) {
  MakeProbed(1);
  TickAfter(kEveryMs);
  a().EndProbe(fak::Fail({Code::kUnavailable, "full", "", 503, 7}));
  EXPECT_EQ(StatusOf(0).breaker, BreakerState::kClosed);
  EXPECT_EQ(StatusOf(0).why, "it asked to be left alone for a while");
}

TEST_F(FleetSilentTest, AnAnswerToAClientEndsTheDoubt) {
  MakeProbed(1);
  TickAfter(kEveryMs);
  TimeOut(a());
  Ask();
  a().Answer();
  TickAfter(2'000);
  EXPECT_EQ(StatusOf(0).state, ReplicaState::kHealthy);
  const int before = a().probes();
  TickAfter(GenerationSchedule::kAgainMs);
  EXPECT_EQ(a().probes(), before) << "nothing is in doubt any more";
}

}  // namespace
}  // namespace fak::fleet
