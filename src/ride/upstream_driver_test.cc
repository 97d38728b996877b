#include "ride/upstream_driver.h"

#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"
#include "ride/test_support.h"

namespace fak::ride {
namespace {

using test::Eventually;
using test::Evict;
using test::kAnswer;
using test::kBegun;
using test::kChat;
using test::MakePrepared;
using test::StalledSink;
using test::Start;
using test::Upstream;
using test::WaitingSink;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(UpstreamDriver, SendsTheClientsDocumentWithOnlyItsEdits) {
  Upstream upstream;
  upstream.Answer("POST /v1/chat/completions", {200, {}, kAnswer});
  driver::ReplicaSpec spec;
  spec.model = "theirs";
  spec.api_key = "k";
  const auto driver = Start(upstream.url(), "openai", spec);
  const auto sink = std::make_shared<WaitingSink>();
  ASSERT_TRUE(driver->Admit(
      MakePrepared(R"({"zeta":1.0,"model":"ours","top_k":5,"frobnicate":{"a":[1e2]}})", false),
      sink));
  ASSERT_TRUE(sink->Wait<wire::Done>());
  const net::HttpRequest request = upstream.Asked("POST /v1/chat/completions");
  EXPECT_EQ(request.body, R"({"zeta":1.0,"model":"theirs","top_k":5,"frobnicate":{"a":[1e2]}})");
  EXPECT_EQ(request.headers.Get("authorization"), "Bearer k");
  EXPECT_EQ(sink->Wait<wire::RawChunk>()->json, kAnswer);
}

TEST(UpstreamDriver, KeepsNoConnectionThatTheEngineClosesAfterAStreamWithoutAWord) {
  Upstream upstream;
  upstream.Answer("GET /health", {200, {}, "{}"});
  upstream.Answer("POST /v1/chat/completions", {200, {}, kAnswer});
  for (const auto& [engine, stream, closes] :
       {std::tuple{"llamacpp", true, true}, {"llamacpp", false, false}, {"vllm", true, false}}) {
    const auto driver = Start(upstream.url(), engine);
    const auto sink = std::make_shared<WaitingSink>();
    const std::string user = std::string(engine) + (stream ? "1" : "0");
    const std::string document = R"({"user":")" + user + "\"}";
    ASSERT_TRUE(driver->Admit(MakePrepared(document.c_str(), stream), sink));
    const net::HttpRequest request = upstream.Asked("POST /v1/chat/completions", user);
    EXPECT_EQ(request.headers.Get("connection").value_or("") == "close", closes) << user;
  }
}

TEST(UpstreamDriver, TurnsFailuresIntoTypedErrors) {
  Upstream upstream;
  upstream.Answer("POST /v1/chat/completions",
                  {429,
                   {{"retry-after", "7"}, {"x-ratelimit-remaining-requests", "0"}},
                   R"({"error":{"message":"slow down"}})"});
  const auto driver = Start(upstream.url(), "openai");
  const auto sink = std::make_shared<WaitingSink>();
  ASSERT_TRUE(driver->Admit(MakePrepared("{}", false), sink));
  const auto failed = sink->Wait<wire::Failed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error.code, Code::kRateLimited);
  EXPECT_EQ(failed->error.upstream_status, 429);
  EXPECT_EQ(failed->error.retry_after_s, 7);
  EXPECT_EQ(sink->Wait<wire::UpstreamHeaders>()->headers.Get("x-ratelimit-remaining-requests"),
            "0");
}

// An upstream may quote it in any place that we show.
TEST(UpstreamDriver, KeepsItsKeyFromClientsAndLogs) {
  const std::string said = R"({"error":{"message":"no such key: sk-secret"}})";
  const std::string kStreams[] = {
      "data: " + said + "\n\n",
      "event: error\ndata: " + said + "\n\n",
      R"(data: {"choices":[{"index":"sk-secret","delta":{}}]})"
      "\n\n",
  };
  const auto clean = [](const std::string& text) {
    EXPECT_THAT(text, Not(HasSubstr("sk-secret")));
  };
  Upstream upstream;
  upstream.Answer("POST /tokenize", {403, {}, said});
  upstream.Answer("POST /v1/messages", {403, {}, said});
  upstream.Answer("POST /v1/responses", {200, {}, "{}"});
  upstream.Answer("POST /v1/fak/cache/evict", {500, {}, said});
  upstream.Answer("GET /ready", {200, {}, ""});
  const auto driver = Start(upstream.url(), "fak", {.api_key = "sk-secret"});
  const auto ask = [&](wire::Surface surface, bool stream) {
    const auto sink = std::make_shared<WaitingSink>();
    EXPECT_TRUE(driver->Admit(MakePrepared("{}", stream, surface), sink));
    const auto failed = sink->Wait<wire::Failed>();
    clean(failed ? failed->error.detail : "sk-secret: no error");
    return sink;
  };
  for (const int status : {400, 401, 404, 429, 503}) {
    upstream.Answer(kChat, {status, {}, said});
    ask(wire::Surface::kChat, false);
  }
  for (const std::string& stream : kStreams) {
    upstream.Answer(kChat, {200, {}, stream});
    ask(wire::Surface::kChat, true);
  }
  upstream.Answer("POST /v1/responses",
                  {200,
                   {},
                   R"(data: {"type":"response.failed","response":{"object":"response",)"
                   R"("status":"failed","error":{"message":"key sk-secret"}}})"
                   "\n\n"});
  clean(ask(wire::Surface::kResponses, true)->Wait<wire::RawChunk>()->json);
  for (const Endpoint::Finding& finding : driver->endpoint()->findings) {
    clean(finding.seen);
  }
  clean(Evict(*driver, driver::EvictGuarantee::kNone).at(0).report.error().detail);
  std::promise<std::string> detail;
  driver->Tokenize("m", "x", [&detail](const Result<std::vector<int32_t>>& tokens) {
    detail.set_value(tokens.error().detail);
  });
  clean(detail.get_future().get());
  const auto hosted = Start(upstream.url(), "openai", {.api_key = "sk-secret"});
  upstream.Answer(kChat, {200, {{"x-ratelimit-remaining-requests", "sk-secret"}}, kAnswer});
  const auto sink = std::make_shared<WaitingSink>();
  ASSERT_TRUE(hosted->Admit(MakePrepared("{}", false), sink));
  clean(std::string(
      *sink->Wait<wire::UpstreamHeaders>()->headers.Get("x-ratelimit-remaining-requests")));
}

TEST(UpstreamDriver, EndsAnErrorWhoseBodyDoesNot) {
  Upstream upstream;
  const auto driver = Start(upstream.url(), "openai", {}, {.tail_ms = 20});
  for (const size_t bytes : {size_t{10}, 2 * limits::kUpstreamErrorBytesMax}) {
    upstream.Hold(kChat, {500, {}, std::string(bytes, 'e')});
    const auto sink = std::make_shared<WaitingSink>();
    ASSERT_TRUE(driver->Admit(MakePrepared("{}", true), sink));
    const auto failed = sink->Wait<wire::Failed>();
    ASSERT_TRUE(failed) << bytes;
    EXPECT_THAT(failed->error.detail, HasSubstr("answered 500"));
    EXPECT_TRUE(upstream.WaitGone());
  }
}

TEST(UpstreamDriver, EndsAStreamThatIsWholeButDoesNotEnd) {
  const std::string last =
      "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
  const std::string done = "data: [DONE]\n\n";
  const std::string kCases[] = {
      last,                                                                              // silence
      last + done,                                                                       // the same
      last + done + std::string(2 * limits::kUpstreamErrorBytesMax, ':') + "\n" + last,  // noise
  };
  Upstream upstream;
  const auto driver = Start(upstream.url(), "openai", {}, {.tail_ms = 20});
  for (const std::string& stream : kCases) {
    upstream.Hold(kChat, {200, {}, stream});
    const auto sink = std::make_shared<WaitingSink>();
    ASSERT_TRUE(driver->Admit(MakePrepared("{}", true), sink));
    EXPECT_TRUE(sink->Wait<wire::Done>()) << stream.substr(0, 200);
    EXPECT_TRUE(upstream.WaitGone());
  }
}

std::string FinishOf(int choice) {
  return "data: {\"choices\":[{\"index\":" + std::to_string(choice) +
         ",\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
}

// Comments keep a connection from being silent, and say nothing.
TEST(UpstreamDriver, CommentsDontKeepAStreamOpenWhoseChoicesHaveEnded) {
  Upstream upstream;
  UpstreamOptions options{.tail_ms = 20};
  options.timeouts.idle_ms = 500;
  const auto driver = Start(upstream.url(), "openai", {}, std::move(options));
  auto prepared = std::make_shared<driver::Prepared>(*MakePrepared("{}", true));
  auto turn = std::make_shared<wire::Turn>(*prepared->turn);
  turn->n = 2;
  prepared->turn = turn;
  const auto ask = [&](const std::string& begin) {
    upstream.Hold(kChat, {200, {}, begin});
    auto sink = std::make_shared<WaitingSink>();
    EXPECT_TRUE(driver->Admit(prepared, sink));
    EXPECT_TRUE(sink->Wait<wire::Finish>());
    return sink;
  };
  const auto comment_until_end = [&](const std::shared_ptr<WaitingSink>& sink) {
    EXPECT_TRUE(Eventually([&] {
      upstream.Continue(": still here\n\n");
      return sink->ended();
    }));
    EXPECT_TRUE(upstream.WaitGone());
  };
  const auto whole = ask(FinishOf(0) + FinishOf(1));
  comment_until_end(whole);
  EXPECT_TRUE(whole->Wait<wire::Done>());
  // The other choice may yet begin: it has the time that silence has.
  const auto late = ask(FinishOf(0));
  upstream.Continue(FinishOf(1));
  comment_until_end(late);
  EXPECT_TRUE(late->Wait<wire::Done>());
  const auto half = ask(FinishOf(0));
  comment_until_end(half);
  EXPECT_THAT(half->Wait<wire::Failed>()->error.detail, HasSubstr("1 of 2 choices"));
}

TEST(UpstreamDriver, EndsAtItsStreamsEndWellOrNot) {
  Upstream upstream;
  upstream.Hold(kChat, {200, {}, "data: [DONE]\n\n"});
  const auto driver = Start(upstream.url(), "openai");
  const auto cut = std::make_shared<WaitingSink>();
  ASSERT_TRUE(driver->Admit(MakePrepared("{}", true), cut));
  EXPECT_THAT(cut->Wait<wire::Failed>()->error.detail, HasSubstr("a finish reason"));
  EXPECT_TRUE(upstream.WaitGone());
  upstream.Answer(kChat, {200,
                          {},
                          "data: {\"choices\":[{\"index\":0,\"delta\":{},"
                          "\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n: bye\n\n"});
  const auto whole = std::make_shared<WaitingSink>();
  ASSERT_TRUE(driver->Admit(MakePrepared("{}", true), whole));
  EXPECT_TRUE(whole->Wait<wire::Done>());
}

TEST(UpstreamDriver, ReadsWhatOnlyOneEngineSays) {
  struct Case {
    const char* engine;
    int status;
    const char* body;
    Code code;
    int shown;
  };
  const Case kCases[] = {
      {"dynamo", 404, "", Code::kUnavailable, 0},
      {"dynamo", 404, R"({"message":"Model not found","code":404})", Code::kNotFound, 404},
      {"mlx", 404, R"({"error":"generation broke"})", Code::kUpstreamError, 0},
      {"vllm", 404, R"({"error":{"message":"no such model"}})", Code::kNotFound, 404},
      {"llamacpp", 400, R"({"error":{"type":"exceed_context_size_error","message":"x"}})",
       Code::kContextTooLong, 400},
  };
  for (const Case& each : kCases) {
    Upstream upstream;
    upstream.Answer("POST /v1/chat/completions", {each.status, {}, each.body});
    const auto driver = Start(upstream.url(), each.engine);
    const auto sink = std::make_shared<WaitingSink>();
    ASSERT_TRUE(driver->Admit(MakePrepared("{}", false), sink)) << each.engine;
    const auto failed = sink->Wait<wire::Failed>();
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->error.code, each.code) << each.engine << each.body;
    EXPECT_EQ(failed->error.upstream_status, each.shown) << each.engine << each.body;
  }
}

TEST(UpstreamDriver, NobodyThereIsUnavailable) {
  const auto driver = Start("http://127.0.0.1:1", "openai");
  const auto sink = std::make_shared<WaitingSink>();
  ASSERT_TRUE(driver->Admit(MakePrepared("{}", true), sink));
  const auto failed = sink->Wait<wire::Failed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error.code, Code::kUnavailable);
  EXPECT_FALSE(driver->Load().ready);
  // Clients are told the name alone.
  EXPECT_THAT(failed->error.detail, StartsWith("upstream u: can't connect"));
  EXPECT_THAT(driver->Load().why_not, StartsWith("upstream u: can't connect"));
  EXPECT_EQ(sink->worker(), "u");
}

// The body of a chat that asked for `model`.
std::string AskedFor(const char* listed, const std::string& model, const char* document,
                     const std::string& stands_for = "", const std::string& upstream_model = "") {
  Upstream upstream;
  upstream.Answer("GET /v1/models", {200, {}, listed});
  upstream.Answer("POST /v1/chat/completions", {200, {}, kAnswer});
  const auto driver = Start(upstream.url(), "openai", {.model = upstream_model});
  driver->StandFor({"house", "o"}, stands_for);
  const auto sink = std::make_shared<WaitingSink>();
  EXPECT_TRUE(driver->Admit(MakePrepared(document, false, wire::Surface::kChat, model), sink));
  EXPECT_TRUE(sink->Wait<wire::Done>());
  return upstream.Asked("POST /v1/chat/completions").body;
}

TEST(UpstreamDriver, ANameOfOurOwnStandsForAModelThatTheEngineLists) {
  const char* one = R"({"data":[{"id":"m"}]})";
  const char* two = R"({"data":[{"id":"m"},{"id":"o"}]})";
  const char* house = R"({"model":"house"})";
  EXPECT_EQ(AskedFor(one, "house", house), R"({"model":"m"})");
  EXPECT_EQ(AskedFor(two, "house", house, "m"), R"({"model":"m"})");
  EXPECT_EQ(AskedFor(two, "house", house, "m", "o"), R"({"model":"o"})");
  // It isn't clear what it means, or not here: as it came.
  EXPECT_EQ(AskedFor(two, "house", house), house);
  EXPECT_EQ(AskedFor(one, "house", house, "x"), house);
  // The engine's own name is its own.
  EXPECT_EQ(AskedFor(two, "o", R"({"model":"o"})", "m"), R"({"model":"o"})");
  EXPECT_EQ(AskedFor(one, "else", R"({"model":"else"})"), R"({"model":"else"})");
  // A client that names none means what the gateway says.
  EXPECT_EQ(AskedFor(two, "o", R"({"x":1})"), R"({"x":1,"model":"o"})");
}

TEST(UpstreamDriver, ListsNamesOfOurOwnWhileTheyStandForAModel) {
  Upstream upstream;
  const auto driver = Start(upstream.url(), "openai");
  driver->StandFor({"house", "m"}, "");
  EXPECT_EQ(driver->capabilities()->models, (std::vector<std::string>{"m", "house"}));
  upstream.Answer("GET /v1/models", {200, {}, R"({"data":[{"id":"x"},{"id":"y"}]})"});
  while (driver->capabilities()->models.front() == "m") {
    std::this_thread::yield();
  }
  EXPECT_EQ(driver->capabilities()->models, (std::vector<std::string>{"x", "y"}));
  driver->StandFor({"house"}, "y");
  EXPECT_EQ(driver->capabilities()->models, (std::vector<std::string>{"x", "y", "house"}));
}

TEST(UpstreamDriver, AdmitsNothingWhileItDoesNotKnowTheEngine) {
  const auto driver = Start("http://127.0.0.1:1", "auto");
  const auto admitted = driver->Admit(MakePrepared("{}", true), std::make_shared<WaitingSink>());
  ASSERT_FALSE(admitted);
  EXPECT_EQ(admitted.error().code, Code::kUnavailable);
  EXPECT_EQ(admitted.error().retry_after_s, 1);
}

TEST(UpstreamDriver, FindsOutByItselfWhatItRides) {
  Upstream upstream;
  upstream.Answer("GET /v1/models",
                  {200, {}, R"({"data":[{"id":"m","owned_by":"vllm","max_model_len":99}]})"});
  upstream.Answer("GET /version", {200, {}, R"({"version":"0.32.0"})"});
  upstream.Answer("POST /v1/messages", {400, {}, "{}"});
  const auto driver = Start(upstream.url(), "auto");
  const auto capabilities = driver->capabilities();
  EXPECT_EQ(capabilities->engine, "vllm");
  EXPECT_EQ(capabilities->version, "0.32.0");
  EXPECT_EQ(capabilities->models, std::vector<std::string>{"m"});
  EXPECT_EQ(capabilities->context_length, 99);
  EXPECT_TRUE(capabilities->anthropic_wire);
  EXPECT_FALSE(capabilities->responses_wire);
  EXPECT_TRUE(driver->Load().ready);
  const auto refused = driver->Admit(MakePrepared("{}", false, wire::Surface::kResponses),
                                     std::make_shared<WaitingSink>());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_THAT(refused.error().detail, HasSubstr("404"));
}

TEST(UpstreamDriver, SendsEachSurfaceToItsPath) {
  const std::tuple<wire::Surface, const char*, const char*> kCases[] = {
      {wire::Surface::kCompletion, "POST /v1/completions",
       R"({"choices":[{"index":0,"text":"a","finish_reason":"stop"}]})"},
      {wire::Surface::kMessages, "POST /v1/messages",
       R"({"type":"message","content":[],"stop_reason":"end_turn"})"},
      {wire::Surface::kCountTokens, "POST /v1/messages/count_tokens", R"({"input_tokens":3})"},
      {wire::Surface::kResponses, "POST /v1/responses", R"({"status":"completed","output":[]})"},
      {wire::Surface::kEmbedding, "POST /v1/embeddings", R"({"data":[]})"},
  };
  for (const auto& [surface, path, body] : kCases) {
    Upstream upstream;
    upstream.Answer("POST /v1/messages", {200, {}, "{}"});
    upstream.Answer(path, {200, {}, body});
    const auto driver = Start(upstream.url(), "vllm");
    const auto sink = std::make_shared<WaitingSink>();
    ASSERT_TRUE(driver->Admit(MakePrepared(R"({"x": 1})", false, surface), sink)) << path;
    ASSERT_TRUE(sink->Wait<wire::Done>()) << path;
    EXPECT_EQ(sink->Wait<wire::RawChunk>()->json, body);
  }
}

TEST(UpstreamDriver, CancelClosesTheUpstreamsConnection) {
  Upstream upstream;
  upstream.Hold(kChat, kBegun);
  const auto driver = Start(upstream.url(), "openai");
  const auto sink = std::make_shared<WaitingSink>();
  ASSERT_TRUE(driver->Admit(MakePrepared("{}", true), sink));
  ASSERT_TRUE(sink->Wait<wire::TextDelta>());
  driver->Cancel("req-1");
  EXPECT_EQ(sink->Wait<wire::Failed>()->error.code, Code::kCancelled);
  EXPECT_TRUE(upstream.WaitGone());
  // The driver counts it until a moment after its event.
  const int64_t end = Clock::Real().NowNs() + 10 * kNsPerSecond;
  while (driver->Load().running != 0 && Clock::Real().NowNs() < end) {
    std::this_thread::yield();
  }
  EXPECT_EQ(driver->Load().running, 0);
}

TEST(UpstreamDriver, ReadsNoFurtherThanItsClientKeepsUp) {
  constexpr size_t kEvents = 1000;
  const std::string event =
      R"({"choices":[{"index":0,"delta":{"content":")" + std::string(16 * 1024, 'x') + R"("}}]})";
  const std::string last = R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})";
  std::string stream;
  for (size_t i = 0; i < kEvents; ++i) {
    stream += "data: " + event + "\n\n";
  }
  stream += "data: " + last + "\n\ndata: [DONE]\n\n";
  Upstream upstream;
  upstream.Answer("POST /v1/chat/completions", {200, {}, stream});
  upstream.Answer("POST /v1/completions",
                  {200, {}, R"({"choices":[{"index":0,"text":"hi","finish_reason":"stop"}]})"});
  const auto driver = Start(upstream.url(), "openai");
  const auto stalled = std::make_shared<StalledSink>();
  ASSERT_TRUE(driver->Admit(MakePrepared("{}", true), stalled));
  // Others go on meanwhile, on the same loop; long enough for all of the stream to have come.
  for (int i = 0; i < 50 || stalled->bytes() == 0; ++i) {
    const auto other = std::make_shared<WaitingSink>();
    auto prepared =
        std::make_shared<driver::Prepared>(*MakePrepared("{}", false, wire::Surface::kCompletion));
    prepared->request_id = "other";
    ASSERT_TRUE(driver->Admit(std::move(prepared), other));
    ASSERT_TRUE(other->Wait<wire::Done>());
  }
  EXPECT_LT(stalled->bytes(), 4 * limits::kStreamWindowBytes);
  EXPECT_FALSE(stalled->ended());
  stalled->TakeAll();
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!stalled->ended() && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(stalled->ended());
  EXPECT_EQ(stalled->bytes(), kEvents * event.size() + last.size());
}

TEST(UpstreamDriver, GivesUpAtTheDeadlineAndClosesTheConnection) {
  Upstream upstream;
  upstream.Hold(kChat, kBegun);
  const auto driver = Start(upstream.url(), "openai");
  auto prepared = std::make_shared<driver::Prepared>(*MakePrepared("{}", true));
  prepared->arrival_ns = Clock::Real().NowNs();
  prepared->deadline_ns = prepared->arrival_ns + 50 * kNsPerMs;
  const auto sink = std::make_shared<WaitingSink>();
  ASSERT_TRUE(driver->Admit(prepared, sink));
  const auto failed = sink->Wait<wire::Failed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error.code, Code::kDeadlineExceeded);
  EXPECT_GE(Clock::Real().NowNs(), *prepared->deadline_ns);
  EXPECT_TRUE(upstream.WaitGone());
}

TEST(UpstreamDriver, RidesSglangsOwnGenerateAndAbortsItByItsId) {
  Upstream upstream;
  upstream.Hold("POST /generate",
                {200,
                 {{"content-type", "text/event-stream"}},
                 "data: {\"text\":\"a\",\"meta_info\":{\"finish_reason\":null}}\n\n"});
  const auto driver = Start(upstream.url(), "sglang");
  EXPECT_TRUE(driver->capabilities()->generate_wire);
  const char* body = R"({"text":"x","stream":true,"rid":"mine","bootstrap_host":"evil"})";
  const auto sink = std::make_shared<WaitingSink>();
  ASSERT_TRUE(driver->Admit(MakePrepared(body, true, wire::Surface::kGenerate, "m"), sink));
  EXPECT_EQ(sink->Wait<wire::TextDelta>()->text, "a");
  const Json sent = *ParseJson(upstream.Asked("POST /generate").body);
  EXPECT_EQ(sent.Find("bootstrap_host"), nullptr);
  EXPECT_EQ(sent.Find("model"), nullptr);
  const std::string id = sent.Find("rid")->string();
  EXPECT_EQ(id.size(), 36u);
  driver->Cancel("req-1");
  EXPECT_TRUE(upstream.WaitGone());
  EXPECT_THAT(upstream.Asked("POST /abort_request", id).body,
              HasSubstr("{\"rid\":\"" + id + "\"}"));
  // And where there is no such thing, nobody is asked.
  const auto other = Start(upstream.url(), "vllm");
  const auto refused = other->Admit(MakePrepared(body, true, wire::Surface::kGenerate),
                                    std::make_shared<WaitingSink>());
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
}

TEST(UpstreamDriver, CancelTellsSglangTheIdThatItWasGiven) {
  Upstream upstream;
  upstream.Hold(kChat, kBegun);
  const auto driver = Start(upstream.url(), "sglang");
  const auto sink = std::make_shared<WaitingSink>();
  ASSERT_TRUE(driver->Admit(MakePrepared(R"({"rid":"x"})", true), sink));
  ASSERT_TRUE(sink->Wait<wire::TextDelta>());
  const Json document = *ParseJson(upstream.Asked("POST /v1/chat/completions").body);
  const std::string id = document.Find("rid")->string();
  EXPECT_EQ(id.size(), 36u);
  driver->Cancel("req-1");
  EXPECT_TRUE(upstream.WaitGone());
  // The probe asked there too, of an id that nobody has.
  EXPECT_EQ(upstream.Asked("POST /abort_request", id).body, R"({"rid":")" + id + R"("})");
}

TEST(UpstreamDriver, AsksTheEnginesTokenizer) {
  Upstream upstream;
  upstream.Answer("POST /tokenize", {200, {}, R"({"count":2,"tokens":[19556,905]})"});
  const auto driver = Start(upstream.url(), "vllm");
  driver::RemoteTokenizer* tokenizer = driver->maybe_tokenizer();
  ASSERT_NE(tokenizer, nullptr);
  std::promise<Result<std::vector<int32_t>>> done;
  tokenizer->Tokenize("m", "Hello world", [&done](Result<std::vector<int32_t>> tokens) {
    done.set_value(std::move(tokens));
  });
  EXPECT_EQ(*done.get_future().get(), (std::vector<int32_t>{19556, 905}));
  EXPECT_THAT(upstream.Asked("POST /tokenize").body, HasSubstr("Hello world"));
  EXPECT_EQ(Start(upstream.url(), "dynamo")->maybe_tokenizer(), nullptr);
}

TEST(UpstreamDriver, AHealthCheckThatDoesNotEndIsAFailedOne) {
  for (const size_t bytes : {size_t{10}, 2 * limits::kProbeBytesMax}) {
    Upstream upstream;
    const auto driver = Start(upstream.url(), "openai", {}, {.call_ms = 500});
    EXPECT_TRUE(Eventually([&] { return driver->Load().ready; }));
    upstream.Hold("GET /v1/models", {200, {}, std::string(bytes, ' ')});
    EXPECT_TRUE(Eventually([&] { return !driver->Load().ready; }));
    EXPECT_THAT(driver->Load().why_not, HasSubstr(bytes > 10 ? "of more than" : "500 ms"));
    upstream.Answer("GET /v1/models", {200, {}, R"({"data":[{"id":"m"}]})"});
    EXPECT_TRUE(Eventually([&] { return driver->Load().ready; }));  // it was asked again
    EXPECT_TRUE(upstream.WaitGone());
  }
}

TEST(UpstreamDriver, ClientsRequestsLeaveRoomForItsOwnCalls) {
  Upstream upstream;
  upstream.Answer("POST /tokenize", {200, {}, R"({"tokens":[1]})"});
  upstream.Hold(kChat, kBegun);
  const auto driver =
      Start(upstream.url(), "vllm", {}, {.timeouts = {.connect_ms = 50}, .connections_max = 1});
  const auto held = std::make_shared<WaitingSink>();
  ASSERT_TRUE(driver->Admit(MakePrepared("{}", true), held));
  ASSERT_TRUE(held->Wait<wire::TextDelta>());
  const size_t asked = upstream.all_asked().size();
  EXPECT_TRUE(Eventually([&] { return upstream.all_asked().size() > asked + 3; }));
  EXPECT_TRUE(driver->Load().ready) << driver->Load().why_not;
  std::promise<Result<std::vector<int32_t>>> tokens;
  driver->Tokenize("m", "x", [&](Result<std::vector<int32_t>> got) { tokens.set_value(got); });
  EXPECT_TRUE(tokens.get_future().get());
}

TEST(UpstreamDriver, AProbeThatIsNotAnsweredToTheEndEnds) {
  Upstream upstream;
  auto target = *UpstreamTarget::Parse(upstream.url(), "");
  target.call_ms = 500;
  upstream.Hold("GET /v1/models", {200, {}, " "});
  EXPECT_EQ(ProbeAndWait(target, nullptr, {}).error().code, Code::kUnavailable);
  upstream.Hold("GET /v1/models", {200, {}, std::string(2 * limits::kProbeBytesMax, ' ')});
  EXPECT_EQ(ProbeAndWait(target, nullptr, {}).error().code, Code::kUnavailable);
}

TEST(UpstreamDriver, IsNotReadyWhereNobodyIsThereToAnswer) {
  Upstream upstream;
  upstream.Answer("GET /v1/models", {200, {}, R"({"object":"list","data":[]})"});
  EXPECT_FALSE(Start(upstream.url(), "dynamo")->Load().ready);
  EXPECT_TRUE(Start(upstream.url(), "vllm")->Load().ready);
}

// fak's own /ready asks for no key.
TEST(UpstreamDriver, IsNotReadyWhereItsKeyIsRefused) {
  Upstream upstream;
  upstream.Answer("GET /version", {200, {}, R"({"version":"0.1.0","engine":"fak"})"});
  upstream.Answer("GET /ready", {200, {}, R"({"ready":true})"});
  for (const int status : {401, 403}) {
    upstream.Answer("GET /v1/models", {status, {}, "{}"});
    for (const char* engine : {"auto", "fak", "openai"}) {
      const auto driver = Start(upstream.url(), engine);
      EXPECT_FALSE(driver->Load().ready) << engine;
      EXPECT_EQ(driver->Load().why_not, "upstream u: GET /v1/models answered " +
                                            std::to_string(status) +
                                            ": give --upstream-api-key or --upstream-api-key-file");
      EXPECT_EQ(driver->WaitForProbe(0).error().code, Code::kUnavailable);
    }
  }
  const auto driver = Start(upstream.url(), "auto");
  EXPECT_FALSE(driver->Load().ready);
  upstream.Answer("GET /v1/models", {200, {}, R"({"data":[{"id":"m"}]})"});
  EXPECT_TRUE(Eventually([&] { return driver->Load().ready; }));
  EXPECT_EQ(driver->capabilities()->models, std::vector<std::string>{"m"});
  upstream.Answer("GET /v1/models", {404, {}, "{}"});
  EXPECT_TRUE(Start(upstream.url(), "fak")->Load().ready);
}

TEST(UpstreamDriver, IsNotReadyWhileTheEngineSleeps) {
  Upstream upstream;
  upstream.Answer("GET /reset_prefix_cache", {405, {}, R"({"detail":"Method Not Allowed"})"});
  upstream.Answer("GET /is_sleeping", {200, {}, R"({"is_sleeping":true})"});
  const auto driver = Start(upstream.url(), "vllm");
  EXPECT_FALSE(driver->Load().ready);
  EXPECT_THAT(driver->Load().why_not, HasSubstr("put to sleep"));
  upstream.Answer("GET /is_sleeping", {200, {}, R"({"is_sleeping":false})"});
  EXPECT_TRUE(Start(upstream.url(), "vllm")->Load().ready);
}

TEST(UpstreamDriver, AsksNoEngineWithoutThatSwitchWhetherItSleeps) {
  Upstream upstream;
  EXPECT_TRUE(Start(upstream.url(), "vllm")->Load().ready);
  EXPECT_THAT(upstream.all_asked(), Not(Contains("GET /is_sleeping")));
}

TEST(UpstreamDriver, MeasuresRequestsAndAsksTheEngineForItsOwnFigures) {
  Upstream upstream;
  upstream.Answer("GET /metrics", {200, {}, "vllm:num_requests_running{model_name=\"m\"} 3\n"});
  upstream.Answer("POST /v1/chat/completions", {200, {}, kAnswer});
  metrics::Registry metrics;
  const auto driver = *UpstreamDriver::Make(
      {.name = "u", .engine = "vllm", .url = upstream.url(), .api_key = "k"},
      {.probe_every_ms = 20, .maybe_metrics = &metrics, .scrape_every_ms = 1});
  ASSERT_TRUE(driver->Start());
  ASSERT_TRUE(driver->WaitForProbe(10'000));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (driver->Load().running != 3 && std::chrono::steady_clock::now() < until) {
    std::this_thread::yield();
  }
  EXPECT_EQ(driver->Load().running, 3);
  EXPECT_EQ(driver->Load().in_flight, 0);
  EXPECT_EQ(upstream.Asked("GET /metrics").headers.Get("authorization"), "Bearer k");
  const auto sink = std::make_shared<WaitingSink>();
  ASSERT_TRUE(driver->Admit(MakePrepared("{}", false, wire::Surface::kChat, "m"), sink));
  ASSERT_TRUE(sink->Wait<wire::Done>());
  const std::string text = metrics.Exposition();
  EXPECT_THAT(text, HasSubstr("requests_running{engine=\"vllm\",model=\"m\",role=\"aggregated\","
                              "source=\"engine\",worker=\"u\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("requests_total{engine=\"vllm\",model=\"m\",outcome=\"ok\","
                              "role=\"aggregated\",source=\"gateway\",worker=\"u\"} 1\n"));
}

TEST(UpstreamDriver, SendsNoKeyToMetricsThatAreElsewhere) {
  Upstream upstream;
  Upstream picker;
  picker.Answer("GET /epp/metrics", {200, {}, "llm_d_epp_request_running 1\n"});
  metrics::Registry metrics;
  driver::ReplicaSpec spec{.name = "u", .engine = "llmd", .url = upstream.url(), .api_key = "k"};
  const std::string its_url = picker.url();
  spec.metrics_urls = {its_url.substr(0, its_url.find("/v1/")) + "/epp/metrics"};
  const auto driver = *UpstreamDriver::Make(
      spec, {.probe_every_ms = 20, .maybe_metrics = &metrics, .scrape_every_ms = 1});
  ASSERT_TRUE(driver->Start());
  EXPECT_FALSE(picker.Asked("GET /epp/metrics").headers.Has("authorization"));
}

TEST(UpstreamDriver, RefusesSpecsThatMeanNothing) {
  const auto make = [](const std::string& engine, const std::string& url, const char* options) {
    driver::ReplicaSpec spec;
    spec.engine = engine;
    spec.url = url;
    spec.options = *ParseJson(options);
    return UpstreamDriver::Make(spec, {});
  };
  EXPECT_TRUE(make("", "http://a", "null"));
  EXPECT_TRUE(make("vllm", "http://a", R"({"data_parallel_rank":3,"allow_fields":["x"]})"));
  EXPECT_FALSE(make("", "nonsense", "null"));
  EXPECT_FALSE(make("", "http://a:b@c", "null"));
  EXPECT_FALSE(make("tgi", "http://a", "null"));
  EXPECT_FALSE(make("vllm", "http://a", R"({"data_parallel_rank":-1})"));
  for (const char* engine : {"sglang", "llamacpp", "dynamo", "fak", "openai", "auto", ""}) {
    EXPECT_FALSE(make(engine, "http://a", R"({"data_parallel_rank":0})")) << engine;
  }
  EXPECT_FALSE(make("vllm", "http://a", R"({"allow_fields":"x"})"));
  EXPECT_FALSE(make("vllm", "http://a", R"({"allow_field":["x"]})"));
}

}  // namespace
}  // namespace fak::ride
