#include "gateway/gateway.h"

#include <cstdio>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/log.h"
#include "base/test_folder.h"
#include "gateway/openapi.h"
#include "gateway/test_support.h"
#include "net/http_client.h"
#include "net/test_support.h"
#include "text/sample_vocabulary.h"
#include "text/tokenizer.h"

namespace fak::gateway {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(GatewayTest, AnswersAChat) {
  Start();
  const auto response = Ask("POST", "/v1/chat/completions", kChat);
  EXPECT_EQ(response.status, 200);
  EXPECT_THAT(response.body, HasSubstr("\"content\":\"hey\""));
  EXPECT_THAT(response.body, HasSubstr("\"model\":\"m\""));
  EXPECT_TRUE(response.headers.Has("x-request-id"));
}

TEST_F(GatewayTest, StreamsAndKeepsTheClientsRequestId) {
  Start();
  const auto response = Ask("POST", "/v1/v1/chat/completions",
                            R"({"stream":true,"messages":[{"role":"user","content":"hi"}]})",
                            {{"x-request-id", "mine-1"}});
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.Get("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(response.headers.Get("x-request-id"), "mine-1");
  EXPECT_THAT(response.body, HasSubstr("data: [DONE]\n\n"));
  EXPECT_EQ(driver_.prepared_->shown_id, "mine-1");
  EXPECT_NE(driver_.prepared_->request_id, "mine-1");  // another client may give the same
}

TEST_F(GatewayTest, WhatCameAtOnceLeavesAtOnce) {
  Start();
  const std::string body = R"({"stream":true,"messages":[{"role":"user","content":"hi"}]})";
  for (const bool batch : {false, true}) {
    driver_.batch_ = batch;
    net::test::RawSocket socket = net::test::RawSocket::Connect(server_->port());
    ASSERT_TRUE(socket.Send("POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: " +
                            std::to_string(body.size()) + "\r\n\r\n" + body));
    const std::string answer = socket.ReadThrough("\r\n0\r\n\r\n");
    EXPECT_THAT(answer, HasSubstr("data: [DONE]"));
    // A chunk of the body ends with an empty line of CR LF, as the head does.
    size_t chunks = 0;
    for (size_t at = answer.find("\n\n\r\n"); at != std::string::npos;
         at = answer.find("\n\n\r\n", at + 1)) {
      ++chunks;
    }
    EXPECT_EQ(chunks == 1, batch) << answer;
  }
}

TEST_F(GatewayTest, AFailureBeforeTheFirstTokenHasItsOwnStatus) {
  driver_.events_ = {wire::Failed{{Code::kUnavailable, "down", "", 0, 7}}};
  Start();
  const auto response = Ask("POST", "/v1/chat/completions",
                            R"({"stream":true,"messages":[{"role":"user","content":"hi"}]})");
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.headers.Get("retry-after"), "7");
  EXPECT_THAT(response.body, HasSubstr("\"message\":\"down\""));
}

TEST_F(GatewayTest, ErrorsNameWhatIsWrong) {
  driver_.refusal_ = Error{Code::kContextTooLong, "77 tokens", "prompt"};
  Start();
  const std::tuple<const char*, std::string, int, const char*> kCases[] = {
      {"/v1/chat/completions", "{", 400, "JSON"},
      {"/v1/chat/completions", "[]", 400, "object"},
      {"/v1/chat/completions", R"({"messages":[]})", 400, "\"param\":\"messages\""},
      {"/v1/chat/completions", R"({"model":"x","messages":[{"role":"user","content":"h"}]})", 404,
       "m, also-m"},
      {"/v1/chat/completions", kChat, 400, "77 tokens"},
      {"/v1/chat/completions",
       R"({"chat_template":"x","messages":[{"role":"user","content":"h"}]})", 400, "77 tokens"},
      {"/v1/completions", R"({"prompt":3})", 400, "\"param\":\"prompt\""},
      {"/nowhere", "{}", 404, "there is no /nowhere here: the API is under /v1"},
      {"/", "{}", 404, "the API is under /v1"},
      {"/v1", "{}", 404, "nothing answers at /v1 itself: it begins the API's paths, as /v1/models"},
      {"/chat/completions", "{}", 404,
       "it is at /v1/chat/completions; a client's base URL needs the /v1"},
      {"/models", "{}", 404, "it is at /v1/models"},
      {"/v1/models", "{}", 405, "/v1/models takes GET, not POST"},
      {"/v1/responses", "{}", 404, "isn't served by the engine behind this server"},
      {"/tokenize", R"({"prompt":"x"})", 400, "tokenizer"},
  };
  for (const auto& [path, body, status, word] : kCases) {
    const auto response = Ask("POST", path, body);
    EXPECT_EQ(response.status, status) << path << body << response.body;
    EXPECT_THAT(response.body, HasSubstr(word));
    EXPECT_THAT(response.body, HasSubstr("\"error\""));
  }
}

TEST_F(GatewayTest, PassesOtherWiresToEnginesThatSpeakThem) {
  driver_.other_wires_ = true;
  driver_.events_ = {wire::UpstreamHeaders{{{"anthropic-ratelimit-requests-remaining", "3"}}},
                     wire::RawChunk{R"({"type":"message_stop"})", "message_stop"},
                     wire::TextDelta{0, "x", {}, {}}, wire::Finish{}, wire::Done{}};
  Start();
  const std::string body = R"({ "model":"m", "stream":true,"messages":[ {"role":"user"} ]})";
  const auto streamed = Ask("POST", "/v1/messages", body,
                            {{"anthropic-beta", "b"}, {"authorization", "Bearer secret"}});
  EXPECT_EQ(streamed.status, 200);
  EXPECT_EQ(streamed.body, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
  EXPECT_EQ(streamed.headers.Get("anthropic-ratelimit-requests-remaining"), "3");
  EXPECT_EQ(*driver_.prepared_->maybe_body, body);
  EXPECT_EQ(driver_.prepared_->client_headers.Get("anthropic-beta"), "b");
  EXPECT_FALSE(driver_.prepared_->client_headers.Has("authorization"));
  EXPECT_EQ(driver_.prepared_->turn->surface, wire::Surface::kMessages);
  for (const char* path : {"/v1/responses", "/v1/embeddings"}) {
    const auto whole = Ask("POST", path, R"({"input":"x"})");
    EXPECT_EQ(whole.status, 200) << path;
    EXPECT_EQ(whole.body, R"({"type":"message_stop"})") << path;
  }
  for (const char* path : {"/v1/messages/count_tokens", "/apply-template"}) {
    EXPECT_EQ(Ask("POST", path, R"({"messages":[]})").status, 200) << path;
    EXPECT_EQ(Ask("POST", path, R"({"input":"x"})").status, 400) << path;
  }
  EXPECT_EQ(driver_.prepared_->turn->surface, wire::Surface::kTemplate);
}

TEST_F(GatewayTest, RefusesWiresThatTheEngineDoesNotSpeakInTheirOwnWords) {
  Start();
  const auto messages = Ask("POST", "/v1/messages", R"({"messages":[]})");
  EXPECT_EQ(messages.status, 404);
  EXPECT_THAT(messages.body, HasSubstr(R"({"type":"error","error":{"type":"not_found_error")"));
  EXPECT_THAT(Ask("POST", "/v1/embeddings", R"({"input":"x"})").body, HasSubstr("not_found"));
  driver_.other_wires_ = true;
  EXPECT_THAT(Ask("POST", "/v1/messages", "{}").body, HasSubstr("messages: is missing"));
}

TEST_F(GatewayTest, PutsToSleepAndTellsARowForEachWorker) {
  Start();
  EXPECT_EQ(Ask("POST", "/v1/fak/upstream/sleep").status, 400);  // nobody here can
  driver_.sleeps_ = true;
  driver_.sleep_outcomes_ = {{"a", std::string("POST /sleep?level=2")}};
  const auto done = Ask("POST", "/v1/fak/upstream/sleep", R"({"worker":"a","level":2})");
  EXPECT_EQ(done.status, 200);
  EXPECT_EQ(done.body,
            R"({"results":[{"worker":"a","status":"done","call":"POST /sleep?level=2"}]})");
  EXPECT_FALSE(driver_.slept_.wake);
  EXPECT_EQ(driver_.slept_.level, 2);
  EXPECT_EQ(driver_.slept_.worker, "a");
  driver_.sleep_outcomes_.push_back({"b", Fail(Code::kUnsupported, "it can't")});
  const auto refused = Ask("POST", "/v1/fak/upstream/wake");
  EXPECT_EQ(refused.status, 400);
  EXPECT_TRUE(driver_.slept_.wake);
  EXPECT_EQ(driver_.slept_.worker, "");
  EXPECT_THAT(refused.body, HasSubstr(R"("worker":"b","status":"refused","error":{"code":)"
                                      R"("unsupported","message":"it can't"}})"));
  EXPECT_THAT(refused.body, HasSubstr(R"("error":{"message":"it can't")"));
  EXPECT_EQ(Ask("POST", "/v1/fak/upstream/wake", R"({"worker":"nobody"})").status, 404);
  for (const char* wrong : {"[]", "{", R"({"level":3})", R"({"level":"1"})", R"({"worker":1})"}) {
    EXPECT_EQ(Ask("POST", "/v1/fak/upstream/sleep", wrong).status, 400) << wrong;
  }
}

TEST_F(GatewayTest, TellsTheLoadOfEachWorker) {
  Start();
  EXPECT_EQ(Ask("GET", "/v1/fak/load").body, R"({"ready":true,"running":1})");
  driver::LoadReport up;
  up.in_flight = 2;
  up.waiting = 3;
  up.kv_usage = 0.5;
  up.ready = true;
  driver::LoadReport down;
  down.in_flight = 0;
  down.why_not = "can't connect";
  driver_.worker_loads_ = {{"a", "vllm", up}, {"b", "", down}};
  EXPECT_EQ(Ask("GET", "/v1/fak/load").body,
            R"({"ready":true,"running":1,"workers":[)"
            R"({"worker":"a","engine":"vllm","ready":true,"in_flight":2,"waiting":3,)"
            R"("kv_usage":0.5},{"worker":"b","ready":false,"why_not":"can't connect",)"
            R"("in_flight":0}]})");
}

TEST_F(GatewayTest, PassesSglangsOwnGenerateWhereTheEngineHasIt) {
  const char* body = R"({"text":"a","stream":true})";
  Start();
  const auto absent = Ask("POST", "/generate", body);
  EXPECT_EQ(absent.status, 404);
  EXPECT_THAT(absent.body, HasSubstr("isn't"));
  driver_.generates_natively_ = true;
  driver_.events_ = {wire::RawChunk{R"({"text":"x"})", ""}, wire::Finish{}, wire::Done{}};
  const auto streamed = Ask("POST", "/generate", body);
  EXPECT_EQ(streamed.status, 200);
  EXPECT_EQ(streamed.body, "data: {\"text\":\"x\"}\n\ndata: [DONE]\n\n");
  EXPECT_EQ(driver_.prepared_->turn->surface, wire::Surface::kGenerate);
  driver_.events_ = {wire::RawChunk{R"([{"text":"x"}])", ""}, wire::Finish{}, wire::Done{}};
  EXPECT_EQ(Ask("POST", "/generate", R"({"text":["a"]})").body, R"([{"text":"x"}])");
  EXPECT_EQ(Ask("POST", "/generate", "{}").status, 400);
}

TEST_F(GatewayTest, AsksTheEngineForTokensWhereThereIsNoCard) {
  driver_.tokenizes_ = true;
  Start();
  EXPECT_EQ(Ask("POST", "/tokenize", R"({"prompt":"abc"})").body,
            R"({"count":3,"max_model_len":77,"tokens":[7,7,7],"token_strs":null})");
  EXPECT_EQ(Ask("POST", "/tokenize", R"({"messages":[]})").status, 400);
}

TEST_F(GatewayTest, ListsModelsUnderEveryName) {
  Start();
  EXPECT_THAT(Ask("GET", "/v1/models").body, HasSubstr("\"id\":\"also-m\""));
  EXPECT_THAT(Ask("GET", "/v1/models/m").body, HasSubstr("\"max_model_len\":77"));
  EXPECT_THAT(Ask("GET", "/v1/models/%6d").body, HasSubstr("\"id\":\"m\""));
  for (const char* none : {"none", "%", "%6", "%6g", "%ff", "m%2F"}) {
    EXPECT_EQ(Ask("GET", "/v1/models/" + std::string(none)).status, 404) << none;
  }
}

TEST_F(GatewayTest, WithKeysOnlyThreeRoutesAreOpen) {
  GatewayOptions options;
  options.keys.Add("admin", {"root", 1.0, true});
  options.keys.Add("user", {"alice", 2.0, false});
  Start(std::move(options));
  for (const char* open : {"/health", "/ready", "/version"}) {
    EXPECT_EQ(Ask("GET", open).status, 200) << open;
  }
  for (const char* closed : {"/v1/models", "/metrics", "/openapi.json", "/v1/fak/load", "/x"}) {
    EXPECT_EQ(Ask("GET", closed).status, 401) << closed;
    EXPECT_EQ(Ask("GET", closed, "", {{"authorization", "Bearer no"}}).status, 401) << closed;
  }
  const net::HttpHeaders user = {{"authorization", "Bearer user"}};
  EXPECT_EQ(Ask("GET", "/v1/models", "", user).status, 200);
  EXPECT_EQ(Ask("GET", "/v1/fak/load", "", user).status, 403);
  EXPECT_EQ(Ask("POST", "/v1/fak/upstream/sleep", "", user).status, 403);
  EXPECT_EQ(Ask("POST", "/v1/fak/upstream/wake", "", user).status, 403);
  for (const char* slot : {"save", "restore", "erase"}) {
    EXPECT_EQ(Ask("POST", std::string("/v1/fak/upstream/slot/") + slot, "", user).status, 403);
  }
  EXPECT_EQ(Ask("GET", "/v1/fak/load", "", {{"x-api-key", "admin"}}).status, 200);
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat, user).status, 200);
  EXPECT_EQ(driver_.prepared_->tenant, "alice");
  EXPECT_EQ(driver_.prepared_->tenant_weight, 2.0);
}

TEST_F(GatewayTest, TheTenantIsPartOfTheSalt) {
  GatewayOptions options;
  options.keys.Add("a", {"alice", 1.0, false});
  options.keys.Add("b", {"bob", 1.0, false});
  Start(std::move(options));
  const char* body = R"({"cache_salt":"s","messages":[{"role":"user","content":"hi"}]})";
  Ask("POST", "/v1/chat/completions", body, {{"x-api-key", "a"}});
  const std::string alice = driver_.prepared_->cache_salt;
  Ask("POST", "/v1/chat/completions", body, {{"x-api-key", "b"}});
  EXPECT_NE(driver_.prepared_->cache_salt, alice);
  EXPECT_THAT(alice, HasSubstr("s"));
}

TEST_F(GatewayTest, EveryRefusalHasARequestIdAndALineInTheAccessLog) {
  const std::string log_file = FreshFile("fak_gateway_access.log");
  ASSERT_TRUE(StartLog({.json = true, .file = log_file}));
  GatewayOptions options;
  options.keys.Add("good", {"alice", 1.0, false});
  Start(std::move(options));
  const net::HttpHeaders good = {{"x-api-key", "good"}};
  const std::tuple<const char*, const char*, net::HttpHeaders, int> kCases[] = {
      {"GET", "/v1/models", {}, 401},  // before the body
      {"GET", "/v1/fak/load", good, 403}, {"GET", "/v1/none", good, 404},
      {"POST", "/v1/models", good, 405},  {"POST", "/v1/completions", good, 400},
  };
  for (auto [method, target, headers, status] : kCases) {
    headers.Add("x-request-id", "mine-" + std::to_string(status));
    const auto response = Ask(method, target, "{}", headers);
    EXPECT_EQ(response.status, status);
    EXPECT_EQ(response.headers.Get("x-request-id"), "mine-" + std::to_string(status));
    EXPECT_EQ(response.headers.Get("allow"),
              status == 405 ? std::optional<std::string_view>("GET") : std::nullopt);
  }
  net::test::RawSocket socket = net::test::RawSocket::Connect(server_->port());
  socket.Send(
      "POST /v1/completions HTTP/1.1\r\nHost: h\r\nX-Request-Id: mine-413\r\n"
      "x-api-key: good\r\nContent-Length: 99999999999\r\n\r\n");
  EXPECT_THAT(socket.ReadAll(), HasSubstr("\r\nx-request-id: mine-413\r\n"));
  StopLog();
  const std::string log = *ReadFile(log_file, 1 << 20);
  for (const auto& [method, target, headers, status] : kCases) {
    EXPECT_THAT(log, HasSubstr("\"method\":\"" + std::string(method) + "\",\"path\":\"" + target +
                               "\",\"status\":" + std::to_string(status)));
    EXPECT_THAT(log, HasSubstr("\"request_id\":\"mine-" + std::to_string(status) + "\""));
  }
  EXPECT_THAT(log, HasSubstr("\"path\":\"/v1/completions\",\"status\":413"));
  EXPECT_THAT(log, HasSubstr("\"error\":\"payload_too_large\""));
}

TEST_F(GatewayTest, TheLogHasATimeToTheFirstByteOfStreamsOnly) {
  const std::string log_file = FreshFile("fak_gateway_first_byte.log");
  ASSERT_TRUE(StartLog({.json = true, .file = log_file}));
  driver_.events_ = {wire::TextDelta{0, "x", {}, {}}, wire::Finish{}, wire::Done{}};
  Start({});
  for (const char* stream : {"false", "true"}) {
    const std::string body = R"({"messages":[{"role":"user","content":"hi"}],"stream":)";
    EXPECT_EQ(Ask("POST", "/v1/chat/completions", body + stream + "}",
                  {{"x-request-id", std::string("stream-") + stream}})
                  .status,
              200);
  }
  StopLog();
  const std::string log = *ReadFile(log_file, 1 << 20);
  const size_t streamed = log.find("stream-true");
  ASSERT_NE(streamed, std::string::npos);
  EXPECT_THAT(log.substr(0, log.rfind('\n', streamed)), Not(HasSubstr("ttft_ms")));
  EXPECT_THAT(log.substr(streamed), HasSubstr("ttft_ms"));
}

TEST_F(GatewayTest, ATraceGoesToTheEngineTheLogAndBackAndWhatIsNoneGoesNowhere) {
  const std::string log_file = FreshFile("fak_gateway_trace.log");
  ASSERT_TRUE(StartLog({.json = true, .file = log_file}));
  Start({});
  const std::string good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  const std::string later = "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-abc";
  for (const std::string& trace : {good, later}) {
    const auto response = Ask("POST", "/v1/chat/completions", kChat, {{"traceparent", trace}});
    EXPECT_EQ(driver_.prepared_->traceparent, trace);
    EXPECT_EQ(response.headers.Get("traceparent"), trace);
  }
  const std::string kNone[] = {"",
                               "x",
                               good + "-more",
                               good + "x",
                               "ff" + good.substr(2),
                               "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                               "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                               "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                               "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
                               later + std::string(4096, 'a')};
  for (const std::string& trace : kNone) {
    const auto response = Ask("POST", "/v1/chat/completions", kChat, {{"traceparent", trace}});
    EXPECT_EQ(driver_.prepared_->traceparent, "") << trace;
    EXPECT_FALSE(response.headers.Has("traceparent")) << trace;
  }
  StopLog();
  EXPECT_THAT(*ReadFile(log_file, 1 << 20), HasSubstr("\"traceparent\":\"" + good + "\""));
}

TEST_F(GatewayTest, TakesNoBodyInThatNobodyReads) {
  GatewayOptions options;
  options.keys.Add("good", {"alice", 1.0, false});
  options.cors_origin = "*";
  Start(std::move(options));
  const std::string kHeads[] = {
      "GET /health HTTP/1.1\r\nHost: h\r\nContent-Length: 62914560\r\n\r\n",
      "OPTIONS /v1/models HTTP/1.1\r\nHost: h\r\nContent-Length: 62914560\r\n\r\n",
      "GET /ready HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"};
  for (const std::string& head : kHeads) {
    net::test::RawSocket socket = net::test::RawSocket::Connect(server_->port());
    socket.Send(head);  // and nothing of the body
    EXPECT_THAT(socket.ReadThrough("\r\n"), HasSubstr(" 413 ")) << head;
  }
  EXPECT_EQ(Ask("GET", "/health", "{}").status, 200);
}

TEST_F(GatewayTest, BoundsWhatIsTokenized) {
  Start({});
  const std::string large = R"({"prompt":")" + std::string(limits::kTokenizeBytesMax, ' ') + "\"}";
  for (const char* path : {"/tokenize", "/v1/tokenize"}) {
    EXPECT_EQ(Ask("POST", path, large).status, 413) << path;
  }
}

TEST_F(GatewayTest, TheAccessLogCountsTokensOfAStreamThatBroke) {
  const std::string log_file = FreshFile("fak_gateway_broken.log");
  ASSERT_TRUE(StartLog({.json = true, .file = log_file}));
  wire::TextDelta text;
  text.tokens = {5, 6, 7};
  driver_.events_ = {wire::Started{1, 9, 0}, text,
                     wire::Failed{{Code::kUnavailable, "the server is shutting down"}}};
  Start({});
  Ask("POST", "/v1/chat/completions", kChat);
  StopLog();
  EXPECT_THAT(*ReadFile(log_file, 1 << 20),
              HasSubstr("\"prompt_tokens\":9,\"completion_tokens\":3"));
}

TEST_F(GatewayTest, TheAccessLogCountsTokensOfARequestThatNamesNoModel) {
  const std::string log_file = FreshFile("fak_gateway_tokens.log");
  ASSERT_TRUE(StartLog({.json = true, .file = log_file}));
  driver_.events_ = {wire::RawChunk{"{}"}, wire::Finish{}, wire::UsageReport{{7, 3, -1, -1}},
                     wire::Done{}};
  gateway_ = std::make_unique<Gateway>(GatewayOptions{}, driver_, metrics_,
                                       metrics_.MakeEmitter({.worker = "w"}), clock_, random_);
  Listen();
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat).status, 200);
  StopLog();
  EXPECT_THAT(*ReadFile(log_file, 1 << 20),
              HasSubstr("\"prompt_tokens\":7,\"completion_tokens\":3"));
}

TEST_F(GatewayTest, TheAccessLogSaysThatTheEngineBrokeOff) {
  const std::string log_file = FreshFile("fak_gateway_broken_off.log");
  ASSERT_TRUE(StartLog({.json = true, .file = log_file}));
  driver_.events_ = {wire::RawChunk{"{}"}, wire::Finish{0, wire::FinishReason::kError, {}, {}},
                     wire::Done{}};
  Start();
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat).status, 200);
  StopLog();
  EXPECT_THAT(*ReadFile(log_file, 1 << 20), HasSubstr("\"error\":\"upstream_error\""));
}

TEST_F(GatewayTest, TheAccessLogLeavesOutTokensThatNobodyCounted) {
  const std::string log_file = FreshFile("fak_gateway_uncounted.log");
  ASSERT_TRUE(StartLog({.json = true, .file = log_file}));
  driver_.events_ = {wire::RawChunk{"{}"}, wire::Finish{}, wire::Done{}};
  Start();
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat).status, 200);
  StopLog();
  EXPECT_THAT(*ReadFile(log_file, 1 << 20), Not(HasSubstr("_tokens\"")));
}

TEST_F(GatewayTest, TheAccessLogLeavesOutTokensOfABrokenStreamThatNobodyCounted) {
  const std::string log_file = FreshFile("fak_gateway_broken_uncounted.log");
  ASSERT_TRUE(StartLog({.json = true, .file = log_file}));
  driver_.events_ = {wire::TextDelta{0, "he", {}, {}}, wire::RawChunk{"{}"},
                     wire::Failed{{Code::kUnavailable, "upstream u: cut"}}};
  Start();
  Ask("POST", "/v1/chat/completions",
      R"({"stream":true,"messages":[{"role":"user","content":"hi"}]})");
  StopLog();
  const std::string log = *ReadFile(log_file, 1 << 20);
  EXPECT_THAT(log, HasSubstr("\"error\":\"unavailable\""));
  EXPECT_THAT(log, Not(HasSubstr("_tokens\"")));
}

TEST_F(GatewayTest, TheAccessLogNamesTheUpstreamAndWhyItFailed) {
  const std::string log_file = FreshFile("fak_gateway_upstream.log");
  ASSERT_TRUE(StartLog({.json = true, .file = log_file}));
  Start();
  driver_.worker_ = "b";
  driver_.events_.insert(driver_.events_.begin(), wire::UpstreamHeaders{{}, "10.0.0.3:8000"});
  const auto answered = Ask("POST", "/v1/chat/completions", kChat);
  EXPECT_EQ(answered.status, 200);
  for (const auto& [name, value] : answered.headers) {
    EXPECT_THAT(value, Not(HasSubstr("10.0.0.3"))) << name;  // an address is for logs alone
  }
  driver_.refusal_ = {Code::kUnavailable, "upstream b: gone"};
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat).status, 503);
  driver_.refusal_ = {Code::kInvalidArgument, "you said: secret"};
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat).status, 400);
  StopLog();
  const std::string log = *ReadFile(log_file, 1 << 20);
  EXPECT_THAT(log, HasSubstr("\"status\":200"));
  EXPECT_THAT(log, HasSubstr("\"upstream\":\"b\",\"served_by\":\"10.0.0.3:8000\""));
  EXPECT_THAT(log, HasSubstr("\"error\":\"unavailable\",\"reason\":\"upstream b: gone\""));
  EXPECT_THAT(log, Not(HasSubstr("secret")));
}

TEST_F(GatewayTest, TheAccessLogCountsTheTimeFromTheFirstByte) {
  const std::string log_file = FreshFile("fak_gateway_ms.log");
  ASSERT_TRUE(StartLog({.json = true, .file = log_file}));
  Start();
  server_ = *net::HttpServer::Start(loop_, {.limits = {.head_timeout_ms = 30}}, *gateway_);
  net::test::RawSocket slow = net::test::RawSocket::Connect(server_->port());
  slow.Send(
      "POST /v1/completions HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
      "Content-Length: 2\r\n\r\n{");
  net::test::RawSocket slower = net::test::RawSocket::Connect(server_->port());
  slower.Send("POST /v1/completions HTTP/1.1\r\n");
  EXPECT_THAT(slower.ReadAll(), HasSubstr(" 408 "));
  slow.Send("}");
  EXPECT_THAT(slow.ReadAll(), HasSubstr(" 400 "));
  StopLog();
  const std::string log = *ReadFile(log_file, 1 << 20);
  size_t lines = 0;
  for (size_t at = 0; (at = log.find("\"ms\":", at)) != std::string::npos; ++lines) {
    at += std::string_view("\"ms\":").size();
    EXPECT_GE(std::stod(log.substr(at)), 25) << log;  // timers count whole milliseconds
  }
  EXPECT_EQ(lines, 2u);
}

TEST_F(GatewayTest, ARequestThatNamesNoModelMeansTheFirst) {
  Start();
  Ask("POST", "/v1/chat/completions", kChat);
  EXPECT_EQ(driver_.prepared_->turn->model, "m");
}

TEST_F(GatewayTest, OnlyASmallBodyIsPreparedOnTheLoop) {
  driver_.maybe_loop_ = &loop_;
  Start();
  for (const size_t bytes : {1000, 20'000, 1'000'000}) {
    Ask("POST", "/v1/completions", R"({"prompt":")" + std::string(bytes, 'x') + "\"}");
    EXPECT_EQ(driver_.prepared_->prompts.front().text.size(), bytes);
    EXPECT_EQ(driver_.on_loop_, bytes == 1000) << bytes;
  }
}

TEST_F(GatewayTest, NothingIsTokenizedOnTheLoop) {
  driver_.maybe_loop_ = &loop_;
  auto card = std::make_shared<text::ModelCard>();
  card->tokenizer = *text::Tokenizer::Create(text::SampleBpe("smollm"));
  GatewayOptions options;
  options.maybe_card = std::move(card);
  Start(std::move(options));
  Ask("POST", "/v1/completions", R"({"prompt":"hi"})");
  EXPECT_FALSE(driver_.prepared_->prompts.front().tokens.empty());
  EXPECT_FALSE(driver_.on_loop_);
}

TEST_F(GatewayTest, TheRequestTimeoutBecomesADeadlineFromArrival) {
  GatewayOptions options;
  options.request_timeout_ms = 1500;
  Start(std::move(options));
  Ask("POST", "/v1/chat/completions", kChat);
  EXPECT_EQ(driver_.prepared_->deadline_ns, driver_.prepared_->arrival_ns + 1500 * kNsPerMs);
  EXPECT_THAT(driver::DeadlineError(*driver_.prepared_).detail, HasSubstr("1500 ms"));
}

TEST_F(GatewayTest, IsNotReadyWhenDraining) {
  Start();
  gateway_->SetDraining();
  EXPECT_EQ(Ask("GET", "/ready").status, 503);
  EXPECT_EQ(Ask("GET", "/health").status, 200);
}

TEST_F(GatewayTest, CountsUnknownFieldsAndShowsMetrics) {
  Start();
  Ask("POST", "/v1/chat/completions",
      R"({"zig":1,"zag":2,"messages":[{"role":"user","content":"hi"}]})");
  EXPECT_THAT(Ask("GET", "/metrics").body, HasSubstr("fak_serving_unknown_request_fields_total"));
}

TEST_F(GatewayTest, SendsCorsHeadersOnlyWhenAsked) {
  Start();
  EXPECT_FALSE(Ask("GET", "/health", "", {{"origin", "http://a"}})
                   .headers.Has("access-control-allow-origin"));
}

TEST_F(GatewayTest, AnswersPreflightsOfTheAllowedOrigin) {
  GatewayOptions options;
  options.cors_origin = "http://a";
  Start(std::move(options));
  const auto response = Ask("OPTIONS", "/v1/models", "", {{"origin", "http://a"}});
  EXPECT_EQ(response.status, 204);
  EXPECT_EQ(response.headers.Get("access-control-allow-origin"), "http://a");
  // Fetch, "CORS-unsafe request-header names": a wildcard doesn't let Authorization through.
  EXPECT_EQ(response.headers.Get("access-control-allow-headers"), "*, Authorization, x-api-key");
  for (const char* body : {kChat, "{"}) {
    EXPECT_EQ(Ask("POST", "/v1/chat/completions", body, {{"origin", "http://a"}})
                  .headers.Get("access-control-allow-origin"),
              "http://a");
  }
}

// A cache before us must not give one site's answer, or that of no site, to another.
TEST_F(GatewayTest, SaysThatAnswersVaryWithTheOriginWhereOneIsAllowed) {
  GatewayOptions options;
  options.cors_origin = "http://a";
  Start(std::move(options));
  for (const net::HttpHeaders& headers :
       {net::HttpHeaders{}, net::HttpHeaders{{"origin", "http://a"}},
        net::HttpHeaders{{"origin", "http://b"}}}) {
    for (const char* path : {"/v1/models", "/health", "/nowhere"}) {
      EXPECT_EQ(Ask("GET", path, "", headers).headers.Get("vary"), "Origin") << path;
    }
    EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat, headers).headers.Get("vary"), "Origin");
  }
}

TEST_F(GatewayTest, AnswersThatAnyOriginMayReadDoNotVary) {
  GatewayOptions options;
  options.cors_origin = "*";
  Start(std::move(options));
  const auto answer = Ask("GET", "/v1/models", "", {{"origin", "http://a"}});
  EXPECT_EQ(answer.headers.Get("access-control-allow-origin"), "*");
  EXPECT_FALSE(answer.headers.Has("vary"));
}

TEST(OpenApi, DescribesEveryRouteAndNoOther) {
  const auto document = ParseJson(kOpenApi);
  ASSERT_TRUE(document);
  const Json& paths = *document->Find("paths");
  std::vector<std::string> served = {"/v1/models/{id}"};
  for (const Gateway::Route& route : Gateway::Routes()) {
    served.emplace_back(route.path);
    const Json* path = paths.Find(route.path);
    ASSERT_NE(path, nullptr) << route.path;
    if (const Json* same = path->Find("$ref")) {
      path = paths.Find("/" + same->string().substr(std::string("#/paths/~1").size()));
      ASSERT_NE(path, nullptr) << route.path;
    }
    EXPECT_NE(path->Find(route.method == "GET" ? "get" : "post"), nullptr) << route.path;
  }
  for (const Json::Member& path : paths.object()) {
    EXPECT_THAT(served, Contains(path.first));
  }
}

}  // namespace
}  // namespace fak::gateway
