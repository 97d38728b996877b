// Who is answered, and what is refused before it costs anything.
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "gateway/test_support.h"

namespace fak::gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class GuardsTest : public GatewayTest {};

// A page of another site can make a browser send a plain POST to this machine, and a name of its
// own may lead here.
TEST_F(GuardsTest, WithoutKeysInternalRoutesAreForThisMachineAlone) {
  Start();
  const auto status = [this](net::HttpHeaders headers) {
    return Ask("GET", "/v1/fak/load", "", std::move(headers)).status;
  };
  EXPECT_EQ(status({}), 200);
  for (const char* host : {"localhost", "LOCALHOST:8000", "127.0.0.1", "127.8.9.1:1", "[::1]:80"}) {
    EXPECT_EQ(status({{"host", host}}), 200) << host;
  }
  for (const char* host : {"evil.example", "evil.example:8000", "127.0.0.1.evil.example",
                           "localhost.evil.example", "192.0.2.1", ""}) {
    EXPECT_EQ(status({{"host", host}}), 403) << host;
  }
  EXPECT_EQ(status({{"origin", "http://localhost:3000"}}), 200);
  EXPECT_EQ(status({{"origin", "http://evil.example"}}), 403);
  EXPECT_EQ(status({{"origin", "null"}}), 403);
}

// A plain POST of another site's page is sent without a preflight, and does its work before the
// browser finds that the page may not read the answer.
TEST_F(GuardsTest, WithoutKeysPagesOfOtherSitesMakeNobodyWork) {
  Start();
  const auto status = [this](net::HttpHeaders headers) {
    headers.Add("content-type", "text/plain");
    return Ask("POST", "/v1/chat/completions", kChat, std::move(headers)).status;
  };
  for (const char* origin : {"http://evil.example", "https://desk.example.evil.example", "null",
                             "chrome-extension://abc", "http://"}) {
    EXPECT_EQ(status({{"origin", origin}}), 403) << origin;
    EXPECT_EQ(status({{"origin", origin}, {"host", "desk.example"}}), 403) << origin;
  }
  EXPECT_EQ(status({}), 200);
  EXPECT_EQ(status({{"host", "desk.example"}}), 200);
  EXPECT_EQ(status({{"origin", "http://localhost:3000"}}), 200);
  // Its own page, behind a proxy that keeps the name and may have another port, or TLS.
  for (const char* host : {"desk.example", "Desk.Example:443", "desk.example:8443"}) {
    EXPECT_EQ(status({{"origin", "https://desk.example"}, {"host", host}}), 200) << host;
  }
  const auto refused = Ask("POST", "/v1/completions", "{}", {{"origin", "null"}});
  EXPECT_THAT(refused.body, HasSubstr("--allowed-origin"));
  EXPECT_THAT(refused.body, HasSubstr("without keys, /v1/completions doesn't answer pages of"));
  for (const Gateway::Route& route : Gateway::Routes()) {
    if (route.method == "POST") {
      const std::string path(route.path);
      EXPECT_EQ(Ask("POST", path, "{}", {{"origin", "http://evil.example"}}).status, 403) << path;
    }
  }
  EXPECT_EQ(Ask("GET", "/v1/models", "", {{"origin", "http://evil.example"}}).status, 200);
}

TEST_F(GuardsTest, AKeyIsEnoughFromAnyPage) {
  GatewayOptions options;
  options.keys.Add("k", {"alice"});
  Start(std::move(options));
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat,
                {{"origin", "http://evil.example"}, {"x-api-key", "k"}})
                .status,
            200);
}

TEST_F(GuardsTest, AnOriginThatMayCallMayCallInternalRoutes) {
  GatewayOptions options;
  options.cors_origin = "https://desk.example";
  Start(std::move(options));
  EXPECT_EQ(Ask("GET", "/v1/fak/load", "", {{"origin", "https://desk.example"}}).status, 200);
  EXPECT_EQ(Ask("GET", "/v1/fak/load", "", {{"origin", "https://evil.example"}}).status, 403);
  const auto chat = [this](const char* origin) {
    return Ask("POST", "/v1/chat/completions", kChat, {{"origin", origin}}).status;
  };
  EXPECT_EQ(chat("https://desk.example"), 200);
  EXPECT_EQ(chat("https://evil.example"), 403);
}

TEST_F(GuardsTest, AnyOriginIsNotMeantForInternalRoutes) {
  GatewayOptions options;
  options.cors_origin = "*";
  Start(std::move(options));
  EXPECT_EQ(Ask("GET", "/v1/fak/load", "", {{"origin", "https://evil.example"}}).status, 403);
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat, {{"origin", "https://evil.example"}}).status,
            200);
}

TEST_F(GuardsTest, ARequestThatComesBackIsALoop) {
  Start();
  Ask("POST", "/v1/chat/completions", kChat, {{"via", "1.1 other"}});
  const std::string via(driver_.prepared_->client_headers.Get("via").value_or(""));
  EXPECT_THAT(via, StartsWith("1.1 other, 1.1 fak-"));
  const net::HttpResponse back = Ask("POST", "/v1/chat/completions", kChat, {{"via", via}});
  EXPECT_EQ(back.status, 508);
  EXPECT_THAT(back.body, HasSubstr("leads back to it"));
}

// Whoever waits for "100 Continue" waits for a word on the head, and gets the last one.
TEST_F(GuardsTest, WhatTheHeadDecidesIsAnsweredBeforeTheBody) {
  GatewayOptions options;
  options.keys.Add("good", {"alice"});
  Start(std::move(options));
  const std::string expect = "Expect: 100-continue\r\nContent-Length: 9\r\n";
  const std::string much = "Content-Length: 60000000\r\n";
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  const std::string good = "x-api-key: good\r\n";
  const std::tuple<const char*, std::string, const char*> kCases[] = {
      {"POST /v1/none", good + expect, "404 "},
      {"POST /v1/none", good + much, "404 "},
      {"POST /v1/none", good + chunked, "404 "},
      {"POST /v1/models", good + expect, "405 "},
      {"POST /v1/models", good + much, "405 "},
      {"POST /v1/completions", expect, "401 "},
      {"POST /v1/none", expect, "401 "},
      {"POST /v1/fak/cache/evict", good + expect, "403 "},
      {"POST /v1/completions", good + "Expect: 100-continue\r\nContent-Length: 99999999999\r\n",
       "413 "},
      {"POST /v1/completions", good + expect + "Content-Encoding: gzip\r\n", "415 "},
      {"POST /v1/completions", good + expect, "100 "},
  };
  for (const auto& [line, headers, status] : kCases) {
    net::test::RawSocket socket = net::test::RawSocket::Connect(server_->port());
    socket.Send(std::string(line) + " HTTP/1.1\r\nHost: h\r\n" + headers + "\r\n");
    EXPECT_THAT(socket.ReadThrough("\r\n"), StartsWith(std::string("HTTP/1.1 ") + status))
        << line << "\n"
        << headers;
  }
  // The connection stays where little is said in vain.
  net::test::RawSocket socket = net::test::RawSocket::Connect(server_->port());
  for (int i = 0; i < 2; ++i) {
    socket.Send("POST /v1/none HTTP/1.1\r\nHost: h\r\n" + good + "Content-Length: 2\r\n\r\n{}");
    EXPECT_THAT(socket.ReadResponse(), HasSubstr(" 404 "));
  }
}

TEST_F(GuardsTest, TakesNoBodyThatIsCoded) {
  Start();
  for (const char* coding : {"gzip", "br", "identity, gzip"}) {
    const auto coded = Ask("POST", "/v1/chat/completions", kChat, {{"content-encoding", coding}});
    EXPECT_EQ(coded.status, 415) << coding;
    EXPECT_THAT(coded.body, HasSubstr("Content-Encoding"));
    EXPECT_THAT(coded.body, HasSubstr(R"("code":"unsupported")"));
  }
  for (const char* coding : {"identity", "Identity", ""}) {
    EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat, {{"content-encoding", coding}}).status,
              200)
        << coding;
  }
}

TEST_F(GuardsTest, ATenantHasNoMoreOpenThanItMay) {
  GatewayOptions options;
  options.keys.Add("a", {"alice", 1.0, false, {.max_concurrency = 1}});
  options.keys.Add("b", {"bob"});
  Start(std::move(options));
  const auto ask = [this](const std::string& key) {
    return Ask("POST", "/v1/chat/completions", kChat, {{"authorization", "Bearer " + key}});
  };
  const std::vector<wire::Event> answer = std::exchange(driver_.events_, {});
  driver_.keeps_ = true;
  std::thread first([&] { EXPECT_EQ(ask("a").status, 200); });
  while (!driver_.any_kept_.load()) {
    std::this_thread::yield();
  }
  const net::HttpResponse refused = ask("a");
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.headers.Get("retry-after"), "1");
  EXPECT_THAT(refused.body, HasSubstr("alice has as many requests open as it may: 1"));
  driver_.keeps_ = false;
  driver_.events_ = answer;
  EXPECT_EQ(ask("b").status, 200);
  for (const wire::Event& event : answer) {
    driver_.kept_->OnEvent(wire::Event(event));
  }
  first.join();
  driver_.kept_ = nullptr;  // it tells its loop that it goes
  EXPECT_EQ(ask("a").status, 200);
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", R"({"messages":[],"model":"other"})",
                {{"authorization", "Bearer a"}})
                .status,
            400);
  EXPECT_EQ(ask("a").status, 200);  // one that was refused isn't open
}

TEST(ByteBudget, GivesBackWhatIsLetGo) {
  ByteBudget budget(10);
  auto six = budget.Take(6);
  EXPECT_NE(six, nullptr);
  EXPECT_EQ(budget.Take(5), nullptr);
  const auto four = budget.Take(4);
  EXPECT_NE(four, nullptr);
  EXPECT_EQ(budget.Take(1), nullptr);
  auto copy = six;
  six = nullptr;
  EXPECT_EQ(budget.Take(6), nullptr);
  copy = nullptr;
  EXPECT_NE(budget.Take(6), nullptr);
}

TEST_F(GuardsTest, LargeBodiesAreBoundedTogether) {
  constexpr size_t kBody = 300 * 1024;
  GatewayOptions options;
  options.large_bodies_bytes_max = 3 * kBody;
  Start(std::move(options));
  const std::string chat =
      R"({"messages":[{"role":"user","content":")" + std::string(kBody - 100, 'a') + R"("}]})";
  std::vector<std::shared_ptr<const driver::Prepared>> open;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Ask("POST", "/v1/chat/completions", chat).status, 200);
    open.push_back(driver_.prepared_);
  }
  const net::HttpResponse refused = Ask("POST", "/v1/chat/completions", chat);
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.Get("retry-after"), "1");
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat).status, 200) << "small ones don't count";
  driver_.prepared_ = nullptr;
  open.clear();
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", chat).status, 200);
}

}  // namespace
}  // namespace fak::gateway
