// The one token that an engine is asked for to see whether it answers.
#include <future>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ride/test_support.h"

namespace fak::ride {
namespace {

using test::kAnswer;
using test::Start;
using test::Upstream;
using ::testing::HasSubstr;

constexpr char kCompletion[] = "POST /v1/completions";

Status Probe(UpstreamDriver& driver, int extra_ms = 0) {
  std::promise<Status> done;
  driver.ProbeGeneration(extra_ms,
                         [&done](Status answered) { done.set_value(std::move(answered)); });
  return done.get_future().get();
}

TEST(UpstreamGeneration, AsksForOneToken) {
  Upstream upstream;
  upstream.Answer(kCompletion, {200, {}, R"({"choices":[{"text":"","finish_reason":"length"}]})"});
  driver::ReplicaSpec spec;
  spec.api_key = "k";
  spec.options = *ParseJson(R"({"data_parallel_rank":1})");
  const auto driver = Start(upstream.url(), "vllm", spec);
  EXPECT_TRUE(Probe(*driver));
  const net::HttpRequest request = upstream.Asked(kCompletion);
  EXPECT_EQ(request.body, R"({"model":"m","prompt":"1","max_tokens":1})");
  EXPECT_EQ(request.headers.Get("authorization"), "Bearer k");
  EXPECT_EQ(request.headers.Get("x-data-parallel-rank"), "1");
  EXPECT_EQ(driver->Load().in_flight, 0);
}

TEST(UpstreamGeneration, IsForFreeEnginesOnlyWhereNobodySaysOtherwise) {
  Upstream upstream;
  upstream.Answer("GET /health", {200, {}, "{}"});
  upstream.Answer("GET /ready", {200, {}, "{}"});
  for (const auto& [engine, every_ms] : {std::pair{"vllm", 60'000},
                                         {"sglang", 60'000},
                                         {"llamacpp", 60'000},
                                         {"dynamo", 60'000},
                                         {"fak", 0},
                                         {"openai", 0},
                                         {"anthropic", 0}}) {
    EXPECT_EQ(Start(upstream.url(), engine)->generation_probing().every_ms, every_ms) << engine;
    driver::ReplicaSpec spec;
    spec.options = *ParseJson(R"({"generation_probe_interval":7})");
    EXPECT_EQ(Start(upstream.url(), engine, spec)->generation_probing().every_ms, 7'000) << engine;
    spec.options = *ParseJson(R"({"generation_probe_interval":0})");
    EXPECT_EQ(Start(upstream.url(), engine, spec)->generation_probing().every_ms, 0) << engine;
    EXPECT_EQ(Start(upstream.url(), engine, {}, {.generation_probe_every_ms = 0})
                  ->generation_probing()
                  .every_ms,
              0)
        << engine;
  }
}

TEST(UpstreamGeneration, KnowsNoEngineByAWordOfItsProbe) {
  Upstream upstream;
  const auto driver = Start(upstream.url(), "auto");
  ASSERT_EQ(driver->capabilities()->engine, "openai");
  EXPECT_EQ(driver->generation_probing().every_ms, 0) << "it may be a hosted one";
}

TEST(UpstreamGeneration, ReadsAnAnswerAsARequestsWouldBe) {
  Upstream upstream;
  const auto driver = Start(upstream.url(), "vllm");
  const struct {
    net::HttpResponse answer;
    Code code;
    const char* words;
  } kCases[] = {
      {{503, {{"retry-after", "9"}}, R"({"error":{"message":"full"}})"},
       Code::kUnavailable,
       "full"},
      {{500, {}, R"({"error":{"message":"broken"}})"}, Code::kUpstreamError, "broken"},
      {{400, {}, R"({"error":{"message":"what?"}})"}, Code::kUpstreamError, "what?"},
      {{200, {}, R"({"error":{"message":"dead","code":500}})"}, Code::kUpstreamError, "dead"},
      {{200, {}, R"({"choices":[]})"}, Code::kUpstreamError, "no content"},
      {{200, {}, "hello"}, Code::kUpstreamError, "no content"},
  };
  for (const auto& each : kCases) {
    upstream.Answer(kCompletion, each.answer);
    const Status answered = Probe(*driver);
    ASSERT_FALSE(answered) << each.words;
    EXPECT_EQ(answered.error().code, each.code) << each.words;
    EXPECT_THAT(answered.error().detail, HasSubstr(each.words));
    EXPECT_EQ(answered.error().retry_after_s, each.answer.status == 503 ? 9 : 0);
  }
}

TEST(UpstreamGeneration, APausedOneHasItsTimeAndNoMore) {
  Upstream upstream;
  upstream.Hold(kCompletion, {200, {}, ""});
  const auto driver = Start(upstream.url(), "vllm", {}, {.generation_probe_timeout_ms = 20});
  const Status answered = Probe(*driver, 30);
  ASSERT_FALSE(answered);
  EXPECT_EQ(answered.error().code, Code::kUpstreamError);
  EXPECT_TRUE(upstream.WaitGone()) << "the engine may forget it";
  EXPECT_TRUE(driver->Load().ready) << "its own health check says so";
}

TEST(UpstreamGeneration, LoadsNoModelByIt) {
  Upstream upstream;
  upstream.Answer("GET /health", {200, {}, "{}"});
  upstream.Answer("GET /v1/models", {200, {}, R"({"data":[{"id":"a"},{"id":"b"}]})"});
  upstream.Answer(kCompletion, {200, {}, kAnswer});
  const auto driver = Start(upstream.url(), "llamacpp");
  const Status answered = Probe(*driver);
  ASSERT_FALSE(answered);
  EXPECT_EQ(answered.error().code, Code::kUnsupported);
  driver::ReplicaSpec spec;
  spec.model = "b";
  EXPECT_TRUE(Probe(*Start(upstream.url(), "llamacpp", spec)));
  EXPECT_THAT(upstream.Asked(kCompletion).body, HasSubstr("\"b\""));
}

TEST(UpstreamGeneration, SpeaksEachApi) {
  Upstream upstream;
  upstream.Answer(test::kChat, {200, {}, kAnswer});
  upstream.Answer("POST /v1/messages", {200, {}, R"({"content":[{"type":"text","text":"1"}]})"});
  EXPECT_TRUE(Probe(*Start(upstream.url(), "openai")));
  EXPECT_THAT(upstream.Asked(test::kChat).body, HasSubstr("\"messages\""));
  EXPECT_TRUE(Probe(*Start(upstream.url(), "anthropic")));
}

}  // namespace
}  // namespace fak::ride
