#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ride/test_support.h"

namespace fak::ride {
namespace {

using test::Evict;
using test::Start;
using test::Upstream;
using ::testing::Contains;
using ::testing::Not;

TEST(UpstreamEvict, EvictsAsEachEngineCanAndNeverExactly) {
  using driver::EvictGuarantee;
  Upstream upstream;
  upstream.Answer("GET /reset_prefix_cache", {405, {}, R"({"detail":"Method Not Allowed"})"});
  upstream.Answer("POST /reset_prefix_cache", {200, {}, R"({"success":true})"});
  upstream.Answer("POST /flush_cache", {400, {}, "busy"});
  upstream.Answer("GET /props", {200, {}, R"({"total_slots":2})"});
  upstream.Answer("GET /health", {200, {}, R"({"status":"ok"})"});
  upstream.Answer("POST /slots/0?action=none",
                  {400, {}, R"({"error":{"message":"Invalid action"}})"});
  upstream.Answer("POST /slots/0?action=erase", {200, {}, R"({"id_slot":0,"n_erased":5})"});
  upstream.Answer("POST /slots/1?action=erase", {200, {}, R"({"id_slot":1,"n_erased":0})"});
  const auto vllm = Start(upstream.url(), "vllm");
  auto outcome = Evict(*vllm, EvictGuarantee::kWholePrefix).at(0);
  ASSERT_TRUE(outcome.report) << outcome.report.error().detail;
  EXPECT_EQ(outcome.report->guarantee, EvictGuarantee::kWholePrefix);
  EXPECT_EQ(outcome.report->call, "POST /reset_prefix_cache");
  EXPECT_TRUE(outcome.honours_cache_salt);
  EXPECT_EQ(outcome.report->blocks, std::nullopt);  // nobody has counted them
  upstream.Answer("POST /reset_prefix_cache", {200, {}, R"({"success":false})"});
  EXPECT_EQ(Evict(*vllm, EvictGuarantee::kNone).at(0).report.error().code, Code::kUnavailable);

  const auto sglang = Start(upstream.url(), "sglang");
  EXPECT_EQ(Evict(*sglang, EvictGuarantee::kNone).at(0).report.error().code, Code::kUnavailable);
  const auto llama = Start(upstream.url(), "llamacpp");
  outcome = Evict(*llama, EvictGuarantee::kNone).at(0);
  ASSERT_TRUE(outcome.report) << outcome.report.error().detail;
  EXPECT_EQ(outcome.report->call, "POST /slots/0?action=erase, POST /slots/1?action=erase");
  EXPECT_EQ(outcome.report->guarantee, EvictGuarantee::kNone);
  EXPECT_FALSE(outcome.honours_cache_salt);
  EXPECT_EQ(Evict(*llama, EvictGuarantee::kWholePrefix).at(0).report.error().code,
            Code::kUnsupported);

  for (const char* engine :
       {"vllm", "sglang", "llamacpp", "dynamo", "llmd", "mlx", "openai", "anthropic"}) {
    const auto driver = Start(upstream.url(), engine);
    const auto exact = Evict(*driver, EvictGuarantee::kExact).at(0);
    ASSERT_FALSE(exact.report) << engine;
    EXPECT_EQ(exact.report.error().code, Code::kUnsupported) << engine;
    EXPECT_EQ(exact.report.error().field, "guarantee") << engine;
  }
  const auto dynamo = Start(upstream.url(), "dynamo");
  EXPECT_EQ(Evict(*dynamo, EvictGuarantee::kNone).at(0).report->guarantee, EvictGuarantee::kNone);
  EXPECT_EQ(Evict(*dynamo, EvictGuarantee::kWholePrefix).at(0).report.error().code,
            Code::kUnsupported);
}

TEST(UpstreamEvict, TellsAnotherFakWhatToEvictAndBelievesIt) {
  Upstream upstream;
  upstream.Answer("GET /ready", {200, {}, R"({"ready":true})"});
  upstream.Answer("POST /v1/fak/cache/evict", {200,
                                               {},
                                               R"({"results":[{"guarantee":"exact","blocks":3},)"
                                               R"({"guarantee":"whole_prefix","blocks":4}]})"});
  const auto driver = Start(upstream.url(), "fak");
  auto outcome = Evict(*driver, driver::EvictGuarantee::kWholePrefix).at(0);
  ASSERT_TRUE(outcome.report) << outcome.report.error().detail;
  EXPECT_EQ(outcome.report->guarantee, driver::EvictGuarantee::kWholePrefix);
  EXPECT_EQ(outcome.report->blocks, 7u);
  EXPECT_EQ(Evict(*driver, driver::EvictGuarantee::kExact).at(0).report.error().code,
            Code::kUpstreamError);
  upstream.Answer("POST /v1/fak/cache/evict", {200,
                                               {},
                                               R"({"results":[{"guarantee":"exact","blocks":3},)"
                                               R"({"guarantee":"whole_prefix"}]})"});
  outcome = Evict(*driver, driver::EvictGuarantee::kNone).at(0);
  EXPECT_EQ(outcome.report->blocks, std::nullopt);  // of one row it isn't known
}

TEST(UpstreamEvict, EmptiesNoSharedCacheForOneTenantOrSalt) {
  using driver::EvictScope;
  Upstream upstream;
  upstream.Answer("GET /reset_prefix_cache", {405, {}, R"({"detail":"Method Not Allowed"})"});
  upstream.Answer("GET /ready", {200, {}, R"({"ready":true})"});
  upstream.Answer("POST /v1/fak/cache/evict",
                  {200, {}, R"({"results":[{"guarantee":"exact","blocks":3,"tokens_left":16}]})"});
  const auto refusal = [&](const char* engine, EvictScope scope) {
    const auto driver = Start(upstream.url(), engine);
    const auto outcome = Evict(*driver, driver::EvictGuarantee::kNone, "", scope, "5:alice").at(0);
    EXPECT_FALSE(outcome.report) << engine;
    return outcome.report ? Error{} : outcome.report.error();
  };
  for (const char* engine :
       {"vllm", "sglang", "llamacpp", "dynamo", "llmd", "mlx", "openai", "anthropic", "fak"}) {
    const Error error = refusal(engine, EvictScope::kTenant);
    EXPECT_EQ(error.code, Code::kUnsupported) << engine;
    EXPECT_EQ(error.field, "tenant") << engine;
  }
  const Error error = refusal("vllm", EvictScope::kSalt);
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_EQ(error.field, "cache_salt");
  for (const std::string& asked : upstream.all_asked()) {
    EXPECT_NE(asked, "POST /reset_prefix_cache");
    EXPECT_NE(asked, "POST /flush_cache");
  }
  const auto fak = Start(upstream.url(), "fak");
  const auto outcome =
      Evict(*fak, driver::EvictGuarantee::kExact, "", EvictScope::kSalt, "5:alices").at(0);
  ASSERT_TRUE(outcome.report) << outcome.report.error().detail;
  EXPECT_EQ(outcome.report->tokens_left, 16u);
  EXPECT_EQ(upstream.Asked("POST /v1/fak/cache/evict").body,
            R"({"scope":"all","cache_salt":"5:alices"})");
}

TEST(UpstreamEvict, EvictsByTheNameThatTheModelHasThere) {
  Upstream upstream;
  upstream.Answer("GET /v1/models", {200, {}, R"({"data":[{"id":"x"},{"id":"y"}]})"});
  upstream.Answer("GET /ready", {200, {}, R"({"ready":true})"});
  upstream.Answer("POST /v1/fak/cache/evict", {200, {}, R"({"results":[{"guarantee":"exact"}]})"});
  const auto driver = Start(upstream.url(), "fak");
  driver->StandFor({"house"}, "y");
  const auto sent = [&](const std::string& model) {
    EXPECT_EQ(Evict(*driver, driver::EvictGuarantee::kNone, model).size(), 1u) << model;
    return upstream.Asked("POST /v1/fak/cache/evict").body;
  };
  EXPECT_EQ(sent("x"), R"({"scope":"all","model":"x"})");
  EXPECT_EQ(sent("house"), R"({"scope":"all","model":"y"})");
  EXPECT_EQ(sent(""), R"({"scope":"all"})");
  EXPECT_TRUE(Evict(*driver, driver::EvictGuarantee::kNone, "nosuch").empty());
}

TEST(UpstreamEvict, EmptiesNoCacheForAnotherModel) {
  Upstream upstream;
  upstream.Answer("GET /reset_prefix_cache", {405, {}, "{}"});
  upstream.Answer("POST /reset_prefix_cache", {200, {}, R"({"success":true})"});
  const auto driver = Start(upstream.url(), "vllm");
  EXPECT_EQ(Evict(*driver, driver::EvictGuarantee::kNone, "nosuch").size(), 0u);
  EXPECT_THAT(upstream.all_asked(), Not(Contains("POST /reset_prefix_cache")));
  EXPECT_TRUE(Evict(*driver, driver::EvictGuarantee::kNone, "m").at(0).report);
}

// Who isn't there may have it: that is told, and nothing is said to be done.
TEST(UpstreamEvict, SaysOfWhoIsDownThatNothingWasEvictedThere) {
  const auto driver = Start("http://127.0.0.1:1", "vllm");
  const auto outcomes = Evict(*driver, driver::EvictGuarantee::kNone, "mystery");
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].report.error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace fak::ride
