#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fleet/fleet_driver_fixture.h"

// Streams that go on at another replica when theirs dies.
namespace fak::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kTokens = 12;

std::string Numbers(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += std::to_string(i) + " ";
  }
  return text;
}

std::vector<int32_t> Ids(int count) {
  std::vector<int32_t> ids;
  for (int i = 0; i < count; ++i) {
    ids.push_back(i);
  }
  return ids;
}

class ResumeStreamsTest : public FleetDriverTest {
 protected:
  void Make(size_t count, std::vector<ReplicaOptions> options = {}) {
    FleetDriverTest::Make(count, {.resume_streams = true}, std::move(options));
  }
  ScriptedReplica& c() { return *replicas_[2]; }
};

TEST_F(ResumeStreamsTest, LosesAndRepeatsNoTokenWhereverAReplicaDies) {
  for (int dies_at = 1; dies_at < kTokens; ++dies_at) {
    SCOPED_TRACE(dies_at);
    replicas_.clear();
    Make(2);
    const auto sink = Ask();
    a().Say(0, dies_at);
    Fail(a(), Code::kUpstreamError);
    ASSERT_EQ(sink->ends(), 0);
    ASSERT_EQ(b().open(), 1u);
    const auto so_far = b().asked()->maybe_continuation;
    ASSERT_NE(so_far, nullptr);
    EXPECT_EQ(so_far->tokens, Ids(dies_at));
    EXPECT_EQ(so_far->artifact, "artifact");
    EXPECT_EQ(so_far->created_s, 1000);
    EXPECT_EQ(so_far->seed, 7u);
    ASSERT_EQ(so_far->head.size(), 2u);
    EXPECT_EQ(so_far->head[0].name + *so_far->head[0].json, R"(id"a")");
    b().Say(dies_at, kTokens - dies_at, /*finish=*/true);
    EXPECT_EQ(sink->text(), Numbers(kTokens));
    EXPECT_EQ(sink->All<wire::Finish>().size(), 1u);
    EXPECT_EQ(sink->ends(), 1);
    EXPECT_EQ(sink->after_end(), 0);
    EXPECT_EQ(sink->resumed(), 1);
    EXPECT_EQ(fleet_->Describe().resumed, 1u);
    EXPECT_EQ(StatusOf(0).failures, 1u);
    EXPECT_EQ(StatusOf(1).failures, 0u);
  }
}

TEST_F(ResumeStreamsTest, GoesOnMoreThanOnce) {
  Make(3);
  const auto sink = Ask();
  a().Say(0, 3);
  Fail(a(), Code::kUpstreamError);
  Fail(b(), Code::kUnavailable);  // before it said anything
  EXPECT_EQ(c().asked()->maybe_continuation->tokens, Ids(3));
  c().Say(3, kTokens - 3, /*finish=*/true);
  EXPECT_EQ(sink->text(), Numbers(kTokens));
  EXPECT_THAT(sink->workers(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(sink->resumed(), 2);
}

TEST_F(ResumeStreamsTest, PassesOverOneThatRefusesAtOnce) {
  Make(3);
  b().OnAdmit([](const auto&) { return fak::Fail(Code::kUnavailable, "not now"); });
  const auto sink = Ask();
  a().Say(0, 3);
  Fail(a(), Code::kUpstreamError);
  EXPECT_EQ(c().asked()->maybe_continuation->tokens, Ids(3));
  c().Say(3, kTokens - 3, /*finish=*/true);
  EXPECT_EQ(sink->text(), Numbers(kTokens));
}

TEST_F(ResumeStreamsTest, SaysAgainWhatAnInexactEngineCantHaveShown) {
  Make(2);
  a().exactly_ = b().exactly_ = false;
  const auto sink = Ask();
  a().Emit(wire::PromptEcho{0, "", {70, 71}, {}});
  a().Say(0, 3);
  a().Emit(wire::TextDelta{0, "", {3}, {}});  // half a character
  Fail(a(), Code::kUpstreamError);
  EXPECT_EQ(b().asked()->maybe_continuation->tokens, Ids(3));
  EXPECT_THAT(b().asked()->maybe_continuation->prompt_tokens, ElementsAre(70, 71));
  b().Say(3, kTokens - 3, /*finish=*/true);
  EXPECT_EQ(sink->text(), Numbers(kTokens));
}

TEST_F(ResumeStreamsTest, TellsTheErrorWhereNobodyIsAlike) {
  for (const bool full : {false, true}) {
    SCOPED_TRACE(full);
    replicas_.clear();
    Make(2);
    b().artifact_ = full ? "artifact" : "another";
    const auto sink = Ask();
    a().Say(0, 3);
    if (full) {
      b().SetReady(false);
      clock_.AdvanceMs(20'000);
      fleet_->Tick();
      clock_.AdvanceMs(20'000);
      fleet_->Tick();
    }
    Fail(a(), Code::kUpstreamError);
    EXPECT_EQ(sink->failure().code, Code::kUpstreamError);
    EXPECT_EQ(sink->text(), Numbers(3));
    EXPECT_EQ(b().open(), 0u);
    EXPECT_EQ(fleet_->Describe().resumed, 0u);
  }
}

// What can't be exact is today's error.
TEST_F(ResumeStreamsTest, GoesOnWithNothingThatIdsDontTell) {
  const std::vector<std::pair<const char*, wire::Event>> kSpoils = {
      {"text without ids", wire::TextDelta{0, "x", {}, {}}},
      {"another choice", wire::TextDelta{1, "x", {1}, {}}},
      {"a tool call", wire::ToolCallDelta{0, 0, "id", "f", ""}},
      {"reasoning", wire::ReasoningDelta{0, "hm"}},
      {"its finish", wire::Finish{}},
      {"too much", wire::TextDelta{0, "x", std::vector<int32_t>(kResumedTokensMax), {}}},
  };
  for (const auto& [what, event] : kSpoils) {
    SCOPED_TRACE(what);
    replicas_.clear();
    Make(2);
    const auto sink = Ask();
    a().Say(0, 2);
    a().Emit(event);
    Fail(a(), Code::kUpstreamError);
    EXPECT_EQ(sink->failure().code, Code::kUpstreamError);
    EXPECT_EQ(b().admitted(), 0);
  }
}

TEST_F(ResumeStreamsTest, AsksForIdsWhereTheyAreOfUseOnly) {
  const auto asks = [this](const std::function<void(wire::Turn&)>& change, size_t replicas = 2,
                           bool resume = true) {
    replicas_.clear();
    FleetDriverTest::Make(replicas, {.resume_streams = resume});
    auto prepared = MakePrepared("r");
    auto turn = std::make_shared<wire::Turn>(*prepared->turn);
    change(*turn);
    prepared->turn = turn;
    EXPECT_TRUE(fleet_->Admit(prepared, std::make_shared<RecordingSink>()));
    return a().asked()->for_resumption;
  };
  EXPECT_TRUE(asks([](wire::Turn&) {}));
  EXPECT_FALSE(asks([](wire::Turn&) {}, 1));
  EXPECT_FALSE(asks([](wire::Turn&) {}, 2, false));
  EXPECT_FALSE(asks([](wire::Turn& turn) { turn.stream = false; }));
  EXPECT_FALSE(asks([](wire::Turn& turn) { turn.n = 2; }));
  EXPECT_FALSE(asks([](wire::Turn& turn) { turn.echo = true; }));
  EXPECT_FALSE(asks([](wire::Turn& turn) { turn.grammar = wire::Turn::GrammarText{}; }));
  const auto prepared = MakePrepared("r");
  EXPECT_TRUE(MayBeResumed(*prepared));
  auto turn = std::make_shared<wire::Turn>(*prepared->turn);
  turn->surface = wire::Surface::kMessages;
  prepared->turn = turn;
  EXPECT_FALSE(MayBeResumed(*prepared));
}

TEST_F(ResumeStreamsTest, LeavesAStoppedReplicaInTheMiddle) {
  Make(2);
  a().CancelLater();
  const auto sink = Ask();
  a().Say(0, 3);
  a().SetReady(false);
  fleet_->Tick();
  clock_.AdvanceMs(20'000);
  fleet_->Tick();
  EXPECT_THAT(a().cancelled(), ElementsAre("r"));
  a().TakeCancels();
  EXPECT_EQ(sink->ends(), 0);
  b().Say(3, kTokens - 3, /*finish=*/true);
  EXPECT_EQ(sink->text(), Numbers(kTokens));
}

TEST_F(ResumeStreamsTest, EndsWithTheClient) {
  Make(2);
  const auto sink = Ask();
  a().Say(0, 3);
  fleet_->Cancel("r");
  EXPECT_EQ(sink->failure().code, Code::kCancelled);
  EXPECT_EQ(b().admitted(), 0);

  const auto second = Ask("s");
  a().Say(0, 3);
  Fail(a(), Code::kUpstreamError);
  fleet_->Cancel("s");
  EXPECT_EQ(second->failure().code, Code::kCancelled);
}

// What the one that goes on finds wrong with that is nothing for the client.
TEST_F(ResumeStreamsTest, TellsWhatItFirstBrokeOffWith) {
  Make(2);
  const auto sink = Ask();
  a().Say(0, 3);
  a().End("", wire::Failed{{Code::kUpstreamError, "closed in the middle"}});
  b().End("", wire::Failed{{Code::kInvalidArgument, "continue_answer: no", "continue_answer"}});
  EXPECT_THAT(sink->failure().detail, HasSubstr("closed in the middle"));
  EXPECT_EQ(StatusOf(0).failures, 1u);
  EXPECT_EQ(StatusOf(1).failures, 0u);
}

TEST_F(ResumeStreamsTest, WaitsForRoomAtItsLike) {
  Make(2, {{.max_concurrency = 1}, {.max_concurrency = 1}});
  const auto sink = Ask("r");
  const auto other = Ask("other");
  a().Say(0, 3);
  Fail(a(), Code::kUpstreamError);
  EXPECT_EQ(sink->ends(), 0);
  b().Answer();
  EXPECT_EQ(other->ends(), 1);
  EXPECT_EQ(b().asked()->maybe_continuation->tokens, Ids(3));
  b().Say(3, kTokens - 3, /*finish=*/true);
  EXPECT_EQ(sink->text(), Numbers(kTokens));
}

TEST_F(ResumeStreamsTest, ClosesTheBatchOfTheOneThatDied) {
  Make(2);
  const auto sink = Ask();
  const auto attempt = a().sink();
  attempt->BeginBatch();
  a().Say(0, 3);
  EXPECT_EQ(sink->open_batches(), 1);
  Fail(a(), Code::kUpstreamError);
  EXPECT_EQ(sink->open_batches(), 0);
  attempt->EndBatch();
  EXPECT_EQ(sink->open_batches(), 0);
  b().Say(3, 1, /*finish=*/true);
}

class ResumeNamedStreamsTest : public ResumeStreamsTest {
 protected:
  // a and c serve "big", b "small", which stands in for the name.
  void MakeNamed(std::vector<ReplicaOptions> options = {}) {
    Make(3, std::move(options));
    a().SetModels({"big"});
    b().SetModels({"small"});
    c().SetModels({"big"});
    auto table = ModelTable::Read(*ConfigTable::Parse("[[model]]\nname = \"gpt\"\n"
                                                      "to = [{ model = \"big\" }]\n"
                                                      "fallback = [\"small\"]\n",
                                                      "f.toml"),
                                  std::nullopt);
    ASSERT_TRUE(table) << table.error().detail;
    fleet_->SetModelTable(*std::move(table));
  }
};

TEST_F(ResumeNamedStreamsTest, GoesOnWithTheModelThatTheNameMeant) {
  MakeNamed();
  const auto sink = Ask("r", "gpt");
  a().Say(0, 3);
  Fail(a(), Code::kUpstreamError);
  ASSERT_EQ(sink->ends(), 0);
  EXPECT_EQ(b().admitted(), 0);
  ASSERT_EQ(c().open(), 1u);
  EXPECT_EQ(driver::ModelOf(*c().asked()), "big");
  EXPECT_EQ(c().asked()->turn->model, "gpt");
  EXPECT_EQ(c().asked()->maybe_continuation->tokens, Ids(3));
  c().Say(3, kTokens - 3, /*finish=*/true);
  EXPECT_EQ(sink->text(), Numbers(kTokens));
  EXPECT_EQ(sink->resumed(), 1);
  EXPECT_EQ(fleet_->DescribeModels().front().requests.at("big"), 1u);
  EXPECT_EQ(fleet_->DescribeModels().front().fallbacks, 0u);
}

// Once something was said no other model can stand in.
TEST_F(ResumeNamedStreamsTest, WaitsForRoomWhereTheModelIs) {
  MakeNamed({{.max_concurrency = 1}, {.max_concurrency = 1}, {.max_concurrency = 1}});
  const auto sink = Ask("r", "gpt");
  const auto other = Ask("other", "gpt");
  a().Say(0, 3);
  Fail(a(), Code::kUpstreamError);
  EXPECT_EQ(sink->ends(), 0);
  EXPECT_EQ(b().admitted(), 0);
  c().Answer();
  EXPECT_EQ(other->ends(), 1);
  ASSERT_EQ(c().open(), 1u);
  EXPECT_EQ(c().asked()->maybe_continuation->tokens, Ids(3));
  c().Say(3, kTokens - 3, /*finish=*/true);
  EXPECT_EQ(sink->text(), Numbers(kTokens));
}

}  // namespace
}  // namespace fak::fleet
