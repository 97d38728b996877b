#include "ride/openai_relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fak::ride {
namespace {

using ::testing::HasSubstr;

class Collector final : public driver::EventSink {
 public:
  void OnEvent(wire::Event event) noexcept override {
    if (const auto* text = std::get_if<wire::TextDelta>(&event)) {
      text_ += text->text;
    } else if (const auto* raw = std::get_if<wire::RawChunk>(&event)) {
      raw_.push_back(raw->json);
    } else if (const auto* usage = std::get_if<wire::UsageReport>(&event)) {
      usage_ = usage->usage;
    } else if (std::holds_alternative<wire::Finish>(event)) {
      ++finishes_;
    } else if (const auto* failed = std::get_if<wire::Failed>(&event)) {
      error_ = failed->error;
      ++ends_;
    } else if (std::holds_alternative<wire::Done>(event)) {
      ++ends_;
    }
  }

  std::string text_;
  std::vector<std::string> raw_;
  std::optional<wire::Usage> usage_;
  std::optional<Error> error_;
  int finishes_ = 0;
  int ends_ = 0;
};

constexpr std::string_view kStream =
    ": a comment\r\n\r\n"
    "data: "
    "{\"id\":\"x\",\"n\":1.0,\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"h\xc3\xa9l\"}}]}\r\n\r\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo [DONE]\"}}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n"
    "data: [DONE]\n\n";

std::shared_ptr<Collector> Relay(std::string_view bytes, size_t cut, bool streamed = true,
                                 bool withhold_usage = false) {
  auto collector = std::make_shared<Collector>();
  OpenAiRelay relay(collector, streamed, withhold_usage);
  relay.Feed(bytes.substr(0, cut));
  relay.Feed(bytes.substr(cut));
  relay.Finish();
  return collector;
}

TEST(OpenAiRelay, GivesTheSameEventsWhereverTheStreamIsCut) {
  for (size_t cut = 0; cut <= kStream.size(); ++cut) {
    const auto events = Relay(kStream, cut);
    ASSERT_EQ(events->text_, "h\xc3\xa9llo [DONE]") << cut;
    ASSERT_EQ(events->finishes_, 1) << cut;
    ASSERT_EQ(events->ends_, 1) << cut;
    ASSERT_FALSE(events->error_) << cut;
    ASSERT_EQ(events->raw_.size(), 5u) << cut;
    ASSERT_THAT(events->raw_[0], HasSubstr("\"n\":1.0")) << cut;
    ASSERT_EQ(events->usage_->prompt_tokens, 3) << cut;
  }
}

TEST(OpenAiRelay, WithholdsUsageThatTheClientDidNotAskFor) {
  const auto events = Relay(kStream, 0, true, true);
  EXPECT_EQ(events->raw_.size(), 4u);
  EXPECT_EQ(events->usage_->completion_tokens, 2);
}

TEST(OpenAiRelay, AStreamCutBeforeItsFinishReasonIsAnError) {
  const size_t finish = kStream.find("finish_reason");
  for (size_t end = 0; end < finish; ++end) {
    const auto events = Relay(kStream.substr(0, end), 0);
    ASSERT_TRUE(events->error_) << end;
    ASSERT_EQ(events->error_->code, Code::kUpstreamError) << end;
    ASSERT_EQ(events->ends_, 1) << end;
  }
}

TEST(OpenAiRelay, DoneAloneIsNoSuccess) {
  EXPECT_TRUE(Relay("data: [DONE]\n\n", 0)->error_);
}

TEST(OpenAiRelay, AnErrorFrameUnderStatus200IsAnError) {
  const auto events = Relay(
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"
      "data: {\"error\":{\"message\":\"engine died\",\"code\":500}}\n\ndata: [DONE]\n\n",
      0);
  ASSERT_TRUE(events->error_);
  EXPECT_THAT(events->error_->detail, HasSubstr("engine died"));
  EXPECT_EQ(events->text_, "a");
}

TEST(OpenAiRelay, RefusesIndexesThatNoAnswerHas) {
  for (const char* index : {"-1", "128", "4294967295", "9223372036854775807"}) {
    const std::string number(index);
    EXPECT_TRUE(Relay("data: {\"choices\":[{\"index\":" + number +
                          ",\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n",
                      0)
                    ->error_ ||
                number == "4294967295" || number == "9223372036854775807")
        << index;
    const auto call =
        Relay("data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":" + number +
                  ",\"id\":\"x\"}]},\"finish_reason\":\"tool_calls\"}]}\n\n",
              0);
    EXPECT_EQ(call->ends_, 1) << index;
  }
  EXPECT_TRUE(Relay("data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":-1}]},"
                    "\"finish_reason\":\"tool_calls\"}]}\n\n",
                    0)
                  ->error_);
}

TEST(OpenAiRelay, RefusesEventsThatAreNoJson) {
  EXPECT_TRUE(Relay("data: {\"choices\":[\n\n", 0)->error_);
  EXPECT_TRUE(Relay("data: \xff\xfe\n\n", 0)->error_);
}

TEST(OpenAiRelay, TakesAWholeAnswer) {
  const std::string body =
      R"({"id":"x","choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"length"}],)"
      R"("usage":{"prompt_tokens":1,"completion_tokens":1}})";
  const auto events = Relay(body, 10, false);
  EXPECT_EQ(events->raw_, std::vector<std::string>{body});
  EXPECT_EQ(events->text_, "hi");
  EXPECT_FALSE(events->error_);
  EXPECT_TRUE(Relay(body.substr(0, body.size() - 1), 0, false)->error_);
  EXPECT_TRUE(Relay("{}", 0, false)->error_);
}

TEST(UpstreamError, KeepsAClientErrorAndHidesOurCredentials) {
  const Error refused = UpstreamError(400, R"({"error":{"message":"bad n","param":"n"}})");
  EXPECT_EQ(refused.upstream_status, 400);
  EXPECT_EQ(refused.detail, "bad n");
  EXPECT_EQ(refused.field, "n");
  EXPECT_EQ(UpstreamError(401, "no").upstream_status, 0);
  EXPECT_EQ(UpstreamError(500, "").detail, "the upstream answered 500");
  EXPECT_THAT(UpstreamError(503, "<html>").detail, HasSubstr("<html>"));
}

}  // namespace
}  // namespace fak::ride
