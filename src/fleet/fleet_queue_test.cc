// What waits at a FleetDriver until a replica has room.
#include <string>

#include <gmock/gmock.h>

#include "fleet/fleet_driver_fixture.h"

namespace fak::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FleetQueueTest : public FleetDriverTest {};

TEST_F(FleetQueueTest, HasNoMoreOpenAtAReplicaThanItMay) {
  Make(2, {.queue_max = 2}, {{.max_concurrency = 1}, {.max_concurrency = 2}});
  for (const char* id : {"1", "2", "3"}) {
    Ask(id);
  }
  EXPECT_EQ(a().open(), 1u);
  EXPECT_EQ(b().open(), 2u);
  const auto fourth = Ask("4");
  const auto fifth = Ask("5");
  EXPECT_THAT(fourth->workers(), IsEmpty());
  EXPECT_EQ(fleet_->Describe().queued_requests, 2);
  const Error full = Refusal();
  EXPECT_EQ(full.code, Code::kResourceExhausted);
  EXPECT_GT(full.retry_after_s, 0);
  a().Answer();
  EXPECT_THAT(fourth->workers(), ElementsAre("a"));
  EXPECT_EQ(a().open(), 1u);
  b().Answer();
  EXPECT_THAT(fifth->workers(), ElementsAre("b"));
  EXPECT_EQ(fleet_->Describe().queued_requests, 0);
}

TEST_F(FleetQueueTest, LetsWaitOnlyWhatFindsNoRoom) {
  Make(2, {}, {{.max_concurrency = 1}, {.max_concurrency = 1}});
  b().SetModels({"other"});
  Ask("1");
  const auto waits = Ask("2");
  EXPECT_THAT(waits->workers(), IsEmpty());
  EXPECT_THAT(Ask("3", "other")->workers(), ElementsAre("b"));
  a().End("", wire::Failed{{Code::kUpstreamError, "bad", "", 400}});
  EXPECT_THAT(waits->workers(), ElementsAre("a"));
}

TEST_F(FleetQueueTest, SaysWhyOneIsPassedOver) {
  Make(2);
  const auto why = [this](Code code) {
    Ask();
    Fail(a(), code);
    b().Answer();
    const std::string said = StatusOf(0).why;
    EXPECT_EQ(fleet_->Explain(MakePrepared("asks", "m")).replicas.front().why_not, said);
    clock_.AdvanceMs(1'000);
    EXPECT_EQ(StatusOf(0).why, "");
    return said;
  };
  EXPECT_EQ(why(Code::kRateLimited), "it asked to be left alone for a while");
  EXPECT_EQ(why(Code::kUnavailable), "it asked to be left alone for a while");
  // Nothing of its doing.
  EXPECT_EQ(why(Code::kResourceExhausted), "passed over for a while: it failed");
}

TEST_F(FleetQueueTest, AFullQueueIsNobodyElses) {
  Make(2, {.queue_max = 2}, {{.max_concurrency = 1}, {.max_concurrency = 1}});
  b().SetModels({"other"});
  Ask("1");
  const auto second = Ask("2");
  const auto third = Ask("3");
  EXPECT_EQ(fleet_->Describe().queued_requests, 2);
  EXPECT_THAT(Ask("4", "other")->workers(), ElementsAre("b")) << "its replica is idle";
  Ask("5", "other");
  EXPECT_EQ(third->failure().code, Code::kResourceExhausted);
  EXPECT_EQ(second->ends(), 0);
  EXPECT_EQ(fleet_->Describe().queued_requests, 2);
}

TEST_F(FleetQueueTest, EndsWhatWaits) {
  Make(1, {}, {{.max_concurrency = 1}});
  Ask("open");
  const auto cancelled = Ask("cancelled");
  fleet_->Cancel("cancelled");
  EXPECT_EQ(cancelled->failure().code, Code::kCancelled);
  auto prepared = MakePrepared("overdue");
  prepared->deadline_ns = clock_.NowNs() + 10 * kNsPerMs;
  const auto overdue = std::make_shared<RecordingSink>();
  ASSERT_TRUE(fleet_->Admit(prepared, overdue));
  clock_.AdvanceMs(10);
  fleet_->Tick();
  EXPECT_EQ(overdue->failure().code, Code::kDeadlineExceeded);
  const auto stopped = Ask("stopped");
  fleet_->Stop();
  EXPECT_EQ(stopped->failure().code, Code::kUnavailable);
  EXPECT_EQ(a().admitted(), 1);
}

TEST_F(FleetQueueTest, BlamesNoReplicaForTimeThatWasSpentElsewhere) {
  Make(1, {}, {{.max_concurrency = 1}});
  Ask("before");
  auto prepared = MakePrepared("r");
  prepared->deadline_ns = clock_.NowNs() + 100 * kNsPerMs;
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_TRUE(fleet_->Admit(prepared, sink));
  clock_.AdvanceMs(90);  // in the queue
  a().Answer();
  clock_.AdvanceMs(10);
  Fail(a(), Code::kDeadlineExceeded);
  EXPECT_EQ(sink->failure().code, Code::kDeadlineExceeded);
  EXPECT_EQ(StatusOf(0).failures, 0u);
}

// It is its turn, and the replica with room won't have it.
TEST_F(FleetQueueTest, OneThatFindsNoRoomAfterAllKeepsItsPlace) {
  Make(2, {}, {{.max_concurrency = 1}, {.max_concurrency = 1}});
  b().SetModels({"m", "o"});
  Ask("1");
  Ask("2");
  const auto third = Ask("3");
  const auto fourth = Ask("4", "o");
  a().OnAdmit([](const auto&) -> Status { return fak::Fail(Code::kUnavailable, "full"); });
  a().Answer();
  EXPECT_EQ(third->workers(), std::vector<std::string>{"a"});
  EXPECT_EQ(fleet_->Describe().queued_requests, 2);
  b().Answer();
  EXPECT_THAT(third->workers(), ElementsAre("a", "b"));
  EXPECT_THAT(fourth->workers(), IsEmpty());
  b().Answer();
  b().Answer();
  EXPECT_EQ(third->text(), "b");
  EXPECT_EQ(fourth->text(), "b");
}

TEST_F(FleetQueueTest, WaitsForAnotherReplicaWhereAllOthersAreFull) {
  Make(2, {}, {{.max_concurrency = 1}, {.max_concurrency = 1}});
  const auto first = Ask("1");
  const auto second = Ask("2");
  Fail(a(), Code::kUpstreamError);
  EXPECT_EQ(first->ends(), 0);
  EXPECT_EQ(fleet_->Describe().queued_requests, 1);
  b().Answer();
  EXPECT_THAT(first->workers(), ElementsAre("a", "b"));
  b().Answer();
  EXPECT_EQ(first->text(), "b");
  EXPECT_EQ(second->text(), "b");
}

}  // namespace
}  // namespace fak::fleet
