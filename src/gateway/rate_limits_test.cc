#include "gateway/rate_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/test_support.h"

namespace fak::gateway {
namespace {

using ::testing::HasSubstr;

Tenant Bounded(KeyLimits limits) {
  return {"alice", 1.0, false, limits};
}

class RateLimitsTest : public ::testing::Test {
 protected:
  std::optional<RateLimits::Refusal> Begin(bool streams = false) {
    std::shared_ptr<RateLimits::Share> share;
    auto over = limits_->Begin(tenant_, streams, share);
    if (share != nullptr) {
      shares_.push_back(std::move(share));
    }
    return over;
  }
  void Bound(KeyLimits limits) {
    tenant_ = Bounded(limits);
    limits_.emplace(std::vector<Tenant>{tenant_}, clock_);
  }
  std::string Header(const char* name) {
    return std::string(limits_->HeadersFor(tenant_).Get(name).value_or("none"));
  }

  FakeClock clock_;
  Tenant tenant_;
  std::optional<RateLimits> limits_;
  std::vector<std::shared_ptr<RateLimits::Share>> shares_;
};

TEST_F(RateLimitsTest, LetsAMinutesRequestsThroughAndThenAsManyAsHaveComeBack) {
  Bound({.requests_per_minute = 30});
  for (int i = 0; i < 30; ++i) {
    EXPECT_FALSE(Begin());
  }
  const auto over = Begin();
  ASSERT_TRUE(over);
  EXPECT_EQ(over->limit, "requests");
  EXPECT_EQ(over->error.code, Code::kRateLimited);
  EXPECT_EQ(over->error.retry_after_s, 2);
  EXPECT_EQ(Header("x-ratelimit-limit-requests"), "30");
  EXPECT_EQ(Header("x-ratelimit-remaining-requests"), "0");
  EXPECT_EQ(Header("x-ratelimit-reset-requests"), "1m0s");
  EXPECT_EQ(Header("x-ratelimit-limit-tokens"), "none");
  clock_.AdvanceMs(1'999);
  EXPECT_TRUE(Begin());
  clock_.AdvanceMs(2);
  EXPECT_FALSE(Begin());
  EXPECT_TRUE(Begin());
  clock_.AdvanceMs(3'600'000);  // no more than a minute's worth is kept
  EXPECT_EQ(Header("x-ratelimit-remaining-requests"), "30");
}

TEST_F(RateLimitsTest, StreamsAndRequestsThatAreOpenAreCountedApart) {
  Bound({.max_concurrency = 3, .max_streams = 1});
  EXPECT_FALSE(Begin(/*streams=*/true));
  EXPECT_EQ(Begin(/*streams=*/true)->limit, "streams");
  EXPECT_FALSE(Begin());
  EXPECT_FALSE(Begin());
  EXPECT_EQ(Begin()->limit, "concurrency");
  shares_.erase(shares_.begin());
  EXPECT_FALSE(Begin(/*streams=*/true));
}

TEST_F(RateLimitsTest, ABurstIsHeldBackBeforeAnybodyKnowsWhatItUses) {
  Bound({.tokens_per_minute = 1000});
  int passed = 0;
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(Begin());
    passed += shares_.back()->Reserve(100, std::nullopt) ? 0 : 1;
  }
  EXPECT_EQ(passed, 2);  // 100 and what an answer is taken for, 256
}

TEST_F(RateLimitsTest, WhatIsUsedInTheEndCounts) {
  Bound({.tokens_per_minute = 1000});
  EXPECT_FALSE(Begin());
  EXPECT_FALSE(shares_.back()->Reserve(100, 50));
  EXPECT_EQ(Header("x-ratelimit-remaining-tokens"), "850");
  shares_.back()->Settle(120, 10);
  EXPECT_EQ(Header("x-ratelimit-remaining-tokens"), "870");
  shares_.clear();
  EXPECT_EQ(Header("x-ratelimit-remaining-tokens"), "870");
  EXPECT_EQ(Header("x-ratelimit-reset-tokens"), "7.8s");
  // More than there is makes a debt.
  EXPECT_FALSE(Begin());
  EXPECT_FALSE(shares_.back()->Reserve(100, std::nullopt));
  shares_.back()->Settle(100, 2770);
  EXPECT_FALSE(Begin());
  const auto over = shares_.back()->Reserve(1, 1);
  ASSERT_TRUE(over);
  EXPECT_EQ(over->limit, "tokens");
  EXPECT_EQ(over->error.retry_after_s, 121);  // 2000 that are owed, and one or two
  EXPECT_EQ(Header("x-ratelimit-remaining-tokens"), "0");
}

TEST_F(RateLimitsTest, LearnsHowLongAnswersAre) {
  Bound({.tokens_per_minute = 1'000'000});
  for (int i = 0; i < 100; ++i) {
    Begin();
    ASSERT_FALSE(shares_.back()->Reserve(0, std::nullopt));
    shares_.back()->Settle(0, 4000);
    clock_.AdvanceMs(60'000);
  }
  Begin();
  ASSERT_FALSE(shares_.back()->Reserve(0, std::nullopt));
  EXPECT_EQ(Header("x-ratelimit-remaining-tokens"), "996000");
}

TEST_F(RateLimitsTest, ARequestThatComesToNothingUsesNoTokens) {
  Bound({.requests_per_minute = 10, .tokens_per_minute = 1000});
  Begin();
  EXPECT_FALSE(shares_.back()->Reserve(500, 100));
  shares_.clear();
  EXPECT_EQ(Header("x-ratelimit-remaining-tokens"), "1000");
  EXPECT_EQ(Header("x-ratelimit-remaining-requests"), "9");
  Begin();
  const auto over = shares_.back()->Reserve(1001, 1);
  ASSERT_TRUE(over);
  EXPECT_EQ(over->error.retry_after_s, 0);  // never
  EXPECT_EQ(Header("x-ratelimit-remaining-requests"), "9");
  Begin();
  EXPECT_FALSE(shares_.back()->Reserve(1000, std::nullopt));  // a bucket holds no more
}

TEST_F(RateLimitsTest, WhoMiscountsShutsNobodyOutForMoreThanAnHour) {
  Bound({.tokens_per_minute = 60});
  Begin();
  EXPECT_FALSE(shares_.back()->Reserve(1, 1));
  shares_.back()->Settle(1, INT32_MAX);
  clock_.AdvanceMs(61 * 60 * 1000);
  Begin();
  EXPECT_FALSE(shares_.back()->Reserve(1, 1));
}

driver::Prepared PreparedOf(const std::string& document, wire::Surface surface) {
  driver::Prepared prepared;
  auto turn = std::make_shared<wire::Turn>();
  turn->surface = surface;
  prepared.turn = turn;
  prepared.document = std::make_shared<const Json>(*ParseJson(document));
  prepared.prompts.push_back({.text = "text", .tokens = {}, .unit_keys = {}});
  return prepared;
}

TEST(PromptTokensOf, CountsTokensElseTexts) {
  driver::Prepared prepared =
      PreparedOf(R"({"system":"01234567","messages":[{"role":"user","content":"01234567"}]})",
                 wire::Surface::kMessages);
  EXPECT_EQ(PromptTokensOf(prepared), 5);
  prepared.prompts = {{.text = "x", .tokens = {1, 2, 3}, .unit_keys = {}},
                      {.text = "y", .tokens = {1}, .unit_keys = {}}};
  EXPECT_EQ(PromptTokensOf(prepared), 4);
  const std::string picture(1 << 20, 'A');
  EXPECT_EQ(PromptTokensOf(PreparedOf(
                R"({"messages":[{"image_url":{"url":"data:image/png;base64,)" + picture + "\"}}]}",
                wire::Surface::kChat)),
            kBinaryTokens);
  EXPECT_EQ(PromptTokensOf(PreparedOf(R"({"input_ids":[[1,2,3],[4]]})", wire::Surface::kGenerate)),
            4);
  EXPECT_EQ(PromptTokensOf(PreparedOf(R"({"messages":["0123"]})", wire::Surface::kCountTokens)), 0);
}

TEST(CompletionTokensMax, IsWhatTheRequestSays) {
  using enum wire::Surface;
  const std::tuple<const char*, wire::Surface, std::optional<int64_t>> kCases[] = {
      {R"({"max_tokens":7})", kMessages, 7},
      {R"({"max_output_tokens":8})", kResponses, 8},
      {R"({"sampling_params":{"max_new_tokens":9}})", kGenerate, 9},
      {R"({"max_tokens":"7"})", kMessages, std::nullopt},
      {R"({})", kResponses, std::nullopt},
      {R"({"input":"x"})", kEmbedding, 0},
  };
  for (const auto& [document, surface, most] : kCases) {
    EXPECT_EQ(CompletionTokensMax(PreparedOf(document, surface)), most) << document;
  }
}

class GatewayLimitsTest : public GatewayTest {
 protected:
  void StartBounded(KeyLimits limits) {
    GatewayOptions options;
    options.keys.Add("key", Bounded(limits));
    options.keys.Add("other", {"bob", 1.0, true, {}});
    Start(std::move(options));
  }
  net::HttpResponse Chat(const char* key = "key") {
    return Ask("POST", "/v1/chat/completions", kChat, {{"x-api-key", key}});
  }
};

TEST_F(GatewayLimitsTest, RefusesInTheWordsOfTheSurfaceAndCountsIt) {
  driver_.other_wires_ = true;
  StartBounded({.requests_per_minute = 1});
  const auto first = Chat();
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.headers.Get("x-ratelimit-limit-requests"), "1");
  EXPECT_EQ(first.headers.Get("x-ratelimit-remaining-requests"), "0");
  const auto second = Chat();
  EXPECT_EQ(second.status, 429);
  EXPECT_EQ(second.headers.Get("retry-after"), "60");
  EXPECT_EQ(second.headers.Get("x-ratelimit-remaining-requests"), "0");
  EXPECT_THAT(second.body, HasSubstr(R"("code":"rate_limited")"));
  const auto messages =
      Ask("POST", "/v1/messages", R"({"messages":[],"max_tokens":1})", {{"x-api-key", "key"}});
  EXPECT_EQ(messages.status, 429);
  EXPECT_EQ(messages.headers.Get("retry-after"), "60");
  EXPECT_THAT(messages.body, HasSubstr(R"({"type":"error","error":{"type":"rate_limit_error")"));
  const auto other = Chat("other");
  EXPECT_EQ(other.status, 200);
  EXPECT_FALSE(other.headers.Has("x-ratelimit-limit-requests"));
  EXPECT_THAT(Ask("GET", "/metrics", "", {{"x-api-key", "other"}}).body,
              HasSubstr("fak_serving_limit_refusals_total{engine=\"\",limit=\"requests\""));
  clock_.AdvanceMs(60'000);
  EXPECT_EQ(Chat().status, 200);
}

TEST_F(GatewayLimitsTest, TokensAreThoseOfTheUsageInTheEnd) {
  StartBounded({.tokens_per_minute = 1000});
  driver_.events_ = {wire::TextDelta{0, "hey", {}, {}}, wire::Finish{},
                     wire::UsageReport{{.prompt_tokens = 300, .completion_tokens = 500}},
                     wire::Done{}};
  EXPECT_EQ(Chat().status, 200);
  const auto second = Chat();  // 200 are left, and an answer takes 500
  EXPECT_EQ(second.status, 429);
  EXPECT_EQ(second.headers.Get("x-ratelimit-remaining-tokens"), "200");
  EXPECT_EQ(second.headers.Get("x-ratelimit-limit-tokens"), "1000");
  clock_.AdvanceMs(60'000);
  driver_.refusal_ = Error{Code::kUnavailable, "away"};
  EXPECT_EQ(Chat().status, 503);
  driver_.refusal_ = std::nullopt;
  EXPECT_EQ(Chat().status, 200);  // what failed took nothing
}

TEST_F(GatewayLimitsTest, WhatNobodyCountsIsTakenByItsText) {
  StartBounded({.tokens_per_minute = 1000});
  driver_.events_ = {wire::TextDelta{0, std::string(2000, 'x'), {}, {}}, wire::Finish{},
                     wire::Done{}};
  EXPECT_EQ(Chat().status, 200);
  const auto second = Chat();
  EXPECT_EQ(second.status, 429);
  EXPECT_EQ(second.headers.Get("x-ratelimit-remaining-tokens"), "499");
}

TEST_F(GatewayLimitsTest, StreamsAtOnceAreBounded) {
  driver_.keeps_ = true;
  driver_.events_ = {};
  StartBounded({.max_streams = 1});
  net::test::RawSocket socket = net::test::RawSocket::Connect(server_->port());
  const std::string body = R"({"stream":true,"messages":[{"role":"user","content":"hi"}]})";
  socket.Send(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nx-api-key: key\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  while (!driver_.any_kept_.load()) {
  }
  const auto refused = Ask("POST", "/v1/chat/completions", body, {{"x-api-key", "key"}});
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.headers.Get("retry-after"), "1");
  driver_.kept_->OnEvent(wire::Finish{});
  driver_.kept_->OnEvent(wire::Done{});
  driver_.events_ = {wire::Finish{}, wire::Done{}};
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", body, {{"x-api-key", "key"}}).status, 200);
}

TEST_F(GatewayLimitsTest, ItsLimitsGoBeforeThoseOfTheAccountBehindIt) {
  StartBounded({.requests_per_minute = 5});
  driver_.events_.insert(driver_.events_.begin(),
                         wire::UpstreamHeaders{{{"x-ratelimit-remaining-requests", "77"},
                                                {"x-ratelimit-remaining-tokens", "88"}}});
  const auto answer = Chat();
  EXPECT_EQ(answer.headers.Count("x-ratelimit-remaining-requests"), 1u);
  EXPECT_EQ(answer.headers.Get("x-ratelimit-remaining-requests"), "4");
  EXPECT_EQ(answer.headers.Get("x-ratelimit-remaining-tokens"), "88");
  EXPECT_EQ(Chat("other").headers.Get("x-ratelimit-remaining-requests"), "77");
}

}  // namespace
}  // namespace fak::gateway
