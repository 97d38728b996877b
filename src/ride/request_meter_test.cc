#include "ride/request_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fak::ride {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Events final : public driver::EventSink {
 public:
  void OnEvent(wire::Event&& event) noexcept override { events_.push_back(std::move(event)); }
  std::vector<wire::Event> events_;
};

class RequestMeterTest : public ::testing::Test {
 protected:
  std::unique_ptr<RequestMeter> Make(bool streamed, int n = 1) {
    auto turn = std::make_shared<wire::Turn>();
    turn->stream = streamed;
    turn->n = n;
    driver::Prepared prepared;
    prepared.turn = turn;
    prepared.arrival_ns = clock_.NowNs();
    return std::make_unique<RequestMeter>(sink_, emitter_, prepared, clock_, [this] { ++ends_; });
  }
  // What stands behind "fak_serving_NAME_sum", "..._total{...outcome="ok"}" and the like.
  std::string Shown(std::string name, std::string_view label = "") const {
    name = "fak_serving_" + name + "{";
    const std::string text = registry_.Exposition();
    for (size_t at = text.find("\n" + name); at != std::string::npos;
         at = text.find("\n" + name, at + 1)) {
      const std::string line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
      if (line.find(label) != std::string::npos) {
        return line.substr(line.rfind(' ') + 1);
      }
    }
    return "absent";
  }

  FakeClock clock_;
  metrics::Registry registry_{{{"fast", 0.2, {}, {}}}, clock_};
  std::shared_ptr<metrics::Emitter> emitter_ = registry_.MakeEmitter(
      {.worker = "w", .engine = "llamacpp", .model = "m", .source = "gateway"});
  std::shared_ptr<Events> sink_ = std::make_shared<Events>();
  int ends_ = 0;
};

TEST_F(RequestMeterTest, MeasuresAStream) {
  const auto meter = Make(true);
  clock_.AdvanceMs(125);
  meter->OnEvent(wire::TextDelta{0, "a", {}, {}});
  clock_.AdvanceMs(500);
  meter->OnEvent(wire::ReasoningDelta{0, "b"});
  clock_.AdvanceMs(250);
  meter->OnEvent(wire::ToolCallDelta{0, 0, "", "f", "{}"});
  meter->OnEvent(wire::Finish{});
  meter->OnEvent(wire::UsageReport{{10, 4, 6, -1}});
  clock_.AdvanceMs(125);
  meter->OnEvent(wire::Done{});
  EXPECT_EQ(Shown("time_to_first_token_seconds_sum"), "0.125");
  EXPECT_EQ(Shown("inter_token_latency_seconds_sum"), "0.75");
  EXPECT_EQ(Shown("inter_token_latency_seconds_count"), "2");
  EXPECT_EQ(Shown("time_per_output_token_seconds_sum"), "0.25");  // 3 gaps, by the usage
  EXPECT_EQ(Shown("e2e_request_latency_seconds_sum"), "1");
  EXPECT_EQ(Shown("request_prompt_tokens_sum"), "10");
  EXPECT_EQ(Shown("request_generation_tokens_sum"), "4");
  EXPECT_EQ(Shown("prompt_tokens_total"), "10");
  EXPECT_EQ(Shown("generation_tokens_total"), "4");
  EXPECT_EQ(Shown("prefix_cache_queries_total"), "10");
  EXPECT_EQ(Shown("prefix_cache_hits_total"), "6");
  EXPECT_EQ(Shown("requests_total", "outcome=\"ok\""), "1");
  EXPECT_EQ(Shown("goodput_requests_total", "slo=\"fast\""), "1");
  EXPECT_EQ(sink_->events_.size(), 6);
  EXPECT_EQ(ends_, 1);
}

TEST_F(RequestMeterTest, WhatTheEngineBrokeOffIsNoSuccess) {
  const auto meter = Make(true);
  meter->OnEvent(wire::Finish{0, wire::FinishReason::kError, {}, {}});
  meter->OnEvent(wire::UsageReport{{10, 4, -1, -1}});
  meter->OnEvent(wire::Done{});
  EXPECT_EQ(Shown("requests_total", "outcome=\"error\""), "1");
  EXPECT_EQ(Shown("requests_total", "outcome=\"ok\""), "absent");
  EXPECT_EQ(Shown("request_errors_total", "kind=\"upstream_error\""), "1");
  EXPECT_EQ(Shown("goodput_requests_total", "slo=\"fast\""), "absent");
  EXPECT_EQ(Shown("generation_tokens_total"), "4");
}

TEST_F(RequestMeterTest, AChoiceThatNobodyAskedForHasNoTimes) {
  const auto meter = Make(true);
  clock_.AdvanceMs(125);
  meter->OnEvent(wire::TextDelta{5, "a", {}, {}});
  meter->OnEvent(wire::UsageReport{{10, 7, -1, -1}});
  meter->OnEvent(wire::Done{});
  EXPECT_EQ(Shown("time_to_first_token_seconds_count"), "absent");
  EXPECT_EQ(Shown("time_per_output_token_seconds_count"), "absent");
}

TEST_F(RequestMeterTest, AWholeAnswerHasNoFirstToken) {
  const auto meter = Make(false);
  clock_.AdvanceMs(500);
  meter->OnEvent(wire::TextDelta{0, "all of it", {}, {}});
  meter->OnEvent(wire::UsageReport{{10, 4, -1, -1}});
  meter->OnEvent(wire::Done{});
  EXPECT_EQ(Shown("time_to_first_token_seconds_count"), "absent");
  EXPECT_EQ(Shown("time_per_output_token_seconds_count"), "absent");
  EXPECT_EQ(Shown("prefix_cache_queries_total"), "absent");  // the engine doesn't say
  EXPECT_EQ(Shown("e2e_request_latency_seconds_sum"), "0.5");
  EXPECT_EQ(Shown("goodput_requests_total"), "absent");  // its first token may have been late
}

TEST_F(RequestMeterTest, WithoutUsageNoTokensAreCounted) {
  const auto meter = Make(true);
  meter->OnEvent(wire::TextDelta{0, "a", {}, {}});
  meter->OnEvent(wire::Done{});
  EXPECT_EQ(Shown("prompt_tokens_total"), "absent");
  EXPECT_EQ(Shown("request_generation_tokens_count"), "absent");
  EXPECT_EQ(Shown("requests_total"), "1");
}

TEST_F(RequestMeterTest, ChoicesHaveGapsOfTheirOwn) {
  const auto meter = Make(true, 2);
  for (int i = 0; i < 3; ++i) {
    meter->OnEvent(wire::TextDelta{0, "a", {}, {}});
    clock_.AdvanceMs(250);
    meter->OnEvent(wire::TextDelta{1, "b", {}, {}});
    clock_.AdvanceMs(250);
  }
  meter->OnEvent(wire::UsageReport{{1, 6, -1, -1}});
  meter->OnEvent(wire::Done{});
  EXPECT_EQ(Shown("time_to_first_token_seconds_count"), "1");
  EXPECT_EQ(Shown("inter_token_latency_seconds_count"), "4");
  EXPECT_EQ(Shown("inter_token_latency_seconds_sum"), "2");
  EXPECT_EQ(Shown("time_per_output_token_seconds_count"), "absent");
}

TEST_F(RequestMeterTest, TellsErrorsFromCancelledRequests) {
  Make(true)->OnEvent(wire::Failed{{Code::kUpstreamError, "x"}});
  Make(true)->OnEvent(wire::Failed{{Code::kCancelled, "x"}});
  EXPECT_EQ(Shown("requests_total", "outcome=\"error\""), "1");
  EXPECT_EQ(Shown("requests_total", "outcome=\"cancelled\""), "1");
  EXPECT_EQ(Shown("request_errors_total", "kind=\"upstream_error\""), "1");
  EXPECT_THAT(registry_.Exposition(), Not(HasSubstr("kind=\"cancelled\"")));
  EXPECT_EQ(ends_, 2);
}

TEST_F(RequestMeterTest, ARequestThatWasRefusedAtOnceEndsUncounted) {
  Make(true).reset();
  EXPECT_EQ(registry_.Exposition(), "");
  EXPECT_EQ(ends_, 1);
}

}  // namespace
}  // namespace fak::ride
