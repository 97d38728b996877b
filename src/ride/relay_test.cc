#include "ride/relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fak::ride {
namespace {

using ::testing::HasSubstr;

class Collector final : public driver::EventSink {
 public:
  void OnEvent(wire::Event&& event) noexcept override {
    if (const auto* text = std::get_if<wire::TextDelta>(&event)) {
      text_ += text->text;
      tokens_.insert(tokens_.end(), text->tokens.begin(), text->tokens.end());
    } else if (const auto* reasoning = std::get_if<wire::ReasoningDelta>(&event)) {
      reasoning_ += reasoning->text;
    } else if (const auto* tool = std::get_if<wire::ToolCallDelta>(&event)) {
      tool_ += tool->id + tool->name + tool->arguments;
    } else if (const auto* raw = std::get_if<wire::RawChunk>(&event)) {
      raw_.push_back(raw->json);
      types_.push_back(raw->type);
    } else if (const auto* usage = std::get_if<wire::UsageReport>(&event)) {
      usage_ = usage->usage;
    } else if (const auto* finish = std::get_if<wire::Finish>(&event)) {
      ++finishes_;
      reason_ = finish->reason;
    } else if (const auto* failed = std::get_if<wire::Failed>(&event)) {
      error_ = failed->error;
      ++ends_;
    } else if (std::holds_alternative<wire::Done>(event)) {
      ++ends_;
    }
  }

  std::string text_;
  std::string reasoning_;
  std::string tool_;
  std::vector<int32_t> tokens_;
  std::vector<std::string> raw_;
  std::vector<std::string> types_;
  wire::FinishReason reason_ = wire::FinishReason::kStop;
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

constexpr std::string_view kAlikeChunks =
    "data: {\"id\":\"x\",\"choices\":[{\"index\":1,\"delta\":{\"content\":\"a\"}}]}\n\n"
    "data: {\"id\":\"x\",\"choices\":[{\"index\":1,\"delta\":{\"content\":\" b\"}}]}\n\n"
    "data: {\"id\":\"x\",\"choices\":[{\"index\":1,\"delta\":{\"content\":\"\\n\"}}]}\n\n"
    "data: {\"id\":\"x\",\"choices\":[{\"index\":1,\"delta\":{\"content\":\"c d\"}}]}\n\n"
    "data: {\"id\":\"x\",\"choices\":[{\"index\":1,\"delta\":{\"content\":\"\"}}]}\n\n"
    "event: error\n"
    "data: {\"id\":\"x\",\"choices\":[{\"index\":1,\"delta\":{\"content\":\"e\"}}]}\n\n";

std::shared_ptr<Collector> RelayOn(wire::Surface surface, std::string_view bytes, size_t cut,
                                   bool streamed = true, bool withhold_usage = false) {
  auto collector = std::make_shared<Collector>();
  Relay relay(collector,
              {.surface = surface, .streamed = streamed, .withhold_usage = withhold_usage});
  relay.Feed(bytes.substr(0, cut));
  relay.Feed(bytes.substr(cut));
  relay.Finish();
  return collector;
}

std::shared_ptr<Collector> Relayed(std::string_view bytes, size_t cut, bool streamed = true,
                                   bool withhold_usage = false) {
  return RelayOn(wire::Surface::kChat, bytes, cut, streamed, withhold_usage);
}

TEST(Relay, TellsTheTextOfChunksThatDifferInNothingElse) {
  const auto events = Relayed(kAlikeChunks, kAlikeChunks.size() / 2);
  EXPECT_EQ(events->text_, "a b\nc d");
  EXPECT_EQ(events->raw_.size(), 5u);
  EXPECT_THAT(events->raw_[3], HasSubstr("\"c d\""));
  EXPECT_TRUE(events->error_);  // by its name: that it is shaped as a chunk doesn't hide it
}

TEST(Relay, GivesTheSameEventsWhereverTheStreamIsCut) {
  for (size_t cut = 0; cut <= kStream.size(); ++cut) {
    const auto events = Relayed(kStream, cut);
    ASSERT_EQ(events->text_, "h\xc3\xa9llo [DONE]") << cut;
    ASSERT_EQ(events->finishes_, 1) << cut;
    ASSERT_EQ(events->ends_, 1) << cut;
    ASSERT_FALSE(events->error_) << cut;
    ASSERT_EQ(events->raw_.size(), 5u) << cut;
    ASSERT_THAT(events->raw_[0], HasSubstr("\"n\":1.0")) << cut;
    ASSERT_EQ(events->usage_->prompt_tokens, 3) << cut;
  }
}

TEST(Relay, ReadsCachedTokensFromTimingsWhereUsageLacksThem) {
  const auto cached = [](const std::string& usage, const std::string& timings) {
    const std::string body = R"({"choices":[{"index":0,"message":{"content":"x"},)"
                             R"("finish_reason":"stop"}],"usage":{"prompt_tokens":9,)"
                             R"("completion_tokens":1)" +
                             usage + R"(},"timings":{)" + timings + R"("prompt_n":2}})";
    const auto events = Relayed(body, 0, /*streamed=*/false);
    EXPECT_EQ(events->raw_.front(), body);  // and adds nothing to it
    return events->usage_->cached_tokens;
  };
  EXPECT_EQ(cached("", R"("cache_n":7,)"), 7);
  EXPECT_EQ(cached(R"(,"prompt_tokens_details":{"cached_tokens":5})", R"("cache_n":7,)"), 5);
  EXPECT_EQ(cached("", ""), -1);
  EXPECT_EQ(cached("", R"("cache_n":10,)"), -1);  // of a prompt of 9
  const auto streamed = Relayed(
      "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1},"
      "\"timings\":{\"cache_n\":7}}\n\ndata: [DONE]\n\n",
      0);
  EXPECT_EQ(streamed->usage_->cached_tokens, 7);
}

TEST(Relay, WithholdsUsageThatTheClientDidNotAskFor) {
  const auto events = Relayed(kStream, 0, true, true);
  EXPECT_EQ(events->raw_.size(), 4u);
  EXPECT_EQ(events->usage_->completion_tokens, 2);
}

TEST(Relay, AStreamCutBeforeItsFinishReasonIsAnError) {
  const size_t finish = kStream.find("finish_reason");
  for (size_t end = 0; end < finish; ++end) {
    const auto events = Relayed(kStream.substr(0, end), 0);
    ASSERT_TRUE(events->error_) << end;
    ASSERT_EQ(events->error_->code, Code::kUpstreamError) << end;
    ASSERT_EQ(events->ends_, 1) << end;
  }
}

TEST(Relay, APlainErrorInsteadOfAStreamKeepsItsWords) {
  const std::string_view plain =
      R"({"error":{"message":"no such adapter","type":"NotFoundError","code":404}})";
  for (size_t cut = 0; cut <= plain.size(); ++cut) {
    const auto got = RelayOn(wire::Surface::kChat, plain, cut);
    ASSERT_TRUE(got->error_) << cut;
    EXPECT_THAT(got->error_->detail, HasSubstr("no such adapter"));
    EXPECT_EQ(got->ends_, 1);
  }
  EXPECT_THAT(RelayOn(wire::Surface::kChat, R"({"choices":[]})", 3)->error_->detail,
              HasSubstr("no stream of events"));
}

TEST(Relay, SaysWhatCameInsteadOfAnAnswer) {
  const auto says = [](bool streamed, std::string_view type, std::string_view body) {
    auto collector = std::make_shared<Collector>();
    Relay relay(collector, {.streamed = streamed, .key = "sesame"});
    relay.SetContentType(type);
    relay.Feed(body);
    relay.Finish();
    return collector->error_->detail;
  };
  for (const bool streamed : {true, false}) {
    EXPECT_THAT(says(streamed, "text/html", "<h1>Sign in,\x1b[1m\n sesame</h1>"),
                HasSubstr("(Content-Type text/html: <h1>Sign in,\\x1B[1m\\x0A [redacted]</h1>)"));
    EXPECT_THAT(says(streamed, "", ""), HasSubstr("(no Content-Type, and nothing in it)"));
    // More than is kept of it.
    const std::string long_one = says(streamed, std::string(9000, 't'), std::string(100'000, 'b'));
    EXPECT_THAT(long_one, HasSubstr("tttt: bbbb"));
    EXPECT_LT(long_one.size(), 500u);
  }
  EXPECT_THAT(says(true, "application/json", R"({"choices":[{"finish_reason":"stop"}]})"),
              HasSubstr("no stream of events (Content-Type application/json: {\"choices\":"));
}

TEST(Relay, WhatBreaksAfterTheAnswerIsWholeTakesNothingBack) {
  const size_t whole = kStream.find("data: {\"choices\":[],");
  for (size_t end = 0; end <= kStream.size(); ++end) {
    for (const size_t choices : {1, 2}) {
      const auto events = std::make_shared<Collector>();
      Relay relay(events, {.streamed = true, .choices = choices});
      relay.Feed(kStream.substr(0, end));
      relay.Break({Code::kUpstreamError, "reset"});
      const bool right = end == kStream.size() || (choices == 1 && end >= whole);
      ASSERT_EQ(!events->error_, right) << end;
      ASSERT_EQ(events->ends_, 1) << end;
    }
  }
}

TEST(Relay, AChoiceThatNeverBeganIsMissedUnlessTheEngineSaysThatItIsDone) {
  const auto after = [](std::string_view bytes) {
    const auto events = std::make_shared<Collector>();
    Relay relay(events, {.streamed = true, .choices = 2});
    relay.Feed(bytes);
    relay.Finish();
    return events;
  };
  const std::string_view done = "data: [DONE]";
  const auto cut = after(kStream.substr(0, kStream.find(done)));
  ASSERT_TRUE(cut->error_);
  EXPECT_THAT(cut->error_->detail, HasSubstr("after 1 of 2 choices"));
  EXPECT_FALSE(after(kStream)->error_);
}

TEST(Relay, AnEventNamedErrorIsOneWhateverItSays) {
  const std::string stream = std::string(kStream.substr(0, kStream.find("data: [DONE]"))) +
                             "event: error\ndata: {\"message\":\"boom\",\"code\":500}\n\n";
  const auto events = Relayed(stream, 0);
  ASSERT_TRUE(events->error_);
  EXPECT_THAT(events->error_->detail, HasSubstr("boom"));
  EXPECT_EQ(events->ends_, 1);
}

TEST(Relay, AnIndexIsASmallWholeNumber) {
  for (const char* index :
       {"4294967295", "4294967296", "9223372036854775807", "1.5", "\"x\"", "-1", "32768"}) {
    const std::string stream = std::string("data: {\"choices\":[{\"index\":") + index +
                               ",\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n";
    const auto events = Relayed(stream, 0);
    ASSERT_TRUE(events->error_) << index;
    EXPECT_THAT(events->error_->detail, HasSubstr("index")) << index;
  }
}

TEST(Relay, SoIsThatOfAToolCall) {
  EXPECT_TRUE(
      Relayed("data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":-1}]},"
              "\"finish_reason\":\"tool_calls\"}]}\n\n",
              0)
          ->error_);
}

TEST(Relay, ADocumentIsAnObject) {
  EXPECT_TRUE(Relayed("data: [1]\n\n", 0)->error_);
  EXPECT_TRUE(Relayed("data: [1]\n\n", 0)->raw_.empty());
}

TEST(Relay, DoneAloneIsNoSuccess) {
  EXPECT_TRUE(Relayed("data: [DONE]\n\n", 0)->error_);
}

TEST(Relay, AnErrorFrameUnderStatus200IsAnError) {
  const auto events = Relayed(
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"
      "data: {\"error\":{\"message\":\"engine died\",\"code\":500}}\n\ndata: [DONE]\n\n",
      0);
  ASSERT_TRUE(events->error_);
  EXPECT_THAT(events->error_->detail, HasSubstr("engine died"));
  EXPECT_EQ(events->text_, "a");
}

TEST(Relay, RefusesEventsThatAreNoJson) {
  EXPECT_TRUE(Relayed("data: {\"choices\":[\n\n", 0)->error_);
  EXPECT_TRUE(Relayed("data: \xff\xfe\n\n", 0)->error_);
}

TEST(Relay, TakesAWholeAnswer) {
  const std::string body =
      R"({"id":"x","choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"length"}],)"
      R"("usage":{"prompt_tokens":1,"completion_tokens":1}})";
  const auto events = Relayed(body, 10, false);
  EXPECT_EQ(events->raw_, std::vector<std::string>{body});
  EXPECT_EQ(events->text_, "hi");
  EXPECT_FALSE(events->error_);
  EXPECT_TRUE(Relayed(body.substr(0, body.size() - 1), 0, false)->error_);
  EXPECT_TRUE(Relayed("{}", 0, false)->error_);
}

// As vLLM streams messages; its ids and names are as seen.
constexpr std::string_view kMessages =
    "event: message_start\n"
    "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":4,"
    "\"cache_read_input_tokens\":64,\"output_tokens\":0}}}\n\n"
    "event: content_block_start\n"
    "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\"}}\n\n"
    "event: content_block_delta\n"
    "data: {\"type\":\"content_block_delta\",\"index\":0,"
    "\"delta\":{\"type\":\"text_delta\",\"text\":\"h\xc3\xa9llo\"}}\n\n"
    "event: content_block_start\n"
    "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":"
    "{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"look\"}}\n\n"
    "data: {\"type\":\"content_block_delta\",\"index\":1,"
    "\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}\n\n"
    "event: ping\ndata: {\"type\":\"ping\"}\n\n"
    "event: message_delta\n"
    "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},"
    "\"usage\":{\"output_tokens\":8}}\n\n"
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
    "data: [DONE]\n\n";  // Dynamo's stray one

TEST(Relay, ReadsMessagesWhereverTheStreamIsCut) {
  for (size_t cut = 0; cut <= kMessages.size(); ++cut) {
    const auto events = RelayOn(wire::Surface::kMessages, kMessages, cut);
    ASSERT_FALSE(events->error_) << cut;
    ASSERT_EQ(events->text_, "h\xc3\xa9llo") << cut;
    ASSERT_EQ(events->raw_.size(), 8u) << cut;
    ASSERT_EQ(events->types_.front(), "message_start") << cut;
    ASSERT_EQ(events->types_[4], "content_block_delta") << cut;  // its line was left out
    ASSERT_EQ(events->tool_, "t1look{}") << cut;
    ASSERT_EQ(events->usage_->prompt_tokens, 68) << cut;
    ASSERT_EQ(events->usage_->cached_tokens, 64) << cut;
    ASSERT_EQ(events->usage_->completion_tokens, 8) << cut;
    ASSERT_EQ(events->finishes_, 1) << cut;
  }
}

TEST(Relay, MessagesThatEndBeforeTheirStopAreAnError) {
  const size_t stop = kMessages.find("event: message_stop");
  for (size_t end = 0; end < stop; ++end) {
    const auto events = RelayOn(wire::Surface::kMessages, kMessages.substr(0, end), 0);
    ASSERT_TRUE(events->error_) << end;
    ASSERT_EQ(events->ends_, 1) << end;
  }
}

// The events of those names, in that order.
std::string Events(std::initializer_list<std::string_view> names) {
  std::string stream;
  for (const std::string_view name : names) {
    const std::string_view rest =
        name == "message_delta"                ? R"(,"delta":{"stop_reason":"end_turn"})"
        : name == "response.output_text.delta" ? R"(,"delta":"a")"
        : name == "response.created"           ? R"(,"response":{"status":"in_progress"})"
        : name.starts_with("response.")        ? R"(,"response":{"status":"completed"})"
        : name == "content_block_delta"        ? R"(,"delta":{"type":"text_delta","text":"a"})"
                                               : "";
    stream += "data: {\"type\":\"" + std::string(name) + "\"" + std::string(rest) + "}\n\n";
  }
  return stream;
}

TEST(Relay, MessagesAreWholeInOrderOnly) {
  struct Case {
    std::initializer_list<std::string_view> events;
    std::string_view wrong;
    size_t passed;  // of the events
  };
  const Case kCases[] = {
      {{"message_stop"}, "message_stop before message_start", 0},
      {{"ping", "message_delta", "message_stop"}, "message_delta before message_start", 1},
      {{"content_block_delta"}, "content_block_delta before message_start", 0},
      {{"message_start", "message_stop", "message_delta"}, "message_stop before a stop reason", 1},
      {{"message_start", "message_start"}, "message_start twice", 1},
      {{"message_start", "message_delta", "content_block_delta", "message_stop"},
       "content_block_delta after the stop reason",
       2},
  };
  for (const auto& [events, wrong, passed] : kCases) {
    const auto got = RelayOn(wire::Surface::kMessages, Events(events), 0);
    ASSERT_TRUE(got->error_) << wrong;
    EXPECT_THAT(got->error_->detail, HasSubstr(wrong));
    EXPECT_EQ(got->raw_.size(), passed) << wrong;
    EXPECT_EQ(got->ends_, 1) << wrong;
  }
  // Nothing behind the end is passed on, and none of it undoes the answer.
  for (const std::string_view behind : {"content_block_delta", "message_stop", "error"}) {
    const auto got = RelayOn(wire::Surface::kMessages,
                             Events({"ping", "message_start", "content_block_delta",
                                     "message_delta", "message_stop", behind}),
                             0);
    EXPECT_FALSE(got->error_) << behind;
    EXPECT_EQ(got->raw_.size(), 5u) << behind;
    EXPECT_EQ(got->ends_, 1) << behind;
  }
}

TEST(Relay, ResponsesAreWholeInOrderOnly) {
  struct Case {
    std::initializer_list<std::string_view> events;
    std::string_view wrong;
  };
  const Case kCases[] = {
      {{"response.completed"}, "response.completed before response.created"},
      {{"response.incomplete", "response.created"}, "response.incomplete before"},
      {{"response.output_text.delta", "response.completed"}, "delta before response.created"},
  };
  for (const auto& [events, wrong] : kCases) {
    const auto got = RelayOn(wire::Surface::kResponses, Events(events), 0);
    ASSERT_TRUE(got->error_) << wrong;
    EXPECT_THAT(got->error_->detail, HasSubstr(wrong));
    EXPECT_TRUE(got->raw_.empty()) << wrong;
  }
  EXPECT_THAT(
      RelayOn(wire::Surface::kResponses,
              Events({"response.created"}) + "data: {\"type\":\"response.completed\"}\n\n", 0)
          ->error_->detail,
      HasSubstr("response.completed without a status"));
  const auto got = RelayOn(wire::Surface::kResponses,
                           Events({"response.created", "response.output_text.delta",
                                   "response.completed", "response.output_text.delta"}),
                           0);
  EXPECT_FALSE(got->error_);
  EXPECT_EQ(got->text_, "a");
  EXPECT_EQ(got->raw_.size(), 3u);
}

TEST(Relay, AnErrorEventEndsMessages) {
  const auto events = RelayOn(
      wire::Surface::kMessages,
      "event: error\n"
      "data: "
      "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"full\"}}\n\n",
      0);
  ASSERT_TRUE(events->error_);
  EXPECT_EQ(events->error_->code, Code::kUnavailable);
  EXPECT_TRUE(events->raw_.empty());
}

TEST(Relay, TakesAWholeMessage) {
  const auto events =
      RelayOn(wire::Surface::kMessages,
              R"({"type":"message","content":[{"type":"text","text":"hi"}],)"
              R"("stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":1}})",
              0, false);
  EXPECT_FALSE(events->error_);
  EXPECT_EQ(events->text_, "hi");
  EXPECT_EQ(events->usage_->prompt_tokens, 3);
  EXPECT_TRUE(
      RelayOn(wire::Surface::kMessages, R"({"type":"message","content":[]})", 0, false)->error_);
}

constexpr std::string_view kResponses =
    "event: response.created\n"
    "data: {\"type\":\"response.created\",\"response\":{\"status\":\"in_progress\"}}\n\n"
    "event: response.output_text.delta\n"
    "data: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\n"
    "event: response.completed\n"
    "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"error\":null,"
    "\"output\":[{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"hi\"}]}],"
    "\"usage\":{\"input_tokens\":5,\"output_tokens\":2,\"input_tokens_details\":{\"cached_tokens\":"
    "4}}}}"
    "\n\n";

TEST(Relay, ReadsResponsesWhereverTheStreamIsCut) {
  for (size_t cut = 0; cut <= kResponses.size(); ++cut) {
    const auto events = RelayOn(wire::Surface::kResponses, kResponses, cut);
    ASSERT_FALSE(events->error_) << cut;
    ASSERT_EQ(events->text_, "hi") << cut;
    ASSERT_EQ(events->usage_->cached_tokens, 4) << cut;
    ASSERT_EQ(events->finishes_, 1) << cut;
  }
  const size_t completed = kResponses.find("event: response.completed");
  EXPECT_TRUE(RelayOn(wire::Surface::kResponses, kResponses.substr(0, completed), 0)->error_);
  // llama.cpp was seen to send the last event alone.
  EXPECT_EQ(RelayOn(wire::Surface::kResponses, kResponses.substr(completed), 0)->text_, "hi");
}

TEST(Relay, AFailedResponseIsAnErrorAndStaysItsOwnEvent) {
  const auto events = RelayOn(
      wire::Surface::kResponses,
      "event: response.failed\n"
      "data: "
      "{\"type\":\"response.failed\",\"response\":{\"object\":\"response\",\"status\":\"failed\","
      "\"error\":{\"code\":\"server_error\",\"message\":\"broke\"}}}\n\n",
      0);
  ASSERT_TRUE(events->error_);
  EXPECT_THAT(events->error_->detail, HasSubstr("broke"));
  EXPECT_EQ(events->types_, std::vector<std::string>{"response.failed"});
}

TEST(Relay, PassesDocumentsThatNeedNoFinish) {
  const std::string body = R"({"object":"list","data":[],"usage":{"prompt_tokens":7}})";
  const auto events = RelayOn(wire::Surface::kEmbedding, body, 3, false);
  EXPECT_FALSE(events->error_);
  EXPECT_EQ(events->raw_, std::vector<std::string>{body});
  EXPECT_EQ(events->usage_->prompt_tokens, 7);
  EXPECT_TRUE(RelayOn(wire::Surface::kEmbedding, "{}", 0, false)->error_);
  EXPECT_FALSE(RelayOn(wire::Surface::kCountTokens, R"({"input_tokens":31})", 0, false)->error_);
}

// As SGLang's sources have it: text so far, and counts of each choice in its own events.
std::string Generated(const std::string& text, const std::string& reason,
                      const std::string& more = "") {
  return "data: {\"text\":\"" + text +
         "\",\"meta_info\":{\"id\":\"fak-1\",\"finish_reason\":" + reason +
         ",\"prompt_tokens\":7,\"completion_tokens\":2,\"cached_tokens\":4,\"e2e_latency\":0.5}" +
         more + "}\n\n";
}
constexpr char kStopped[] = R"({"type":"stop","matched":2})";

TEST(Relay, ReadsSglangsOwnStreamWhereverItIsCut) {
  const std::string so_far = Generated("h\xc3\xa9", "null") + Generated("h\xc3\xa9llo", "null") +
                             Generated("h\xc3\xa9llo", kStopped) + "data: [DONE]\n\n";
  const std::string anew = Generated("h\xc3\xa9", "null") + Generated("llo", "null") +
                           Generated("", kStopped) + "data: [DONE]\n\n";
  for (const std::string& stream : {so_far, anew}) {
    for (size_t cut = 0; cut <= stream.size(); ++cut) {
      const auto events = RelayOn(wire::Surface::kGenerate, stream, cut);
      ASSERT_FALSE(events->error_) << cut;
      ASSERT_EQ(events->text_, "h\xc3\xa9llo") << cut;
      ASSERT_EQ(events->raw_.size(), 3u) << cut;
      ASSERT_EQ(events->types_.front(), "") << cut;
      ASSERT_EQ(events->finishes_, 1) << cut;
      ASSERT_EQ(events->reason_, wire::FinishReason::kStop) << cut;
      ASSERT_EQ(events->usage_->prompt_tokens, 7) << cut;
      ASSERT_EQ(events->usage_->completion_tokens, 2) << cut;
      ASSERT_EQ(events->usage_->cached_tokens, 4) << cut;
    }
  }
}

TEST(Relay, SglangsOwnStreamEndsWithTheReasonsOfAllItsChoices) {
  const std::string length = R"({"type":"length","length":2})";
  const std::string first = Generated("a", length, ",\"index\":0");
  const std::string begun = Generated("b", "null", ",\"index\":1");
  const std::string second = Generated("bc", length, ",\"index\":1");
  const auto whole = RelayOn(wire::Surface::kGenerate, begun + first + second, 0);
  EXPECT_FALSE(whole->error_);
  EXPECT_EQ(whole->text_, "bac");
  EXPECT_EQ(whole->reason_, wire::FinishReason::kLength);
  EXPECT_EQ(whole->usage_->prompt_tokens, 14);
  EXPECT_EQ(whole->usage_->cached_tokens, 8);
  EXPECT_TRUE(RelayOn(wire::Surface::kGenerate, begun + first + "data: [DONE]\n\n", 0)->error_);
  EXPECT_TRUE(RelayOn(wire::Surface::kGenerate, Generated("a", "null"), 0)->error_);
  EXPECT_TRUE(
      RelayOn(wire::Surface::kGenerate, Generated("a", kStopped, ",\"index\":-1"), 0)->error_);
  const auto aborted =
      RelayOn(wire::Surface::kGenerate,
              Generated("a", R"({"type":"abort","message":"gone","status_code":503})"), 0);
  EXPECT_EQ(aborted->reason_, wire::FinishReason::kError);
  const auto failed = RelayOn(
      wire::Surface::kGenerate,
      Generated("a", "null") + "data: {\"error\":{\"message\":\"too long\"}}\n\ndata: [DONE]\n\n",
      0);
  ASSERT_TRUE(failed->error_);
  EXPECT_THAT(failed->error_->detail, HasSubstr("too long"));
}

TEST(Relay, TakesSglangsOwnAnswersWhole) {
  const auto strip = [](std::string event) { return event.substr(6, event.size() - 8); };
  const std::string one = strip(Generated("a", kStopped));
  const auto single = RelayOn(wire::Surface::kGenerate, one, 3, false);
  EXPECT_FALSE(single->error_);
  EXPECT_EQ(single->raw_, std::vector<std::string>{one});
  EXPECT_EQ(single->text_, "a");
  const std::string list = "[" + one + "," + strip(Generated("b", "\"length\"")) + "]";
  const auto several = RelayOn(wire::Surface::kGenerate, list, 3, false);
  EXPECT_FALSE(several->error_);
  EXPECT_EQ(several->raw_, std::vector<std::string>{list});
  EXPECT_EQ(several->text_, "ab");
  EXPECT_EQ(several->finishes_, 2);
  EXPECT_EQ(several->reason_, wire::FinishReason::kLength);
  for (const char* wrong : {"[]", "[1]", "{}", "1"}) {
    EXPECT_TRUE(RelayOn(wire::Surface::kGenerate, wrong, 0, false)->error_) << wrong;
  }
  EXPECT_TRUE(RelayOn(wire::Surface::kChat, list, 0, false)->error_);  // lists are its alone
}

TEST(Relay, ReadsReasoningUnderBothNamesAndTokenIds) {
  const auto events = Relayed(
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning\":\"a\"}}]}\n\n"
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"b\"}}]}\n\n"
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"c\"},\"token_ids\":[5,6],"
      "\"finish_reason\":\"stop\"}]}\n\n",
      0);
  EXPECT_EQ(events->reasoning_, "ab");
  EXPECT_EQ(events->tokens_, (std::vector<int32_t>{5, 6}));
}

TEST(Relay, UsageThatCannotBeIsNone) {
  for (const char* count : {"-5", "1e400", "4294967296", "9223372036854775808", "1.5", "\"7\""}) {
    const std::string usage = std::string("{\"prompt_tokens\":") + count + "}";
    EXPECT_FALSE(Relayed("data: {\"choices\":[],\"usage\":" + usage + "}\n\n", 0)->usage_) << count;
    const auto cached = Relayed(
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,"
        "\"prompt_tokens_details\":{\"cached_tokens\":" +
            std::string(count) + "}}}\n\n",
        0);
    ASSERT_TRUE(cached->usage_) << count;
    EXPECT_EQ(cached->usage_->cached_tokens, -1) << count;
  }
}

TEST(Relay, AFinishThatNoModelChoseIsAnErrorReason) {
  const auto events = Relayed(
      "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"abort\"}]}\n\n", 0);
  EXPECT_EQ(events->reason_, wire::FinishReason::kError);
}

}  // namespace
}  // namespace fak::ride
