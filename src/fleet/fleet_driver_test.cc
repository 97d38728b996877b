#include "fleet/fleet_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fleet/fleet_driver_fixture.h"

namespace fak::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST_F(FleetDriverTest, GoesToWhoServesTheModel) {
  Make(2);
  b().SetModels({"other"});
  EXPECT_THAT(fleet_->capabilities()->models, ElementsAre("m", "other"));
  const auto sink = Ask("r", "other");
  b().Answer();
  EXPECT_EQ(sink->text(), "b");
  EXPECT_EQ(sink->ends(), 1);
  const Error missing = Refusal("none");
  EXPECT_EQ(missing.code, Code::kNotFound);
  EXPECT_THAT(missing.detail, HasSubstr("m, other"));
  b().SetModels({});
  EXPECT_EQ(Refusal("mystery").code, Code::kUnavailable);  // it may have it
}

TEST_F(FleetDriverTest, TakesTheModelsThatItWasGivenForAReplicas) {
  Make(2);
  fleet_->SetModels("a", {"x"});
  fleet_->SetModels("b", {"y", "alias"});
  EXPECT_THAT(fleet_->capabilities()->models, ElementsAre("x", "y", "alias"));
  Ask("r", "alias");
  EXPECT_EQ(b().open(), 1u);
  EXPECT_EQ(Refusal("m").code, Code::kNotFound);
}

TEST_F(FleetDriverTest, AsksOneThatIsAloneForAnything) {
  Make(1);
  const auto sink = Ask("r", "whatever");
  a().Answer();
  EXPECT_EQ(sink->text(), "a");
}

TEST_F(FleetDriverTest, LetsThePolicyChooseAndSaysWhy) {
  Make(2);
  const auto first = Ask("1");
  const auto second = Ask("2");
  EXPECT_THAT(second->workers(), ElementsAre("b"));
  EXPECT_EQ(second->why(), "in order: a 1 (backlog 100, cached 0), b 0 (backlog 0, cached 0)");
  a().Emit(wire::TextDelta{0, "x", {}, {}});
  EXPECT_EQ(StatusOf(0).backlog_tokens, 0);
  EXPECT_EQ(StatusOf(0).in_flight, 1);
  EXPECT_EQ(StatusOf(1).backlog_tokens, 100);
}

TEST_F(FleetDriverTest, KeepsNoPromptOnceItsAnswerHasBegun) {
  for (const size_t replicas : {1, 2}) {
    replicas_.clear();
    Make(replicas);
    const auto prepared = MakePrepared("r");
    const auto sink = std::make_shared<RecordingSink>();
    ASSERT_TRUE(fleet_->Admit(prepared, sink));
    EXPECT_EQ(prepared.use_count(), 3);  // here, at the replica, in the fleet
    a().Emit(wire::TextDelta{0, "x", {}, {}});
    EXPECT_EQ(prepared.use_count(), 2);
    a().Answer();
    EXPECT_EQ(sink->ends(), 1);
  }
}

TEST_F(FleetDriverTest, RemembersWhoWasSentWhat) {
  Make(2);
  const auto why = [this] {
    auto prepared = MakePrepared("r");
    prepared->prompts.front().unit_keys = {1, 2, 3};
    const auto sink = std::make_shared<RecordingSink>();
    EXPECT_TRUE(fleet_->Admit(prepared, sink));
    a().Answer();
    b().Answer();
    return sink->why();
  };
  EXPECT_THAT(why(), HasSubstr("a 0 (backlog 0, cached 0)"));
  EXPECT_THAT(why(), HasSubstr("a 0 (backlog 0, cached 48), b 0 (backlog 0, cached 0)"));
  a().SetReady(false);
  fleet_->Tick();
  clock_.AdvanceMs(20'000);  // it made no progress for long
  fleet_->Tick();
  a().SetReady(true);
  fleet_->Tick();
  clock_.AdvanceMs(20'000);
  EXPECT_THAT(why(), HasSubstr("a 0 (backlog 0, cached 0)"));
}

TEST_F(FleetDriverTest, PassesOverWhoIsNotReady) {
  Make(2);
  a().SetReady(false);
  EXPECT_TRUE(fleet_->Load().ready);
  const auto sink = Ask();
  EXPECT_THAT(sink->workers(), ElementsAre("b"));
  b().SetReady(false);
  EXPECT_FALSE(fleet_->Load().ready);
  EXPECT_EQ(fleet_->Load().why_not, "a is away; b is away");
}

// What another replica may cure, as it comes from a driver.
TEST_F(FleetDriverTest, TriesAnotherReplicaBeforeTheFirstContent) {
  const std::pair<Code, int> kCurable[] = {
      {Code::kUnavailable, 0},       {Code::kUpstreamError, 0},    {Code::kRateLimited, 429},
      {Code::kResourceExhausted, 0}, {Code::kDeadlineExceeded, 0}, {Code::kInternal, 0}};
  for (const auto& [code, status] : kCurable) {
    SCOPED_TRACE(std::string(CodeName(code)));
    replicas_.clear();
    Make(2);
    const auto sink = Ask();
    a().Emit(wire::UpstreamHeaders{{{"x-of", "a"}}});
    a().Emit(wire::Started{});
    a().Emit(wire::RawChunk{"role of a"});
    Fail(a(), code, status);
    EXPECT_EQ(sink->ends(), 0);
    b().Emit(wire::RawChunk{"role of b"});
    b().Emit(wire::RawChunk{"text of b"});
    b().Answer();
    EXPECT_THAT(sink->workers(), ElementsAre("a", "b"));
    ASSERT_EQ(sink->All<wire::RawChunk>().size(), 2u);
    EXPECT_EQ(sink->All<wire::RawChunk>()[0].json, "role of b");
    EXPECT_THAT(sink->All<wire::UpstreamHeaders>(), IsEmpty());
    EXPECT_EQ(sink->text(), "b");
    EXPECT_EQ(sink->ends(), 1);
    EXPECT_EQ(fleet_->Describe().retries, 1u);
    TearDown();
  }
}

TEST_F(FleetDriverTest, TriesAnotherReplicaWhereOneRefusesAtOnce) {
  Make(2);
  a().OnAdmit([](const auto&) { return fak::Fail(Code::kUnavailable, "not known yet"); });
  const auto sink = Ask();
  b().Answer();
  EXPECT_EQ(sink->text(), "b");
  EXPECT_EQ(fleet_->Describe().retries, 0u);  // it cost nobody anything
  b().OnAdmit([](const auto&) { return fak::Fail(Code::kInvalidArgument, "no such field"); });
  EXPECT_EQ(Refusal().code, Code::kInvalidArgument);
}

TEST_F(FleetDriverTest, RepeatsNoErrorThatWouldRepeat) {
  Make(2);
  const std::pair<Code, int> kRepeat[] = {{Code::kUpstreamError, 400},
                                          {Code::kUpstreamError, 422},
                                          {Code::kContextTooLong, 400},
                                          {Code::kInvalidArgument, 0},
                                          {Code::kCancelled, 0}};
  for (const auto& [code, status] : kRepeat) {
    const auto sink = Ask();
    a().Emit(wire::UpstreamHeaders{{{"x-of", "a"}}});
    Fail(a(), code, status);
    EXPECT_EQ(sink->failure().code, code);
    EXPECT_EQ(sink->All<wire::UpstreamHeaders>().size(), 1u);
  }
  EXPECT_EQ(b().admitted(), 0);
  EXPECT_EQ(StatusOf(0).state, ReplicaState::kHealthy);
}

// It listed the model, and was started anew with another one.
TEST_F(FleetDriverTest, TriesAnotherReplicaWhereOneServesAnotherModelNow) {
  Make(2);
  const auto sink = Ask();
  Fail(a(), Code::kUpstreamError, 404);
  b().Answer();
  EXPECT_EQ(sink->text(), "b");
  EXPECT_EQ(StatusOf(0).failures, 0u);
}

TEST_F(FleetDriverTest, TriesNothingAgainAfterTheFirstContent) {
  Make(2);
  const auto sink = Ask();
  a().Emit(wire::TextDelta{0, "a", {}, {}});
  Fail(a(), Code::kUpstreamError);
  EXPECT_EQ(sink->failure().detail, "it failed");
  EXPECT_EQ(b().admitted(), 0);
  EXPECT_EQ(StatusOf(0).failures, 1u);
}

TEST_F(FleetDriverTest, TriesNothingAgainBeyondItsBudget) {
  Make(2, {.retries = {.share = 0, .least_per_s = 0.1}});  // one in the window
  const auto cured = Ask();
  Fail(a(), Code::kUpstreamError);
  b().Answer();
  EXPECT_EQ(cured->text(), "b");
  const auto failed = Ask();
  Fail(a(), Code::kUpstreamError);
  EXPECT_EQ(failed->failure().code, Code::kUpstreamError);
  EXPECT_EQ(fleet_->Describe().retries_denied, 1u);
}

TEST_F(FleetDriverTest, TriesNoMoreReplicasThanItMay) {
  Make(5, {.attempts_max = 3});
  const auto sink = Ask();
  for (ScriptedReplica* replica : replicas_) {
    Fail(*replica, Code::kUpstreamError);
  }
  EXPECT_EQ(sink->failure().code, Code::kUpstreamError);
  EXPECT_THAT(sink->workers(), ElementsAre("a", "b", "c"));
}

TEST_F(FleetDriverTest, LeavesAloneWhoAskedForIt) {
  Make(2);
  const auto sink = Ask("1");
  Fail(a(), Code::kRateLimited, 429, /*retry_after_s=*/3);
  EXPECT_THAT(Ask("2")->workers(), ElementsAre("b"));
  Fail(b(), Code::kRateLimited, 429, 3);
  EXPECT_EQ(sink->failure().retry_after_s, 3);  // nobody is left who may be asked
  clock_.AdvanceMs(3'000);
  EXPECT_THAT(Ask("3")->workers(), ElementsAre("a"));
  EXPECT_EQ(StatusOf(0).breaker, BreakerState::kClosed);
}

TEST_F(FleetDriverTest, KeepsRequestsFromOneThatFailsThem) {
  Make(2);
  for (int i = 0; i < 5; ++i) {
    clock_.AdvanceMs(5'000);  // no longer suspect of the last one
    Ask();
    a().End("", wire::Failed{{Code::kUpstreamError, "HTTP 500"}});
    b().Answer();
  }
  EXPECT_EQ(StatusOf(0).breaker, BreakerState::kOpen);
  EXPECT_EQ(StatusOf(0).state, ReplicaState::kDown);
  EXPECT_THAT(StatusOf(0).why, HasSubstr("HTTP 500"));
  EXPECT_THAT(Ask("passes it over")->workers(), ElementsAre("b"));
  b().Answer();
  clock_.AdvanceMs(5'000);
  EXPECT_THAT(Ask("trial")->workers(), ElementsAre("a"));
  EXPECT_THAT(Ask("beside")->workers(), ElementsAre("b"));
  a().Answer();
  EXPECT_EQ(StatusOf(0).breaker, BreakerState::kClosed);
}

TEST_F(FleetDriverTest, GoesToAllWhereNobodyIsWell) {
  Make(2);
  a().SetReady(false);
  b().SetReady(false);
  fleet_->Tick();
  EXPECT_FALSE(fleet_->Describe().panic);  // they are suspect
  clock_.AdvanceMs(3'000);
  fleet_->Tick();
  EXPECT_TRUE(fleet_->Describe().panic);
  const auto first = Ask("1");
  const auto second = Ask("2");
  EXPECT_THAT(second->workers(), ElementsAre("b"));
  EXPECT_THAT(second->why(), HasSubstr("nobody is healthy or suspect"));
  Fail(a(), Code::kUnavailable);
  EXPECT_EQ(first->failure().code, Code::kUnavailable);  // not tried again: it would be a storm
  a().SetReady(true);
  fleet_->Tick();
  EXPECT_FALSE(fleet_->Describe().panic);
}

TEST_F(FleetDriverTest, IsInNoPanicWhileAllAreJoining) {
  std::vector<FleetMember> members(1);
  members[0].options.name = "late";
  auto late = std::make_unique<ScriptedReplica>("late");
  late->SetReady(false);
  members[0].driver = std::move(late);
  fleet_ = std::make_unique<FleetDriver>(std::move(members),
                                         FleetOptions{.policy = std::make_unique<test::InOrder>()},
                                         clock_, random_);
  fleet_->Tick();
  clock_.AdvanceMs(60'000);
  EXPECT_EQ(StatusOf(0).state, ReplicaState::kJoining);
  EXPECT_FALSE(fleet_->Describe().panic);
}

TEST_F(FleetDriverTest, TakesWhatWaitsAwayFromOneThatIsGone) {
  Make(2);
  const auto first = Ask("first");
  a().Emit(wire::RawChunk{"role"});
  EXPECT_THAT(Ask("at b")->workers(), ElementsAre("b"));
  EXPECT_THAT(Ask("second")->workers(), ElementsAre("a"));
  a().SetReady(false);
  fleet_->Tick();
  clock_.AdvanceMs(2'999);
  fleet_->Tick();
  EXPECT_EQ(a().open(), 2u);
  clock_.AdvanceMs(1);
  fleet_->Tick();
  EXPECT_THAT(a().cancelled(), UnorderedElementsAre("first", "second"));
  EXPECT_THAT(first->workers(), ElementsAre("a", "b"));
  EXPECT_EQ(first->ends(), 0);
  EXPECT_EQ(StatusOf(0).in_flight, 0);
  EXPECT_EQ(StatusOf(0).backlog_tokens, 0);
  for (int i = 0; i < 3; ++i) {
    b().Answer();
  }
  EXPECT_EQ(first->text(), "b");
  EXPECT_EQ(first->ends(), 1);
}

TEST_F(FleetDriverTest, ManyMayLeaveOneThatIsGoneWhateverTheBudget) {
  Make(2, {.retries = {.share = 0, .least_per_s = 0.1}});  // one in the window
  for (int i = 0; i < 8; ++i) {
    Ask(std::to_string(i));
  }
  ASSERT_EQ(a().open(), 4u);
  a().SetReady(false);
  fleet_->Tick();
  clock_.AdvanceMs(3'000);
  fleet_->Tick();
  EXPECT_EQ(a().open(), 0u);
  EXPECT_EQ(b().open(), 8u);
  EXPECT_EQ(fleet_->Describe().retries_denied, 0u);
}

TEST_F(FleetDriverTest, OneThatIsBusyIsBetterThanOneThatIsGone) {
  Make(2);
  const auto moved = Ask("1");
  const auto second = Ask("2");
  Fail(a(), Code::kRateLimited, 429, /*retry_after_s=*/60);
  EXPECT_THAT(moved->workers(), ElementsAre("a", "b"));
  b().SetReady(false);
  fleet_->Tick();
  clock_.AdvanceMs(3'000);
  fleet_->Tick();
  EXPECT_THAT(second->workers(), ElementsAre("b", "a"));
  EXPECT_EQ(moved->failure().code, Code::kUnavailable) << "it was at both already";
}

TEST_F(FleetDriverTest, TakesWhatWaitsAwayFromOneThatNeverCame) {
  std::vector<FleetMember> members;
  replicas_.resize(2);
  members.push_back(Member("a", &replicas_[0]));
  members.push_back(Member("b", &replicas_[1]));
  a().SetReady(false);
  b().SetReady(false);
  fleet_ = std::make_unique<FleetDriver>(std::move(members),
                                         FleetOptions{.policy = std::make_unique<test::InOrder>()},
                                         clock_, random_);
  fleet_->Tick();
  const auto sink = Ask();
  ASSERT_THAT(sink->workers(), ElementsAre("a"));
  b().SetReady(true);
  fleet_->Tick();
  clock_.AdvanceMs(3'000);
  fleet_->Tick();
  EXPECT_THAT(sink->workers(), ElementsAre("a", "b"));
}

// It would have two owners, and be placed twice.
TEST_F(FleetDriverTest, TakesNothingAwayWhileAReplicaTakesIt) {
  Make(3);
  a().OnAdmit([this](const auto&) -> Status {
    a().SetReady(false);
    fleet_->Tick();
    clock_.AdvanceMs(3'000);
    fleet_->Tick();
    return fak::Fail(Code::kUnavailable, "refused");
  });
  const auto sink = Ask();
  EXPECT_THAT(sink->workers(), ElementsAre("a", "b"));
  b().Answer();
  EXPECT_EQ(replicas_[2]->admitted(), 0);
  EXPECT_EQ(sink->ends(), 1);
}

TEST_F(FleetDriverTest, LeavesAStreamWhereItHasBegun) {
  Make(2);
  const auto sink = Ask();
  a().Emit(wire::TextDelta{0, "1", {}, {}});
  a().SetReady(false);
  for (int i = 0; i < 10; ++i) {
    clock_.AdvanceMs(3'000);
    fleet_->Tick();
  }
  a().Emit(wire::TextDelta{0, "2", {}, {}});
  a().End("", wire::Done{});
  EXPECT_EQ(sink->text(), "12");
  EXPECT_EQ(sink->workers().size(), 1u);
}

TEST_F(FleetDriverTest, SendsNothingNewToOneThatDrains) {
  Make(2);
  const auto sink = Ask("1");
  ASSERT_TRUE(fleet_->DrainReplica("a"));
  EXPECT_THAT(Ask("2")->workers(), ElementsAre("b"));
  EXPECT_THAT(Ask("3")->workers(), ElementsAre("b"));
  EXPECT_EQ(StatusOf(0).state, ReplicaState::kDraining);
  a().Answer();
  EXPECT_EQ(sink->text(), "a");
  ASSERT_TRUE(fleet_->DrainReplica("b"));
  EXPECT_FALSE(fleet_->Load().ready);
  const Error nobody = Refusal();
  EXPECT_EQ(nobody.code, Code::kUnavailable);
  EXPECT_GT(nobody.retry_after_s, 0);
  ASSERT_TRUE(fleet_->UndrainReplica("a"));
  EXPECT_THAT(Ask("4")->workers(), ElementsAre("a"));
  EXPECT_EQ(fleet_->DrainReplica("nobody").error().code, Code::kNotFound);
}

TEST_F(FleetDriverTest, CancelsARequestWhereverItIs) {
  Make(2);
  const auto placed = Ask("placed");
  fleet_->Cancel("placed");
  EXPECT_EQ(placed->failure().code, Code::kCancelled);
  fleet_->Cancel("nobody");
  // Between two tries.
  const auto between = std::make_shared<RecordingSink>();
  between->on_placed_ = [this, count = 0]() mutable {
    if (++count == 2) {
      fleet_->Cancel("between");
    }
  };
  ASSERT_TRUE(fleet_->Admit(MakePrepared("between"), between));
  Fail(a(), Code::kUpstreamError);
  EXPECT_EQ(between->failure().code, Code::kCancelled);
  EXPECT_EQ(b().open(), 0u);
  // While the second one takes it.
  b().OnAdmit([this](const auto&) -> Status {
    fleet_->Cancel("within");
    return {};
  });
  const auto within = Ask("within");
  Fail(a(), Code::kUpstreamError);
  EXPECT_EQ(within->failure().code, Code::kCancelled);
}

TEST_F(FleetDriverTest, GivesUpWithTheRequestsDeadline) {
  Make(2);
  auto prepared = MakePrepared("r");
  prepared->deadline_ns = clock_.NowNs() + 10 * kNsPerMs;
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_TRUE(fleet_->Admit(prepared, sink));
  clock_.AdvanceMs(10);
  Fail(a(), Code::kDeadlineExceeded);
  EXPECT_EQ(sink->failure().code, Code::kDeadlineExceeded);
  EXPECT_EQ(b().admitted(), 0);
  EXPECT_EQ(StatusOf(0).failures, 1u) << "it had all of that time, and gave nothing";
}

// A wedged replica, or one that refuses a prompt, has computed nothing of it.
TEST_F(FleetDriverTest, CreditsNobodyWithAPromptThatCameToNothing) {
  Make(2);
  const auto ask = [this](const char* id) {
    auto prepared = MakePrepared(id);
    prepared->prompts.front().unit_keys = {1, 2, 3, 4, 5};
    prepared->deadline_ns = clock_.NowNs() + 10 * kNsPerMs;
    const auto sink = std::make_shared<RecordingSink>();
    EXPECT_TRUE(fleet_->Admit(prepared, sink));
    return sink;
  };
  ask("times out");
  EXPECT_THAT(ask("beside it")->why(), HasSubstr("a 1 (backlog 100, cached 80)"))
      << "while it is open, others follow it";
  b().Answer();
  clock_.AdvanceMs(10);
  Fail(a(), Code::kDeadlineExceeded);
  EXPECT_THAT(ask("refused")->why(), HasSubstr("a 0 (backlog 0, cached 0)"));
  Fail(a(), Code::kContextTooLong, 400);
  const auto third = ask("left");
  EXPECT_THAT(third->why(), HasSubstr("a 0 (backlog 0, cached 0)"));
  fleet_->Cancel("left");
  const auto answered = ask("answered");
  EXPECT_THAT(answered->why(), HasSubstr("a 0 (backlog 0, cached 0)"));
  a().Answer();
  EXPECT_THAT(ask("next")->why(), HasSubstr("a 0 (backlog 0, cached 80)"));
  Fail(a(), Code::kContextTooLong, 400);
  EXPECT_THAT(ask("last")->why(), HasSubstr("a 0 (backlog 0, cached 80)"))
      << "what it had before stays";
}

TEST_F(FleetDriverTest, TokenizesWhereTheModelIsAndSomebodyIsUp) {
  Make(3);
  fleet_->SetModels("a", {"x"});
  fleet_->SetModels("b", {"y"});
  fleet_->SetModels("c", {"y"});
  const auto by = [this](const std::string& model) {
    std::string who;
    fleet_->Tokenize(model, "text", [&who](const Result<std::vector<int32_t>>& tokens) {
      who = tokens ? std::string(1, static_cast<char>(tokens->front())) : tokens.error().detail;
    });
    return who;
  };
  EXPECT_EQ(by("x"), "a");
  EXPECT_EQ(by("y"), "b");
  EXPECT_THAT(by("z"), HasSubstr("no upstream with this model"));
  b().SetReady(false);
  EXPECT_EQ(by("y"), "c");
  ASSERT_TRUE(fleet_->DrainReplica("c"));
  EXPECT_EQ(by("y"), "c") << "the one that is up, though it drains, after the one that isn't";
}

TEST_F(FleetDriverTest, BeginsABatchWithWhatIsPassedOn) {
  Make(2);
  std::vector<std::shared_ptr<driver::EventSink>> attempts;
  for (ScriptedReplica* replica : replicas_) {
    replica->OnAdmit([&attempts](const ScriptedReplica::Open& open) -> Status {
      attempts.push_back(open.sink);
      return {};
    });
  }
  const auto sink = Ask();
  attempts[0]->BeginBatch();
  Fail(a(), Code::kUpstreamError);
  attempts[1]->BeginBatch();
  EXPECT_EQ(sink->open_batches(), 0);
  b().Emit(wire::TextDelta{0, "b", {}, {}});
  EXPECT_EQ(sink->open_batches(), 1);
  attempts[0]->EndBatch();
  EXPECT_EQ(sink->open_batches(), 1);
  attempts[1]->EndBatch();
  EXPECT_EQ(sink->open_batches(), 0);
}

TEST_F(FleetDriverTest, EndsAllWithoutTryingAgainWhenItStops) {
  Make(2);
  const auto sink = Ask();
  fleet_->Stop();
  EXPECT_EQ(sink->failure().code, Code::kUnavailable);
  EXPECT_EQ(b().admitted(), 0);
  EXPECT_EQ(Refusal().code, Code::kUnavailable);
}

TEST_F(FleetDriverTest, IsDrainedWhenTheLastRequestHasEnded) {
  Make(2);
  const auto sink = Ask();
  bool drained = false;
  fleet_->Drain([&drained] { drained = true; });
  EXPECT_EQ(Refusal().code, Code::kUnavailable);
  Fail(a(), Code::kUpstreamError);  // and goes to b
  EXPECT_FALSE(drained);
  b().Answer();
  EXPECT_TRUE(drained);
  EXPECT_EQ(sink->text(), "b");
}

TEST_F(FleetDriverTest, EjectsWhoIsFarSlowerThanItsFellows) {
  Make(4);
  for (int i = 0; i < 10; ++i) {
    for (int j = 0; j < 4; ++j) {
      Ask(std::to_string(i) + "." + std::to_string(j));
    }
    clock_.AdvanceMs(100);
    for (int j = 0; j < 3; ++j) {
      replicas_[static_cast<size_t>(j)]->Answer();
    }
    clock_.AdvanceMs(1'900);
    replicas_[3]->Answer();
  }
  fleet_->Tick();
  EXPECT_EQ(StatusOf(3).state, ReplicaState::kSuspect);
  EXPECT_THAT(StatusOf(3).why, HasSubstr("far later"));
  EXPECT_EQ(StatusOf(2).state, ReplicaState::kHealthy);
  EXPECT_EQ(StatusOf(3).ttft_p50_s, 2.0);
  clock_.AdvanceMs(10'000);
  EXPECT_EQ(StatusOf(3).state, ReplicaState::kHealthy);
}

TEST_F(FleetDriverTest, CountsTheHitRate) {
  Make(1);
  Ask();
  a().Emit(wire::TextDelta{0, "x", {}, {}});
  a().Emit(wire::UsageReport{{.prompt_tokens = 100, .completion_tokens = 1, .cached_tokens = 25}});
  a().End("", wire::Done{});
  EXPECT_EQ(StatusOf(0).hit_rate, 0.25);
}

TEST_F(FleetDriverTest, HoldsBackAllThatComesBeforeTheFirstContent) {
  Make(2);
  const auto sink = Ask();
  for (int i = 0; i < 20; ++i) {
    a().Emit(wire::RawChunk{"role of a"});
    a().Emit(wire::UsageReport{{.prompt_tokens = 100, .completion_tokens = 0}});
  }
  Fail(a(), Code::kUpstreamError);
  b().Emit(wire::RawChunk{"role of b"});
  b().Emit(wire::UsageReport{{.prompt_tokens = 100, .cached_tokens = 25}});
  b().Answer();
  ASSERT_EQ(sink->All<wire::RawChunk>().size(), 1u);
  EXPECT_EQ(sink->All<wire::RawChunk>()[0].json, "role of b");
  EXPECT_EQ(sink->All<wire::UsageReport>().size(), 1u);
  EXPECT_EQ(sink->text(), "b");
  EXPECT_EQ(StatusOf(1).hit_rate, 0.25) << "what was held back counts";
}

TEST_F(FleetDriverTest, HoldsBackNoMoreThanItMay) {
  Make(2);
  const auto sink = Ask();
  a().Emit(wire::RawChunk{std::string(limits::kHeldAnswerBytesMax / 2, ' ')});
  EXPECT_THAT(sink->All<wire::RawChunk>(), IsEmpty());
  a().Emit(wire::RawChunk{std::string(limits::kHeldAnswerBytesMax / 2, ' ')});
  EXPECT_EQ(sink->All<wire::RawChunk>().size(), 2u);
  a().Answer();
  EXPECT_EQ(sink->text(), "a");
}

// Shares are counted in tokens: what a tenant's next request costs is what answers were long.
TEST_F(FleetDriverTest, BelievesNoUsageThatIsFarOut) {
  Make(1, {}, {{.max_concurrency = 1}});
  const auto ask = [this](const std::string& id, const std::string& tenant, size_t bytes) {
    auto prepared = MakePrepared(id);
    prepared->tenant = tenant;
    prepared->prompts.front().text = std::string(bytes, 'x');
    auto sink = std::make_shared<RecordingSink>();
    EXPECT_TRUE(fleet_->Admit(prepared, sink));
    return sink;
  };
  Ask("liar");
  a().Emit(wire::TextDelta{0, "x", {}, {}});
  a().Emit(wire::UsageReport{{.prompt_tokens = INT32_MAX, .completion_tokens = INT32_MAX}});
  a().End("", wire::Done{});
  Ask("open");
  ask("large 1", "large", 80'000);
  const auto large = ask("large 2", "large", 80'000);
  ask("small 1", "small", 400);
  ask("small 2", "small", 400);
  const auto small = ask("small 3", "small", 400);
  for (int i = 0; i < 4; ++i) {
    a().Answer();
  }
  EXPECT_THAT(small->workers(), ElementsAre("a")) << "its share, by what its prompts cost";
  EXPECT_THAT(large->workers(), IsEmpty());
  a().Answer();
}

TEST_F(FleetDriverTest, AsksEverybodyToEvictAndToSleep) {
  Make(2);
  b().SetModels({"other"});
  const auto evicted = [this](const std::string& model) {
    std::vector<std::string> workers;
    fleet_->Evict({.scope = {}, .tokens = {}, .cache_salt = {}, .model = model},
                  [&workers](const std::vector<driver::EvictOutcome>& all) {
                    for (const driver::EvictOutcome& each : all) {
                      workers.push_back(each.worker + (each.report ? "" : " not"));
                    }
                  });
    return workers;
  };
  EXPECT_THAT(evicted(""), ElementsAre("a", "b"));
  EXPECT_THAT(evicted("other"), ElementsAre("b"));
  EXPECT_THAT(evicted("nosuch"), IsEmpty());
  a().evicts_ = false;
  EXPECT_THAT(evicted(""), ElementsAre("a not", "b"));
  EXPECT_THAT(evicted("other"), ElementsAre("b"));
  size_t asleep = 0;
  const auto count = [&asleep](const std::vector<driver::SleepOutcome>& all) {
    asleep = all.size();
  };
  fleet_->SetAsleep({.worker = "a"}, count);
  EXPECT_EQ(asleep, 1u);
  fleet_->SetAsleep({.worker = "nobody"}, count);
  EXPECT_EQ(asleep, 0u);
}

TEST_F(FleetDriverTest, ExplainsWithoutPlacing) {
  Make(3);
  const auto open = Ask("1");
  replicas_[2]->SetModels({"other"});
  ASSERT_TRUE(fleet_->DrainReplica("b"));
  auto prepared = MakePrepared("2");
  const Explanation said = fleet_->Explain(prepared);
  EXPECT_EQ(said.policy, "in_order");
  EXPECT_EQ(said.prompt_tokens, 100);
  EXPECT_EQ(said.chosen, "a");
  EXPECT_EQ(said.why, "in order");
  ASSERT_EQ(said.replicas.size(), 3u);
  EXPECT_EQ(said.replicas[0].cost, 1);
  EXPECT_EQ(said.replicas[0].backlog_tokens, 100);
  EXPECT_EQ(said.replicas[1].why_not, "draining");
  EXPECT_EQ(said.replicas[2].why_not, "doesn't list the model");
  EXPECT_EQ(fleet_->Describe().open_requests, 1);
  ASSERT_TRUE(fleet_->DrainReplica("a"));
  const Explanation nobody = fleet_->Explain(prepared);
  EXPECT_EQ(nobody.chosen, "");
  EXPECT_EQ(
      nobody.why,
      "every upstream that could answer is being drained: a is drained (fak fleet undrain a); "
      "b is drained (fak fleet undrain b)");
  a().Answer();
}

}  // namespace
}  // namespace fak::fleet
