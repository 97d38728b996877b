#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fleet/fleet_driver_fixture.h"

// Replicas that come and go while requests are open.
namespace fak::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using FleetChangesTest = FleetDriverTest;

TEST_F(FleetChangesTest, SendsRequestsToOneThatWasAdded) {
  Make(1);
  ScriptedReplica* b = nullptr;
  ASSERT_TRUE(fleet_->AddReplica(Member("b", &b)));
  EXPECT_THAT(Names(), ElementsAre("a", "b"));
  const auto first = Ask("1");
  const auto second = Ask("2");
  EXPECT_EQ(first->workers(), std::vector<std::string>{"a"});
  EXPECT_EQ(second->workers(), std::vector<std::string>{"b"});
  a().Answer();
  b->Answer();
  EXPECT_EQ(second->text(), "b");
}

TEST_F(FleetChangesTest, AFailureNamesThoseThatAreDrainedToo) {
  Make(3);
  replicas_[2]->SetModels({"other"});
  ASSERT_TRUE(fleet_->DrainReplica("a"));
  ASSERT_TRUE(fleet_->DrainReplica("c"));
  const auto asked = Ask();
  EXPECT_EQ(asked->workers(), std::vector<std::string>{"b"});
  Fail(b(), Code::kUnavailable);
  EXPECT_EQ(asked->failure().detail, "it failed; a is drained (fak fleet undrain a)");
  b().OnAdmit([](const auto&) { return fak::Fail(Code::kUnavailable, "b is down"); });
  EXPECT_EQ(Refusal().detail, "b is down; a is drained (fak fleet undrain a)");
  b().OnAdmit([](const auto&) { return fak::Fail(Code::kInvalidArgument, "no such field"); });
  EXPECT_EQ(Refusal().detail, "no such field") << "nobody else would take it";
  EXPECT_EQ(fleet_->DrainReplica("zz").error().detail,
            "no upstream has the name zz; there are: a, b, c");
}

TEST_F(FleetChangesTest, EndsWhatOneHasThatWasRemoved) {
  Make(2);
  const auto at_a = Ask("1");
  const auto at_b = Ask("2");
  const auto life = b().life();
  b().Emit(wire::TextDelta{0, "half ", {}, {}});
  ASSERT_TRUE(fleet_->RemoveReplica("b"));
  fleet_->Tick();
  EXPECT_THAT(Names(), ElementsAre("a", "b leaving"));
  EXPECT_EQ(StatusOf(1).in_flight, 1);
  EXPECT_EQ(StatusOf(1).state, ReplicaState::kDraining);
  const auto later = Ask("3");
  EXPECT_EQ(later->workers(), std::vector<std::string>{"a"});
  b().Answer();
  EXPECT_EQ(at_b->text(), "half b");
  EXPECT_EQ(at_b->ends(), 1);
  fleet_->Tick();
  EXPECT_TRUE(life.expired());
  EXPECT_THAT(Names(), ElementsAre("a"));
  a().Answer();
  a().Answer();
}

TEST_F(FleetChangesTest, CancelsAtOneThatWasRemoved) {
  Make(2);
  const auto at_a = Ask("1");
  const auto at_b = Ask("2");
  const auto life = b().life();
  ASSERT_TRUE(fleet_->RemoveReplica("b"));
  fleet_->Cancel("2");
  EXPECT_EQ(at_b->failure().code, Code::kCancelled);
  fleet_->Tick();
  EXPECT_TRUE(life.expired());
  a().Answer();
}

TEST_F(FleetChangesTest, TakesARequestAwayFromOneThatDiesWhileItLeaves) {
  Make(2);
  const auto at_a = Ask("1");
  const auto at_b = Ask("2");
  ASSERT_TRUE(fleet_->RemoveReplica("b"));
  b().SetReady(false);
  fleet_->Tick();
  clock_.AdvanceMs(3'000);
  fleet_->Tick();
  EXPECT_EQ(at_b->workers(), (std::vector<std::string>{"b", "a"}));
  fleet_->Tick();
  EXPECT_THAT(Names(), ElementsAre("a"));
  a().Answer();
  a().Answer();
}

TEST_F(FleetChangesTest, ReplacesOneInItsPlace) {
  Make(2);
  const auto before = Ask("1");
  const auto life = a().life();
  ScriptedReplica* next = nullptr;
  ASSERT_TRUE(fleet_->ReplaceReplica(Member("a", &next)));
  EXPECT_THAT(Names(), ElementsAre("a", "b", "a leaving"));
  EXPECT_EQ(StatusOf(0).attempts, 0u);
  const auto after = Ask("2");
  EXPECT_EQ(next->open(), 1u);
  a().Answer();
  EXPECT_EQ(before->text(), "a");
  fleet_->Tick();
  EXPECT_TRUE(life.expired());
  next->Answer();
  EXPECT_EQ(after->text(), "a");
  EXPECT_THAT(Names(), ElementsAre("a", "b"));
}

TEST_F(FleetChangesTest, ForgetsWhereAPromptWasAndBeginsAnew) {
  Make(2);
  auto prepared = MakePrepared("1");
  prepared->prompts.front().unit_keys = {1, 2, 3};
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_TRUE(fleet_->Admit(prepared, sink));
  a().Answer();
  EXPECT_EQ(fleet_->Describe().index_pairs, 3u);
  ASSERT_TRUE(fleet_->RemoveReplica("a"));
  fleet_->Tick();
  EXPECT_EQ(fleet_->Describe().index_pairs, 0u);
  ScriptedReplica* again = nullptr;
  ASSERT_TRUE(fleet_->AddReplica(Member("a", &again)));
  EXPECT_EQ(fleet_->Describe().replicas.back().attempts, 0u);
  EXPECT_EQ(fleet_->Describe().replicas.back().state, ReplicaState::kHealthy);
}

TEST_F(FleetChangesTest, SaysWhereNobodyIsLeft) {
  Make(1);
  const auto open = Ask("1");
  ASSERT_TRUE(fleet_->RemoveReplica("a"));
  EXPECT_EQ(Refusal().code, Code::kUnavailable);
  EXPECT_FALSE(fleet_->Load().ready);
  EXPECT_EQ(fleet_->Load().why_not, "there is no upstream at present");
  EXPECT_THAT(fleet_->capabilities()->models, IsEmpty());
  a().Answer();
  fleet_->Tick();
  EXPECT_THAT(Names(), IsEmpty());
  ScriptedReplica* b = nullptr;
  ASSERT_TRUE(fleet_->AddReplica(Member("b", &b)));
  const auto sink = Ask("2");
  b->Answer();
  EXPECT_EQ(sink->text(), "b");
  bool drained = false;
  ASSERT_TRUE(fleet_->RemoveReplica("b"));
  fleet_->Drain([&drained] { drained = true; });
  EXPECT_TRUE(drained);
}

TEST_F(FleetChangesTest, WaitingRequestsGoToOneThatWasAdded) {
  Make(2, {}, {{.max_concurrency = 1}, {.max_concurrency = 1}});
  const auto first = Ask("1");
  const auto second = Ask("2");
  const auto waiting = Ask("3");
  EXPECT_EQ(fleet_->Describe().queued_requests, 1);
  ScriptedReplica* c = nullptr;
  ASSERT_TRUE(fleet_->AddReplica(Member("c", &c)));
  fleet_->Tick();
  c->Answer();
  EXPECT_EQ(waiting->text(), "c");
  a().Answer();
  b().Answer();
}

TEST_F(FleetChangesTest, ANameIsOneReplicas) {
  Make(2);
  const Status added = fleet_->AddReplica(Member("a"));
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Code::kAlreadyExists);
  const Status replaced = fleet_->ReplaceReplica(Member("c"));
  ASSERT_FALSE(replaced);
  EXPECT_EQ(replaced.error().code, Code::kNotFound);
  ASSERT_FALSE(fleet_->RemoveReplica("c"));
  EXPECT_THAT(Names(), ElementsAre("a", "b"));
  fleet_->Stop();
  const Status late = fleet_->AddReplica(Member("c"));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kUnavailable);
}

TEST_F(FleetChangesTest, BlamesNoReplicaForItsOwnEnd) {
  Make(2);
  const auto last = Ask("1");
  testing::internal::CaptureStderr();
  fleet_->Drain([] {});
  a().SetReady(false);  // while something is open there, it is news
  fleet_->Tick();
  a().SetReady(true);
  a().Answer();
  for (int i = 0; i < 3; ++i) {
    clock_.AdvanceMs(3'000);
    fleet_->Tick();
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, ::testing::HasSubstr("upstream a: suspect"));
  EXPECT_THAT(log, ::testing::Not(::testing::HasSubstr("down")));
  EXPECT_THAT(log, ::testing::Not(::testing::HasSubstr("upstream b")));
  EXPECT_THAT(log, ::testing::Not(::testing::HasSubstr("no upstream")));
}

}  // namespace
}  // namespace fak::fleet
