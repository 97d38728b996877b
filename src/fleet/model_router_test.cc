#include "fleet/model_router.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fleet/fleet_driver_fixture.h"

namespace fak::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ModelRouterTest : public FleetDriverTest {
 protected:
  // a and b serve "big", c "small".
  void MakeModels(const std::string& toml, DispatchOptions dispatch = {},
                  std::vector<ReplicaOptions> options = {}) {
    Make(3, dispatch, std::move(options));
    a().SetModels({"big"});
    b().SetModels({"big"});
    c().SetModels({"small"});
    SetModels(toml);
  }
  void SetModels(const std::string& toml) {
    auto table = ModelTable::Read(*ConfigTable::Parse(toml, "f.toml"), std::nullopt);
    ASSERT_TRUE(table) << table.error().detail;
    fleet_->SetModelTable(*std::move(table));
  }
  ScriptedReplica& c() { return *replicas_[2]; }
  // As clients were told.
  class Sink final : public driver::EventSink {
   public:
    void OnEvent(wire::Event&& event) noexcept override { seen_.OnEvent(std::move(event)); }
    void OnPlaced(const driver::Placement& placement) override {
      placed_.push_back(std::string(placement.worker) + " " + std::string(placement.model) + " " +
                        std::to_string(placement.attempt));
    }
    RecordingSink seen_;
    std::vector<std::string> placed_;
  };
  std::shared_ptr<Sink> AskFor(const std::string& model, const std::string& id = "r") {
    auto sink = std::make_shared<Sink>();
    const Status admitted = fleet_->Admit(MakePrepared(id, model), sink);
    EXPECT_TRUE(admitted) << admitted.error().detail;
    return sink;
  }
  ModelStatus Counted() { return fleet_->DescribeModels().front(); }

  static constexpr const char* kFallback =
      "[[model]]\nname = \"gpt\"\nto = [{ model = \"big\" }]\nfallback = [\"small\"]\n";
};

TEST_F(ModelRouterTest, ANameMeansAModel) {
  MakeModels(kFallback);
  std::string asked;
  a().OnAdmit([&asked](const ScriptedReplica::Open& open) -> Status {
    asked = driver::ModelOf(*open.prepared) + " for " + open.prepared->turn->model;
    return {};
  });
  const auto sink = AskFor("gpt");
  a().Answer();
  EXPECT_EQ(asked, "big for gpt");
  EXPECT_THAT(sink->placed_, ElementsAre("a big 1"));
  EXPECT_EQ(sink->seen_.ends(), 1);
  EXPECT_EQ(Counted().requests.at("big"), 1u);
  EXPECT_EQ(Counted().fallbacks, 0u);
  // Other names stay what they are.
  const auto small = AskFor("small");
  c().Answer();
  EXPECT_THAT(small->placed_, ElementsAre("c  1"));
  EXPECT_EQ(Refusal("gpt-5").code, Code::kNotFound);
}

TEST_F(ModelRouterTest, WhereAllFailTheNextModelIsTried) {
  MakeModels(kFallback);
  const auto sink = AskFor("gpt");
  a().Emit(wire::UpstreamHeaders{{{"x-of", "a"}}});
  Fail(a(), Code::kUpstreamError);
  Fail(b(), Code::kUpstreamError);
  EXPECT_EQ(sink->seen_.ends(), 0);
  c().Emit(wire::UpstreamHeaders{{{"x-of", "c"}}});
  c().Answer();
  EXPECT_EQ(sink->seen_.text(), "c");
  EXPECT_EQ(sink->seen_.ends(), 1);
  ASSERT_EQ(sink->seen_.All<wire::UpstreamHeaders>().size(), 1u);
  EXPECT_EQ(sink->seen_.All<wire::UpstreamHeaders>().front().headers.Get("x-of"), "c");
  EXPECT_THAT(sink->placed_, ElementsAre("a big 1", "b big 2", "c small 3"));
  EXPECT_EQ(Counted().fallbacks, 1u);
}

TEST_F(ModelRouterTest, WhatWouldRepeatOrHasBegunIsNotTriedWithAnother) {
  MakeModels(kFallback);
  const auto refused = AskFor("gpt", "1");
  Fail(a(), Code::kInvalidArgument, 400);
  EXPECT_EQ(refused->seen_.failure().upstream_status, 400);
  const auto begun = AskFor("gpt", "2");
  a().Emit(wire::TextDelta{0, "x", {}, {}});
  Fail(a(), Code::kUpstreamError);
  EXPECT_EQ(begun->seen_.failure().code, Code::kUpstreamError);
  EXPECT_EQ(c().admitted(), 0);
}

TEST_F(ModelRouterTest, WhoIsDownOrGoneIsPassedOver) {
  MakeModels(kFallback);
  a().SetReady(false);
  b().SetReady(false);
  fleet_->Tick();
  clock_.AdvanceMs(4'000);
  fleet_->Tick();
  const auto down = AskFor("gpt", "1");
  EXPECT_THAT(down->placed_, ElementsAre("c small 1"));
  c().Answer();
  ASSERT_TRUE(fleet_->RemoveReplica("a"));
  ASSERT_TRUE(fleet_->DrainReplica("b"));
  const auto drained = AskFor("gpt", "2");
  EXPECT_THAT(drained->placed_, ElementsAre("c small 1"));
  c().Answer();
  // Nobody is there for either: those that are down are asked, as without fallbacks.
  ASSERT_TRUE(fleet_->UndrainReplica("b"));
  ASSERT_TRUE(fleet_->DrainReplica("c"));
  const auto anyway = AskFor("gpt", "3");
  EXPECT_THAT(anyway->placed_, ElementsAre("b big 1"));
  b().Answer();
}

TEST_F(ModelRouterTest, WhoIsFullIsPassedOverAndWaitedForWhereAllAre) {
  MakeModels(kFallback, {},
             {{.max_concurrency = 1}, {.max_concurrency = 1}, {.max_concurrency = 1}});
  const auto first = AskFor("gpt", "1");
  const auto second = AskFor("gpt", "2");
  const auto third = AskFor("gpt", "3");
  EXPECT_THAT(third->placed_, ElementsAre("c small 1"));
  const auto fourth = AskFor("gpt", "4");
  EXPECT_TRUE(fourth->placed_.empty());
  EXPECT_EQ(fleet_->Describe().queued_requests, 1);
  b().Answer();
  EXPECT_THAT(fourth->placed_, ElementsAre("b big 1"));
  a().Answer();
  b().Answer();
  c().Answer();
  EXPECT_EQ(fourth->seen_.ends(), 1);
}

TEST_F(ModelRouterTest, SaysWhatFailedWhereEveryModelDid) {
  MakeModels(kFallback);
  const auto sink = AskFor("gpt");
  Fail(a(), Code::kUpstreamError, 500);
  Fail(b(), Code::kUpstreamError, 500);
  Fail(c(), Code::kUnavailable, 503);
  EXPECT_EQ(sink->seen_.failure().upstream_status, 503);
  EXPECT_EQ(sink->seen_.ends(), 1);
  EXPECT_EQ(sink->seen_.after_end(), 0);
}

TEST_F(ModelRouterTest, ACancelFindsItWhereverItIs) {
  MakeModels(kFallback);
  const auto sink = AskFor("gpt");
  Fail(a(), Code::kUpstreamError);
  Fail(b(), Code::kUpstreamError);
  fleet_->Cancel("r");
  EXPECT_EQ(sink->seen_.failure().code, Code::kCancelled);
  EXPECT_EQ(c().open(), 0u);
  // Between two models.
  const auto between = std::make_shared<Sink>();
  c().OnAdmit([this](const ScriptedReplica::Open&) -> Status {
    fleet_->Cancel("s");
    return {};
  });
  ASSERT_TRUE(fleet_->DrainReplica("a"));
  ASSERT_TRUE(fleet_->DrainReplica("b"));
  ASSERT_TRUE(fleet_->Admit(MakePrepared("s", "gpt"), between));
  EXPECT_EQ(between->seen_.failure().code, Code::kCancelled);
}

TEST_F(ModelRouterTest, ATableMayChangeAndRequestsGoOn) {
  MakeModels(kFallback);
  const auto sink = AskFor("gpt");
  SetModels("[[model]]\nname = \"gpt\"\nto = [{ model = \"small\" }]\n");
  Fail(a(), Code::kUpstreamError);
  Fail(b(), Code::kUpstreamError);
  EXPECT_THAT(sink->placed_, ElementsAre("a big 1", "b big 2", "c small 3"));
  c().Answer();
  const auto next = AskFor("gpt");
  EXPECT_THAT(next->placed_, ElementsAre("c small 1"));
  c().Answer();
}

TEST_F(ModelRouterTest, NobodyFallsBackOnceItsDeadlineIsOver) {
  MakeModels(kFallback);
  auto prepared = MakePrepared("r", "gpt");
  prepared->deadline_ns = clock_.NowNs() + kNsPerSecond;
  const auto sink = std::make_shared<Sink>();
  ASSERT_TRUE(fleet_->Admit(prepared, sink));
  clock_.AdvanceMs(1'000);
  Fail(a(), Code::kDeadlineExceeded);
  EXPECT_EQ(sink->seen_.failure().code, Code::kDeadlineExceeded);
  EXPECT_EQ(c().admitted(), 0);
}

driver::Prepared Said(const std::string& document, const std::string& tenant = "",
                      wire::HttpHeaders headers = {}) {
  driver::Prepared prepared;
  static int ids = 0;
  prepared.request_id = std::to_string(ids++);
  prepared.tenant = tenant;
  prepared.document = std::make_shared<const Json>(*ParseJson(document));
  prepared.client_headers = std::move(headers);
  return prepared;
}

TEST(ConversationOf, IsTheSameInLaterTurns) {
  const std::string first = R"({"messages":[{"role":"system","content":"s"},)"
                            R"({"role":"user","content":"a"}]})";
  const std::string later = R"({"messages":[{"role":"system","content":"s"},)"
                            R"({"role":"user","content":"a"},{"role":"assistant","content":"b"},)"
                            R"({"role":"user","content":"c"}]})";
  const std::string other = R"({"messages":[{"role":"system","content":"s"},)"
                            R"({"role":"user","content":"z"}]})";
  EXPECT_EQ(ConversationOf(Said(first)), ConversationOf(Said(later)));
  const std::set<uint64_t> different = {ConversationOf(Said(first)),
                                        ConversationOf(Said(other)),
                                        ConversationOf(Said(first, "bob")),
                                        ConversationOf(Said(R"({"input":"x"})")),
                                        ConversationOf(Said(R"({"input":"y"})")),
                                        ConversationOf(Said("{}")),
                                        ConversationOf(Said("{}"))};
  EXPECT_EQ(different.size(), 7u);
  EXPECT_EQ(ConversationOf(Said(first, "", {{"x-session-id", "1"}})),
            ConversationOf(Said(other, "", {{"x-session-id", "1"}})));
  EXPECT_EQ(ConversationOf(Said(R"({"user":"u","messages":[]})")),
            ConversationOf(Said(R"({"user":"u","messages":["x"]})")));
}

}  // namespace
}  // namespace fak::fleet
