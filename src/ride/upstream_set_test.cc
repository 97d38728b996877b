#include "ride/upstream_set.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ride/test_support.h"

namespace fak::ride {
namespace {

using test::Evict;
using test::kAnswer;
using test::kBegun;
using test::kChat;
using test::MakePrepared;
using test::Start;
using test::Upstream;
using test::WaitingSink;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

std::unique_ptr<UpstreamSet> MakeSet(std::initializer_list<Upstream*> upstreams) {
  std::vector<std::unique_ptr<driver::EngineDriver>> members;
  for (Upstream* upstream : upstreams) {
    members.push_back(Start(upstream->url(), "openai"));
  }
  return std::make_unique<UpstreamSet>(std::move(members));
}

TEST(UpstreamSet, ChoosesByModel) {
  Upstream a;
  Upstream b;
  b.Answer("GET /v1/models", {200, {}, R"({"data":[{"id":"other"}]})"});
  b.Answer("POST /v1/chat/completions", {200, {}, kAnswer});
  const auto set = MakeSet({&a, &b});
  EXPECT_EQ(set->capabilities()->models, (std::vector<std::string>{"m", "other"}));
  const auto sink = std::make_shared<WaitingSink>();
  ASSERT_TRUE(set->Admit(MakePrepared("{}", false, wire::Surface::kChat, "other"), sink));
  EXPECT_TRUE(sink->Wait<wire::Done>());
  EXPECT_THAT(a.all_asked(), Not(Contains("POST /v1/chat/completions")));
  const auto missing = set->Admit(MakePrepared("{}", false, wire::Surface::kChat, "none"), sink);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_THAT(missing.error().detail, HasSubstr("m, other"));
}

TEST(UpstreamSet, ChoosesTheOneWithTheFewestOpenRequests) {
  Upstream a;
  Upstream b;
  a.Hold(kChat, kBegun);
  b.Answer("POST /v1/chat/completions", {200, {}, kAnswer});
  const auto set = MakeSet({&a, &b});
  const auto held = std::make_shared<WaitingSink>();
  ASSERT_TRUE(set->Admit(MakePrepared("{}", true), held));
  ASSERT_TRUE(held->Wait<wire::TextDelta>());
  EXPECT_EQ(set->Load().running, 1);
  const auto sink = std::make_shared<WaitingSink>();
  ASSERT_TRUE(set->Admit(MakePrepared("{}", false), sink));
  EXPECT_TRUE(sink->Wait<wire::Done>());
  set->Cancel("req-1");
  EXPECT_EQ(held->Wait<wire::Failed>()->error.code, Code::kCancelled);
}

TEST(UpstreamSet, PassesOverWhoIsDown) {
  Upstream b;
  b.Answer("POST /v1/chat/completions", {200, {}, kAnswer});
  std::vector<std::unique_ptr<driver::EngineDriver>> members;
  members.push_back(Start("http://127.0.0.1:1", "openai"));
  members.push_back(Start(b.url(), "openai"));
  UpstreamSet set(std::move(members));
  EXPECT_TRUE(set.Load().ready);
  const std::vector<driver::WorkerLoad> rows = set.WorkerLoads();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].worker, "u");
  EXPECT_EQ(rows[0].engine, "openai");
  EXPECT_FALSE(rows[0].load.ready);
  EXPECT_THAT(rows[0].load.why_not, HasSubstr("can't connect"));
  EXPECT_TRUE(rows[1].load.ready);
  const auto sink = std::make_shared<WaitingSink>();
  ASSERT_TRUE(set.Admit(MakePrepared("{}", false), sink));
  EXPECT_TRUE(sink->Wait<wire::Done>());
  const auto unknown = set.Admit(MakePrepared("{}", false, wire::Surface::kChat, "mystery"), sink);
  EXPECT_EQ(unknown.error().code, Code::kUnavailable);  // who is down may have it
}

TEST(UpstreamSet, PassesOverWhomARequestCouldNotConnectTo) {
  Upstream a;
  a.Hold(kChat, kBegun);
  auto b = std::make_unique<Upstream>();
  std::vector<std::unique_ptr<driver::EngineDriver>> members;
  members.push_back(Start(a.url(), "openai"));
  // Probed at its start, and then not for as long as this test takes.
  members.push_back(*UpstreamDriver::Make({.name = "b", .engine = "openai", .url = b->url()},
                                          {.probe_every_ms = 3'600'000}));
  auto& gone = static_cast<UpstreamDriver&>(*members.back());
  ASSERT_TRUE(gone.Start());
  ASSERT_TRUE(gone.WaitForProbe(10'000));
  UpstreamSet set(std::move(members));
  const auto held = std::make_shared<WaitingSink>();
  ASSERT_TRUE(set.Admit(MakePrepared("{}", true), held));
  ASSERT_TRUE(held->Wait<wire::TextDelta>());
  EXPECT_EQ(held->worker(), "u");
  b.reset();
  const auto ask = [&set](const std::string& id) {
    auto prepared = std::make_shared<driver::Prepared>(*MakePrepared("{}", true));
    prepared->request_id = id;
    auto sink = std::make_shared<WaitingSink>();
    EXPECT_TRUE(set.Admit(std::move(prepared), sink));
    return sink;
  };
  const auto failed = ask("second");
  EXPECT_EQ(failed->Wait<wire::Failed>()->error.code, Code::kUnavailable);
  EXPECT_EQ(failed->worker(), "b");
  EXPECT_FALSE(gone.Load().ready);
  EXPECT_THAT(gone.Load().why_not, HasSubstr("upstream b: can't connect"));
  const auto passed_over = ask("third");
  EXPECT_TRUE(passed_over->Wait<wire::TextDelta>());
  EXPECT_EQ(passed_over->worker(), "u");
}

TEST(UpstreamSet, PutsToSleepWhomItIsToldTo) {
  Upstream a;
  Upstream b;
  const auto set = MakeSet({&a, &b});
  const auto rows = [&set](const std::string& worker) {
    std::promise<size_t> done;
    set->SetAsleep({.worker = worker}, [&done](const std::vector<driver::SleepOutcome>& all) {
      done.set_value(all.size());
    });
    return done.get_future().get();
  };
  EXPECT_EQ(rows(""), 2u);
  EXPECT_EQ(rows("nobody"), 0u);
}

TEST(UpstreamSet, EvictsEverywhereAndSaysSo) {
  Upstream a;
  Upstream b;
  const auto set = MakeSet({&a, &b});
  const auto outcomes = Evict(*set, driver::EvictGuarantee::kExact);
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes[0].report.error().code, Code::kUnsupported);
}

TEST(UpstreamSet, EmptiesNoCacheOfAnotherModel) {
  Upstream tiny;
  Upstream bee;
  std::vector<std::unique_ptr<driver::EngineDriver>> members;
  for (auto [upstream, model] : {std::pair(&tiny, "tiny"), {&bee, "bee"}}) {
    upstream->Answer("GET /v1/models",
                     {200, {}, R"({"data":[{"id":")" + std::string(model) + R"("}]})"});
    upstream->Answer("GET /reset_prefix_cache", {405, {}, "{}"});
    upstream->Answer("POST /reset_prefix_cache", {200, {}, R"({"success":true})"});
    members.push_back(Start(upstream->url(), "vllm"));
  }
  UpstreamSet set(std::move(members));
  const auto emptied = [](Upstream& upstream) {
    const auto asked = upstream.all_asked();
    return std::count(asked.begin(), asked.end(), "POST /reset_prefix_cache");
  };
  EXPECT_EQ(Evict(set, driver::EvictGuarantee::kNone, "nosuch").size(), 0u);
  const auto one = Evict(set, driver::EvictGuarantee::kWholePrefix, "tiny");
  ASSERT_EQ(one.size(), 1u);
  EXPECT_TRUE(one[0].report);
  EXPECT_EQ(emptied(tiny), 1);
  EXPECT_EQ(emptied(bee), 0);
  EXPECT_EQ(Evict(set, driver::EvictGuarantee::kNone).size(), 2u);
  EXPECT_EQ(emptied(bee), 1);
}

// Who isn't there may have it: that is told, and nothing is said to be done.
TEST(UpstreamSet, SaysOfWhoIsDownThatNothingWasEvictedThere) {
  Upstream up;
  std::vector<std::unique_ptr<driver::EngineDriver>> members;
  members.push_back(Start("http://127.0.0.1:1", "vllm"));
  members.push_back(Start(up.url(), "openai"));
  UpstreamSet set(std::move(members));
  auto outcomes = Evict(set, driver::EvictGuarantee::kNone, "mystery");
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].report.error().code, Code::kUnavailable);
  EXPECT_EQ(Evict(set, driver::EvictGuarantee::kNone, "m").size(), 2u);
}

}  // namespace
}  // namespace fak::ride
