// Tools on a driver that emits a model's text as it is, with the model's template.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "gateway/chat_tools.h"
#include "gateway/test_support.h"
#include "gateway/tool_stage.h"
#include "text/chat_template.h"

namespace fak::gateway {
namespace {

using ::testing::HasSubstr;

// As Hermes and Qwen have it.
constexpr char kTemplate[] =
    "{% if tools %}{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}{% endif %}"
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}"
    "{% for call in message.tool_calls %}\n<tool_call>\n"
    "{\"name\": \"{{ call.function.name }}\", \"arguments\": {{ call.function.arguments | tojson "
    "}}}"
    "\n</tool_call>{% endfor %}{% endfor %}";
constexpr char kTools[] =
    R"([{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}])";
constexpr char kAnswer[] =
    "Let me see.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n"
    "</tool_call>\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\":\"Rome\"}}\n"
    "</tool_call>";

std::shared_ptr<text::ModelCard> CardWith(std::string_view source) {
  auto card = std::make_shared<text::ModelCard>();
  card->tokenizer = *text::Tokenizer::Create(text::SampleBpe("smollm"));
  card->maybe_chat_template =
      std::make_shared<const text::ChatTemplate>(*text::ChatTemplate::Parse(source));
  return card;
}

class ToolsTest : public GatewayTest {
 protected:
  void StartWith(std::string_view source, std::optional<text::ToolDialect> dialect = {}) {
    GatewayOptions options;
    options.maybe_card = CardWith(source);
    options.tool_dialect = dialect;
    Start(std::move(options));
  }
  // The driver answers with that text, a byte an event, each with a token and a log probability.
  void Script(std::string_view text, wire::FinishReason reason = wire::FinishReason::kStop,
              int32_t choices = 1) {
    driver_.events_ = {};
    for (const char byte : text) {
      for (int32_t choice = 0; choice < choices; ++choice) {
        wire::TokenLogprobs logprobs;
        logprobs.chosen = {byte, {byte}, -0.5f, 1};
        driver_.events_.push_back(wire::TextDelta{choice, {byte}, {byte}, {logprobs}});
      }
    }
    for (int32_t choice = 0; choice < choices; ++choice) {
      driver_.events_.push_back(wire::Finish{choice, reason, {}, {}});
    }
    driver_.events_.insert(driver_.events_.end(), {wire::UsageReport{}, wire::Done{}});
  }
  net::HttpResponse AskChat(const std::string& more) {
    return Ask("POST", "/v1/chat/completions",
               R"({"messages":[{"role":"user","content":"hi"}],"tools":)" + std::string(kTools) +
                   more + "}");
  }
  static Json ChoiceOf(const net::HttpResponse& response, size_t index = 0) {
    return ParseJson(response.body)->Find("choices")->array()[index];
  }
};

struct Streamed {
  std::string content;
  std::map<int64_t, std::vector<std::string>> calls;  // by index: id, name, arguments
  std::string finish;
  size_t logprobs = 0;
};

std::map<int64_t, Streamed> ReadStream(const std::string& body) {
  std::map<int64_t, Streamed> out;
  constexpr std::string_view kData = "data: ";
  for (size_t at = 0; (at = body.find(kData, at)) != std::string::npos;) {
    const size_t end = body.find("\n\n", at);
    const std::string data = body.substr(at + kData.size(), end - at - kData.size());
    at = end;
    if (data == "[DONE]") {
      break;
    }
    const Json chunk = *ParseJson(data);
    for (const Json& choice : chunk.Find("choices")->array()) {
      Streamed& streamed = out[*choice.Find("index")->AsInt()];
      const Json& delta = *choice.Find("delta");
      if (const Json* content = delta.Find("content")) {
        streamed.content += content->string();
      }
      if (const Json* calls = delta.Find("tool_calls")) {
        for (const Json& call : calls->array()) {
          auto& parts = streamed.calls[*call.Find("index")->AsInt()];
          parts.resize(3);
          const Json& function = *call.Find("function");
          parts[0] += call.Find("id") != nullptr ? call.Find("id")->string() : "";
          parts[1] += function.Find("name") != nullptr ? function.Find("name")->string() : "";
          parts[2] += function.Find("arguments")->string();
        }
      }
      if (const Json* logprobs = choice.Find("logprobs"); logprobs->is_object()) {
        streamed.logprobs += logprobs->Find("content")->array().size();
      }
      if (const Json* finish = choice.Find("finish_reason"); finish->is_string()) {
        streamed.finish += finish->string();
      }
    }
  }
  return out;
}

TEST_F(ToolsTest, FindsCallsInWhatTheModelWrites) {
  StartWith(kTemplate);
  Script(kAnswer);
  const Json choice = ChoiceOf(AskChat(R"(,"logprobs":true)"));
  const Json& message = *choice.Find("message");
  EXPECT_EQ(message.Find("content")->string(), "Let me see.");
  EXPECT_EQ(choice.Find("finish_reason")->string(), "tool_calls");
  const Json::Array& calls = message.Find("tool_calls")->array();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_NE(calls[0].Find("id")->string(), calls[1].Find("id")->string());
  EXPECT_EQ(calls[0].Find("type")->string(), "function");
  EXPECT_EQ(calls[1].Find("function")->Dump(),
            R"({"name":"weather","arguments":"{\"city\":\"Rome\"}"})");
  EXPECT_EQ(choice.Find("logprobs")->Find("content")->array().size(), sizeof kAnswer - 1)
      << "of every token, those of calls too";
}

TEST_F(ToolsTest, AsksForSpecialTokensWhereTagsAreSuch) {
  auto card = CardWith(kTemplate);
  text::Vocabulary vocabulary = text::SampleBpe("smollm");
  vocabulary.tokens.Add("<tool_call>");
  vocabulary.types.push_back(text::TokenType::kControl);
  card->tokenizer = *text::Tokenizer::Create(vocabulary);
  GatewayOptions options;
  options.maybe_card = card;
  Start(std::move(options));
  AskChat("");
  EXPECT_FALSE(driver_.prepared_->turn->sampling.skip_special_tokens);
  AskChat(R"(,"tool_choice":"none")");
  EXPECT_TRUE(driver_.prepared_->turn->sampling.skip_special_tokens);
}

TEST_F(ToolsTest, StreamsCallsOfEveryChoice) {
  StartWith(kTemplate);
  Script(kAnswer, wire::FinishReason::kStop, 2);
  const auto response = AskChat(R"(,"stream":true,"n":2,"logprobs":true)");
  const auto choices = ReadStream(response.body);
  ASSERT_EQ(choices.size(), 2u) << response.body;
  std::vector<std::string> ids;
  for (const auto& [index, choice] : choices) {
    EXPECT_EQ(choice.content, "Let me see.");
    EXPECT_EQ(choice.finish, "tool_calls");
    EXPECT_EQ(choice.logprobs, sizeof kAnswer - 1);
    ASSERT_EQ(choice.calls.size(), 2u);
    EXPECT_EQ(choice.calls.at(0)[1], "weather");
    EXPECT_EQ(choice.calls.at(0)[2], R"({"city": "Oslo"})");
    EXPECT_EQ(choice.calls.at(1)[2], R"({"city":"Rome"})");
    for (const auto& [place, call] : choice.calls) {
      EXPECT_THAT(call[0], ::testing::StartsWith("call_"));
      EXPECT_THAT(ids, ::testing::Not(::testing::Contains(call[0]))) << "one id a call";
      ids.push_back(call[0]);
    }
  }
}

TEST_F(ToolsTest, GivesOneCallWhereOneIsWanted) {
  StartWith(kTemplate);
  Script(kAnswer);
  const Json message = *ChoiceOf(AskChat(R"(,"parallel_tool_calls":false)")).Find("message");
  EXPECT_EQ(message.Find("tool_calls")->array().size(), 1u);
  EXPECT_EQ(AskChat(R"(,"parallel_tool_calls":1)").status, 400);
}

TEST_F(ToolsTest, SaysWhatCutACallOff) {
  StartWith(kTemplate);
  Script(R"(<tool_call>{"name": "weather", "arguments": {"city": "Os)",
         wire::FinishReason::kLength);
  const Json whole = ChoiceOf(AskChat(""));
  EXPECT_EQ(whole.Find("finish_reason")->string(), "length");
  EXPECT_TRUE(whole.Find("message")->Find("content")->is_null());
  const auto streamed = ReadStream(AskChat(R"(,"stream":true)").body).at(0);
  EXPECT_EQ(streamed.finish, "length");
  EXPECT_EQ(streamed.calls.at(0)[2], R"({"city": "Os)");
  Script(R"(<tool_call>{"name": "weather", "arguments": {"city": )");
  EXPECT_EQ(ChoiceOf(AskChat("")).Find("finish_reason")->string(), "stop");
}

TEST_F(ToolsTest, LeavesTextAlone) {
  StartWith(kTemplate);
  const std::string mention = "Write <tool_call> {\"name\": \"other\"}";
  Script(mention);
  const Json choice = ChoiceOf(AskChat(""));
  EXPECT_EQ(choice.Find("message")->Find("content")->string(), mention);
  EXPECT_EQ(choice.Find("finish_reason")->string(), "stop");
  Script(kAnswer);
  const Json none = ChoiceOf(AskChat(R"(,"tool_choice":"none")"));
  EXPECT_EQ(none.Find("message")->Find("content")->string(), kAnswer);
  EXPECT_THAT(driver_.prepared_->prompts[0].text, HasSubstr("\"weather\""))
      << "still in the prompt";
  const Json without = ChoiceOf(Ask("POST", "/v1/chat/completions", kChat));
  EXPECT_EQ(without.Find("message")->Find("content")->string(), kAnswer);
}

TEST_F(ToolsTest, ReadsTheDialectThatItIsTold) {
  StartWith(kTemplate, text::ToolDialect::kNone);
  Script(kAnswer);
  EXPECT_EQ(ChoiceOf(AskChat("")).Find("message")->Find("content")->string(), kAnswer);
}

constexpr char kOtherDialect[] =
    "{{ tools }}{% for m in messages %}{{ m.content }}"
    "{% for c in m.tool_calls %}[TOOL_CALLS]{{ c.function.name }}{% endfor %}{% endfor %}";

TEST_F(ToolsTest, RefusesToolsWhoseCallsItCantRead) {
  StartWith(kOtherDialect);
  Script(kAnswer);
  const auto refused = AskChat("");
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("--tool-call-parser"));
  EXPECT_THAT(refused.body, HasSubstr("\"param\":\"tools\""));
}

TEST_F(ToolsTest, ReadsThemAllTheSameWhenToldHow) {
  StartWith(kOtherDialect, text::ToolDialect::kHermes);
  Script(kAnswer);
  EXPECT_EQ(ChoiceOf(AskChat("")).Find("finish_reason")->string(), "tool_calls");
}

TEST_F(ToolsTest, NamesAToolThatIsNone) {
  StartWith(kTemplate);
  for (const auto& [tools, param] : std::map<std::string, std::string>{
           {"[7]", "tools[0].function"},
           {R"([{"type":"function"}])", "tools[0].function"},
           {R"([{"type":"web_search"}])", "tools[0].type"},
           {R"([{"function":{"name":""}}])", "tools[0].function.name"},
           {R"([{"function":{"name":"a"}},{"function":{}}])", "tools[1].function.name"},
           {R"([{"function":{"name":"a","parameters":[]}}])", "tools[0].function.parameters"},
       }) {
    const auto refused =
        Ask("POST", "/v1/chat/completions",
            R"({"messages":[{"role":"user","content":"hi"}],"tools":)" + tools + "}");
    EXPECT_EQ(refused.status, 400) << tools;
    EXPECT_THAT(refused.body, HasSubstr("\"param\":\"" + param + "\"")) << tools;
  }
}

TEST_F(ToolsTest, ShowsTheTemplateWhatWasCalled) {
  StartWith(kTemplate);
  const std::string call =
      R"({"id":"c1","type":"function","function":{"name":"weather","arguments":)";
  const auto ask = [this](const std::string& calls, const std::string& result) {
    return Ask("POST", "/v1/chat/completions",
               R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":)" +
                   calls + R"(},{"role":"tool","content":"7",)" + result + "}]}");
  };
  for (const char* arguments : {R"("{\"a\": [1.0], \"b\": \"é\"}")", R"({"a":[1.0],"b":"é"})"}) {
    EXPECT_EQ(ask("[" + call + arguments + "}}]", R"("tool_call_id":"c1")").status, 200);
    EXPECT_THAT(driver_.prepared_->prompts[0].text,
                HasSubstr("<assistant><tool_call>\n{\"name\": \"weather\", \"arguments\": {\"a\": "
                          "[1.0], \"b\": \"é\"}}\n</tool_call><tool>7"));
  }
  EXPECT_EQ(ask("[" + call + R"(""}}])", R"("name":"weather")").status, 200);
  EXPECT_THAT(driver_.prepared_->prompts[0].text, HasSubstr("\"arguments\": {}}"));
  const std::string where = "messages[1].tool_calls";
  const std::string good = call + "\"{}\"}}";
  for (const auto& [calls, param] : std::map<std::string, std::string>{
           {"7", where},
           {"[7]", where + "[0].function"},
           {R"([{"function":{"name":""}}])", where + "[0].function.name"},
           {"[" + call + R"("[]"}}])", where + "[0].function.arguments"},
           {"[" + call + R"("{\"a\": NaN}"}}])", where + "[0].function.arguments"},
           {"[" + call + "7}}]", where + "[0].function.arguments"},
           {"[" + good + "," + good + "]", where + "[1].id"},
       }) {
    const auto refused = ask(calls, R"("tool_call_id":"c1")");
    EXPECT_EQ(refused.status, 400) << calls;
    EXPECT_THAT(refused.body, HasSubstr("\"param\":\"" + param + "\"")) << calls;
  }
  const auto unknown = ask("[" + good + "]", R"("tool_call_id":"c2")");
  EXPECT_EQ(unknown.status, 400);
  EXPECT_THAT(unknown.body, HasSubstr("\"param\":\"messages[2].tool_call_id\""));
}

TEST_F(ToolsTest, RefusesCallsThatTheTemplateDoesntShow) {
  StartWith("{% for m in messages %}{{ m.content }}{% endfor %}");
  const auto refused = Ask("POST", "/v1/chat/completions",
                           R"({"messages":[{"role":"assistant","tool_calls":[{"id":"c1",
                               "function":{"name":"f","arguments":"{}"}}]}]})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("\"param\":\"messages[0].tool_calls\""));
  AskChat("");
  EXPECT_EQ(driver_.prepared_->prompts[0].unserved_field, "tools") << "for the engine to refuse";
}

}  // namespace
}  // namespace fak::gateway
