#include <future>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ride/request_edit.h"
#include "ride/test_support.h"

// The first table of docs/engines.md, engine by engine, against stand-ins. What of it hangs on how
// an engine was started is in upstream_driver_test.cc and its neighbours.
namespace fak::ride::test {
namespace {

using driver::EvictGuarantee;
using ::testing::HasSubstr;
using wire::Surface;

struct Row {
  const char* engine;
  // Of kSurfaces: 'y' served, 'p' where a probe found it, '-' refused.
  const char* surfaces;
  const char* health;
  const char* evicts;  // the calls; empty: it has none
  EvictGuarantee guarantee;
  bool takes_salt;
  bool honours_salt;
  const char* tokenize;  // empty: none
  bool stops;            // whatever is left ends there, streamed or not
};

constexpr Surface kSurfaces[] = {Surface::kChat,      Surface::kCompletion, Surface::kMessages,
                                 Surface::kResponses, Surface::kGenerate,   Surface::kEmbedding};

constexpr Row kRows[] = {
    {"vllm", "yypp-p-", "/v1/models", "POST /reset_prefix_cache", EvictGuarantee::kWholePrefix,
     true, true, "/tokenize", true},
    {"sglang", "yyppyp-", "/v1/models", "POST /flush_cache", EvictGuarantee::kWholePrefix, true,
     true, "/v1/tokenize", true},
    {"llamacpp", "yypp-pp", "/health", "POST /slots/0?action=erase, POST /slots/1?action=erase",
     EvictGuarantee::kNone, false, false, "/tokenize", false},
    {"dynamo", "yypp-p-", "/v1/models", "", EvictGuarantee::kNone, true, false, "", true},
    {"llmd", "yypp-p-", "/v1/models", "", EvictGuarantee::kNone, true, true, "", true},
    {"mlx", "yypp-p-", "/health", "DELETE /v1/cache", EvictGuarantee::kWholePrefix, false, false,
     "", false},
    {"fak", "yypp-p-", "/ready", "POST /v1/fak/cache/evict", EvictGuarantee::kExact, true, true,
     "/tokenize", true},
    {"openai", "yy-p-p-", "/v1/models", "", EvictGuarantee::kNone, false, false, "", true},
    {"anthropic", "--p----", "/v1/models", "", EvictGuarantee::kNone, false, false, "", true},
};

constexpr const char* kPosts[] = {"/v1/messages", "/v1/responses", "/v1/embeddings"};

// Everything that an engine of any kind may have, started so that it has it.
void AnswerAll(Upstream& upstream) {
  for (const char* path : kPosts) {
    upstream.Answer(std::string("POST ") + path, {400, {}, R"({"error":{"message":"empty"}})"});
  }
  for (const char* path : {"/health", "/ready"}) {
    upstream.Answer(std::string("GET ") + path, {200, {}, R"({"status":"ok"})"});
  }
  for (const char* path : {"/tokenize", "/v1/tokenize"}) {
    upstream.Answer(std::string("POST ") + path, {200, {}, R"({"tokens":[7,8]})"});
  }
  upstream.Answer("GET /reset_prefix_cache", {405, {}, "{}"});
  upstream.Answer("POST /reset_prefix_cache", {200, {}, R"({"success":true})"});
  upstream.Answer("POST /flush_cache", {200, {}, "Cache flushed."});
  upstream.Answer("GET /props", {200, {}, R"({"total_slots":2})"});
  upstream.Answer("POST /slots/0?action=none", {400, {}, "{}"});
  upstream.Answer("POST /slots/0?action=erase", {200, {}, R"({"n_erased":5})"});
  upstream.Answer("POST /slots/1?action=erase", {200, {}, R"({"n_erased":0})"});
  upstream.Answer("POST /apply-template", {200, {}, R"({"prompt":"x"})"});
  upstream.Answer("GET /v1/cache/stats", {200, {}, R"({"entries":1})"});
  upstream.Answer("DELETE /v1/cache", {200, {}, "{}"});
  upstream.Answer("POST /v1/fak/cache/evict", {200, {}, R"({"results":[{"guarantee":"exact"}]})"});
}

class Engines : public ::testing::TestWithParam<Row> {
 protected:
  static bool Admits(UpstreamDriver& driver, Surface surface) {
    const Status admitted =
        driver.Admit(MakePrepared("{}", false, surface), std::make_shared<WaitingSink>());
    EXPECT_TRUE(admitted || admitted.error().code == Code::kUnsupported);
    return admitted.has_value();
  }
};

TEST_P(Engines, ServeTheirSurfacesAndNoOther) {
  Upstream with;
  AnswerAll(with);
  Upstream without;
  without.Answer("GET /health", {200, {}, "{}"});
  without.Answer("GET /ready", {200, {}, "{}"});
  const auto serves = Start(with.url(), GetParam().engine);
  const auto lacks = Start(without.url(), GetParam().engine);
  for (size_t i = 0; i < std::size(kSurfaces); ++i) {
    const char cell = GetParam().surfaces[i];
    EXPECT_EQ(Admits(*serves, kSurfaces[i]), cell != '-') << i;
    EXPECT_EQ(Admits(*lacks, kSurfaces[i]), cell == 'y') << i;
  }
}

TEST_P(Engines, AreReadyWhenTheirPageSaysSo) {
  Upstream upstream;
  const std::string page = std::string("GET ") + GetParam().health;
  const net::HttpResponse well = {200, {}, R"({"data":[{"id":"m"}]})"};
  upstream.Answer(page, well);
  const auto driver = Start(upstream.url(), GetParam().engine);
  EXPECT_TRUE(Eventually([&] { return driver->Load().ready; }));
  upstream.Answer(page, {503, {}, "{}"});
  EXPECT_TRUE(Eventually([&] { return !driver->Load().ready; }));
  EXPECT_THAT(driver->Load().why_not, HasSubstr(page + " answered 503"));
  upstream.Answer(page, well);
  EXPECT_TRUE(Eventually([&] { return driver->Load().ready; }));
}

TEST_P(Engines, AreAskedAsOftenAsTheyBear) {
  const auto driver =
      *UpstreamDriver::Make({.engine = GetParam().engine, .url = "http://127.0.0.1:1"}, {});
  EXPECT_EQ(driver->probe_every_ms(),
            std::string_view(GetParam().engine) == "anthropic" ? 60'000 : 5000);
}

TEST_P(Engines, EvictByTheirOwnCallOrByNone) {
  Upstream upstream;
  AnswerAll(upstream);
  const auto driver = Start(upstream.url(), GetParam().engine);
  const auto outcome = Evict(*driver, GetParam().guarantee).at(0);
  ASSERT_TRUE(outcome.report) << outcome.report.error().detail;
  EXPECT_EQ(outcome.report->guarantee, GetParam().guarantee);
  EXPECT_EQ(outcome.report->blocks, std::nullopt);
  EXPECT_EQ(outcome.honours_cache_salt, GetParam().honours_salt);
  const std::string calls = GetParam().evicts;
  EXPECT_EQ(
      outcome.report->call,
      calls.empty() ? std::string(GetParam().engine) + " has no call that evicts anything" : calls);
}

TEST_P(Engines, GetTheTenantInTheSaltWhereTheyTakeOne) {
  driver::Prepared prepared = *MakePrepared(R"({"cache_salt":"s"})", false);
  prepared.tenant = "alice";
  prepared.cache_salt = "5:alices";
  const Adapter& adapter = *FindAdapter(GetParam().engine);
  const Json sent = *ParseJson(EditRequest(adapter, {}, prepared, "fak-1").body);
  EXPECT_EQ(sent.Find("cache_salt")->string(), GetParam().takes_salt ? "5:alices" : "s");
  const auto driver =
      *UpstreamDriver::Make({.engine = GetParam().engine, .url = "http://127.0.0.1:1"}, {});
  EXPECT_EQ(driver->capabilities()->honours_cache_salt, GetParam().honours_salt);
}

TEST_P(Engines, TokenizeWhereTheyHaveATokenizer) {
  Upstream upstream;
  AnswerAll(upstream);
  const auto driver = Start(upstream.url(), GetParam().engine);
  const std::string path = GetParam().tokenize;
  ASSERT_EQ(driver->maybe_tokenizer() != nullptr, !path.empty());
  if (!path.empty()) {
    std::promise<Result<std::vector<int32_t>>> done;
    driver->Tokenize("m", "some words",
                     [&done](Result<std::vector<int32_t>> ids) { done.set_value(std::move(ids)); });
    EXPECT_EQ(*done.get_future().get(), (std::vector<int32_t>{7, 8}));
    EXPECT_THAT(upstream.Asked("POST " + path, "some words").body, HasSubstr("some words"));
  }
}

TEST_P(Engines, LoseTheConnectionOfAClientThatLeaves) {
  Upstream upstream;
  AnswerAll(upstream);
  upstream.Answer("POST /abort_request", {200, {}, ""});
  const auto driver = Start(upstream.url(), GetParam().engine);
  const bool chats = GetParam().surfaces[0] == 'y';
  upstream.Hold(kChat, kBegun);
  upstream.Hold("POST /v1/messages",
                {200,
                 {{"content-type", "text/event-stream"}},
                 "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n"
                 "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,"
                 "\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n"});
  EXPECT_EQ(driver->capabilities()->cancel_stops_engine, GetParam().stops);
  const auto sink = std::make_shared<WaitingSink>();
  const Surface surface = chats ? Surface::kChat : Surface::kMessages;
  ASSERT_TRUE(driver->Admit(MakePrepared("{}", true, surface), sink));
  ASSERT_TRUE(sink->Wait<wire::TextDelta>());
  driver->Cancel("req-1");
  EXPECT_EQ(sink->Wait<wire::Failed>()->error.code, Code::kCancelled);
  EXPECT_TRUE(upstream.WaitGone());
}

TEST_P(Engines, ThatCantSleepAreNotTold) {
  Upstream upstream;
  AnswerAll(upstream);
  upstream.Answer("GET /sleep", {405, {}, ""});
  upstream.Answer("POST /sleep?level=1", {200, {}, ""});
  const auto driver = Start(upstream.url(), GetParam().engine);
  std::promise<Result<std::string>> done;
  driver->SetAsleep({.worker = ""}, [&done](const std::vector<driver::SleepOutcome>& all) {
    done.set_value(all.at(0).call);
  });
  const Result<std::string> call = done.get_future().get();
  EXPECT_EQ(call.has_value(), std::string_view(GetParam().engine) == "vllm");
  EXPECT_TRUE(call || call.error().code == Code::kUnsupported);
}

INSTANTIATE_TEST_SUITE_P(Table, Engines, ::testing::ValuesIn(kRows),
                         [](const auto& row) { return std::string(row.param.engine); });

// Its gateway's headers are for whoever runs it; a client reads why it was turned away.
TEST(Llmd, SaysWhoServedAndWhyARequestWasDropped) {
  Upstream upstream;
  upstream.Answer(kChat,
                  {200, {{"x-gateway-destination-endpoint-served", "10.0.0.3:8000"}}, kAnswer});
  const auto driver = Start(upstream.url(), "llmd");
  const auto served = std::make_shared<WaitingSink>();
  ASSERT_TRUE(driver->Admit(MakePrepared("{}", false), served));
  ASSERT_TRUE(served->Wait<wire::Done>());
  const auto headers = served->Wait<wire::UpstreamHeaders>();
  EXPECT_EQ(headers->served_by, "10.0.0.3:8000");
  EXPECT_EQ(headers->headers.size(), 0u);
  upstream.Answer(kChat, {429,
                          {{"x-llm-d-request-dropped-reason", std::string(1000, 'r')}},
                          R"({"error":{"message":"too many"}})"});
  const auto dropped = std::make_shared<WaitingSink>();
  ASSERT_TRUE(driver->Admit(MakePrepared("{}", false), dropped));
  const auto failed = dropped->Wait<wire::Failed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error.code, Code::kRateLimited);
  EXPECT_EQ(failed->error.detail, "too many (dropped: " + std::string(200, 'r') + ")");
}

}  // namespace
}  // namespace fak::ride::test
