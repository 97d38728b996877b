#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/limits.h"
#include "wire/openai_decode.h"
#include "wire/openai_encode.h"

namespace fak::wire {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Result<Turn> Chat(std::string_view fields) {
  return DecodeChatRequest(
      *ParseJson(R"({"messages":[{"role":"user","content":"hi"}])" + std::string(fields) + "}"));
}

TEST(DecodeChat, ReadsEveryKnownField) {
  const auto turn = Chat(R"(,"model":"m","temperature":0.5,"top_p":0.9,"top_k":-1,"n":2,
      "seed":-3,"stop":["a","b"],"max_completion_tokens":7,"max_tokens":9,"logprobs":true,
      "top_logprobs":3,"logit_bias":{"5":200,"2":-1},"stream":true,
      "stream_options":{"include_usage":true},"cache_salt":"s","priority":-2,"min_tokens":1,
      "stop_token_ids":[4],"ignore_eos":true,"chat_template_kwargs":{"x":1},"frobnicate":1)");
  ASSERT_TRUE(turn) << turn.error().detail;
  EXPECT_EQ(turn->model, "m");
  EXPECT_EQ(turn->sampling.temperature, 0.5f);
  EXPECT_EQ(turn->sampling.top_k, -1);
  EXPECT_EQ(turn->sampling.seed, static_cast<uint64_t>(-3));
  EXPECT_EQ(turn->sampling.max_tokens, 7);
  EXPECT_EQ(turn->sampling.logprobs, 3);
  EXPECT_EQ(turn->sampling.logit_bias, (std::vector<std::pair<int32_t, float>>{{5, 100}, {2, -1}}));
  EXPECT_EQ(turn->sampling.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(turn->n, 2);
  EXPECT_TRUE(turn->stream && turn->stream_include_usage && turn->sampling.ignore_eos);
  EXPECT_EQ(turn->priority, -2);
  EXPECT_EQ(turn->unknown_fields, std::vector<std::string>{"frobnicate"});
}

TEST(DecodeChat, ReadsAnAnswerThatWasBegunElsewhere) {
  const auto turn =
      Chat(R"(,"continue_answer":{"token_ids":[5,0],"created":1795959263,"artifact":"abc"})");
  ASSERT_TRUE(turn) << turn.error().detail;
  ASSERT_TRUE(turn->answer_so_far);
  EXPECT_EQ(turn->answer_so_far->tokens, (std::vector<int32_t>{5, 0}));
  EXPECT_EQ(turn->answer_so_far->created_s, 1795959263);
  EXPECT_EQ(turn->answer_so_far->artifact, "abc");
  EXPECT_TRUE(turn->unknown_fields.empty());
  const std::pair<const char*, const char*> kWrong[] = {
      {R"(,"continue_answer":7)", "continue_answer"},
      {R"(,"continue_answer":{})", "continue_answer.token_ids"},
      {R"(,"continue_answer":{"token_ids":[]})", "continue_answer.token_ids"},
      {R"(,"continue_answer":{"token_ids":[-1]})", "continue_answer.token_ids"},
      {R"(,"continue_answer":{"token_ids":[1],"other":1})", "continue_answer"},
      {R"(,"continue_answer":{"token_ids":[1],"created":-1})", "continue_answer"},
      {R"(,"continue_answer":{"token_ids":[1]},"n":2)", "continue_answer"},
      {R"(,"continue_answer":{"token_ids":[1]},"echo":true)", "continue_answer"},
  };
  for (const auto& [fields, field] : kWrong) {
    const auto refused = Chat(fields);
    ASSERT_FALSE(refused) << fields;
    EXPECT_EQ(refused.error().field, field) << fields;
  }
}

TEST(DecodeChat, NamesTheFirstFieldThatOnlyOthersServe) {
  for (const char* idle : {R"("modalities":["text"])",
                           R"("bad_words":[])",
                           R"("use_beam_search":false)",
                           R"("mirostat":0)",
                           R"("repeat_penalty":1.0)",
                           R"("top_n_sigma":-1)",
                           R"("audio":null)",
                           R"("store":false)",
                           R"("function_call":"auto")",
                           R"("function_call":"none")",
                           R"("spaces_between_special_tokens":true)",
                           R"("detokenize":true)",
                           R"("length_penalty":1.0)",
                           R"("thinking_token_budget":-1)",
                           R"("vllm_xargs":{})",
                           R"("include_reasoning":true)",
                           R"("verbosity":"medium")",
                           R"("reasoning_format":"auto")",
                           R"("repeat_last_n":64,"presence_penalty":0)",
                           R"("repeat_last_n":-1,"presence_penalty":1)",
                           R"("adaptive_target":-1.0)",
                           R"("min_keep":0)",
                           R"("reasoning_effort":"high")",
                           R"("add_special_tokens":false)",
                           R"("parallel_tool_calls":true)",
                           R"("metadata":{"a":"b"})",
                           R"("service_tier":"auto")",
                           R"("user":"u")",
                           R"("n_predict":5)",
                           R"("typ_p":0.5)"}) {
    const auto turn = Chat("," + std::string(idle));
    ASSERT_TRUE(turn) << idle;
    EXPECT_EQ(turn->unserved_field, "") << idle;
    EXPECT_TRUE(turn->unknown_fields.empty()) << idle;
  }
  for (const auto& [field, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"modalities", R"(["text","audio"])"},
           {"bad_words", R"(["x"])"},
           {"use_beam_search", "true"},
           {"mirostat", "2"},
           {"repeat_penalty", "1.1"},
           {"allowed_token_ids", "[5]"},
           {"truncate_prompt_tokens", "1"},
           {"store", "true"},
           {"function_call", R"({"name":"x"})"},
           {"spaces_between_special_tokens", "false"},
           {"detokenize", "false"},
           {"length_penalty", "1.5"},
           {"thinking_token_budget", "0"},
           {"include_reasoning", "false"},
           {"verbosity", R"("low")"},
           {"vllm_xargs", R"({"a":1})"},
           {"samplers", R"(["top_k"])"},
           {"samplers", R"("kt")"},
           {"min_keep", "2"},
           {"reasoning_format", R"("deepseek")"},
           {"regex", R"("a+")"}}) {
    const auto turn = Chat(",\"" + std::string(field) + "\":" + value);
    ASSERT_TRUE(turn) << field;
    EXPECT_EQ(turn->unserved_field, field);
    EXPECT_TRUE(turn->unknown_fields.empty()) << field;
  }
  EXPECT_EQ(Chat(R"(,"repetition_penalty":1.1,"repeat_last_n":64)")->unserved_field,
            "repeat_last_n");
}

TEST(DecodeChat, TakesLlamaCppsNames) {
  EXPECT_EQ(Chat(R"(,"typ_p":0.5)")->sampling.typical_p, 0.5f);
  EXPECT_EQ(Chat(R"(,"typ_p":0.5,"typical_p":0.25)")->sampling.typical_p, 0.25f);
  EXPECT_EQ(Chat(R"(,"n_predict":5,"max_tokens":9)")->sampling.max_tokens, 5);
  EXPECT_EQ(Chat(R"(,"n_predict":-1,"max_tokens":9)")->sampling.max_tokens, std::nullopt);
  const auto completion = [](const std::string& fields) {
    return DecodeCompletionRequest(*ParseJson(R"({"prompt":"x",)" + fields + "}"));
  };
  EXPECT_EQ(completion(R"("n_predict":5)")->sampling.max_tokens, 5);
  EXPECT_EQ(completion(R"("n_predict":-1)")->sampling.max_tokens, std::nullopt);
  EXPECT_EQ(completion(R"("n_predict":1.5)").error().field, "n_predict");
}

TEST(DecodeChat, ReadsTheEffortAndWhetherSpecialTokensAreAdded) {
  const auto turn = Chat(R"(,"reasoning_effort":"low","add_special_tokens":false)");
  EXPECT_EQ(turn->reasoning_effort, "low");
  EXPECT_EQ(turn->add_special_tokens, false);
  EXPECT_EQ(Chat("")->reasoning_effort, std::nullopt);
  EXPECT_EQ(Chat("")->add_special_tokens, std::nullopt);
}

TEST(DecodeChat, TakesNullForAbsent) {
  const auto turn = Chat(R"(,"temperature":null,"stop":null,"tools":null,"seed":null)");
  ASSERT_TRUE(turn);
  EXPECT_FALSE(turn->sampling.temperature || turn->sampling.seed);
  EXPECT_TRUE(turn->tools.is_null());
}

TEST(DecodeChat, TakesASeedOfMinusOneForAbsent) {
  const auto turn = Chat(R"(,"seed":-1)");
  ASSERT_TRUE(turn);
  EXPECT_FALSE(turn->sampling.seed);
  EXPECT_EQ(Chat(R"(,"seed":0)")->sampling.seed, 0u);
}

TEST(DecodeChat, FlattensTextPartsAndNamesTheFirstImage) {
  const auto text = DecodeChatRequest(*ParseJson(
      R"({"messages":[{"role":"developer","content":[{"type":"text","text":"a"},
          {"type":"text","text":"b"}]},{"role":"assistant","content":null,"tool_calls":[]}]})"));
  ASSERT_TRUE(text) << text.error().detail;
  EXPECT_EQ(text->messages.array()[0].Find("content")->string(), "a\nb");
  EXPECT_EQ(text->messages.array()[0].Find("role")->string(), "system");
  EXPECT_EQ(text->messages.array()[1].Find("content")->string(), "") << "templates add to it";
  const auto image = DecodeChatRequest(*ParseJson(
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},
          {"type":"image_url","image_url":{"url":"x"}}]}]})"));
  ASSERT_TRUE(image);
  EXPECT_EQ(image->image_field, "messages[0].content[1]");
}

TEST(DecodeChat, ErrorsNameTheField) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"(,"temperature":-1)", "temperature"},
      {R"(,"temperature":"hot")", "temperature"},
      {R"(,"top_p":0)", "top_p"},
      {R"(,"top_p":1.5)", "top_p"},
      {R"(,"top_k":-2)", "top_k"},
      {R"(,"n":0)", "n"},
      {R"(,"n":1.5)", "n"},
      {R"(,"n":129)", "n"},
      {R"(,"max_tokens":0)", "max_tokens"},
      {R"(,"stop":[1])", "stop[0]"},
      {R"(,"stop_token_ids":[-1])", "stop_token_ids"},
      {R"(,"stop_token_ids":[2097152])", "stop_token_ids"},
      {R"(,"logit_bias":{"2097152":1})", "logit_bias"},
      {R"(,"stop":{"a":1})", "stop"},
      {R"(,"logit_bias":[1])", "logit_bias"},
      {R"(,"logit_bias":{"x":1})", "logit_bias"},
      {R"(,"top_logprobs":2)", "top_logprobs"},
      {R"(,"top_logprobs":21,"logprobs":true)", "top_logprobs"},
      {R"(,"stream":"yes")", "stream"},
      {R"(,"stream_options":3)", "stream_options"},
      {R"(,"presence_penalty":3)", "presence_penalty"},
      {R"(,"repetition_penalty":0)", "repetition_penalty"},
      {R"(,"repetition_penalty":1e-50)", "repetition_penalty"},
      {R"(,"repetition_penalty":1e-38)", "repetition_penalty"},
      {R"(,"repetition_penalty":9e-8)", "repetition_penalty"},
      {R"(,"repetition_penalty":1.1e7)", "repetition_penalty"},
      {R"(,"min_p":1.01)", "min_p"},
      {R"(,"min_p":-0.01)", "min_p"},
      {R"(,"typical_p":5)", "typical_p"},
      {R"(,"temperature":1e39)", "temperature"},
      {R"(,"temperature":3.4028235677973366e38)", "temperature"},  // rounds beyond floats
      {R"(,"temperature":-1e39)", "temperature"},
      {R"(,"top_p":1e39)", "top_p"},
      {R"(,"top_k":1e39)", "top_k"},
      {R"(,"min_p":1e39)", "min_p"},
      {R"(,"typical_p":1e39)", "typical_p"},
      {R"(,"typ_p":1e39)", "typ_p"},
      {R"(,"presence_penalty":-1e39)", "presence_penalty"},
      {R"(,"frequency_penalty":1e39)", "frequency_penalty"},
      {R"(,"repetition_penalty":1e39)", "repetition_penalty"},
      {R"(,"logit_bias":{"5":1e39})", "logit_bias"},
      {R"(,"logit_bias":{"5":-1e400})", "logit_bias"},
      {R"(,"tools":{})", "tools"},
      {R"(,"response_format":{})", "response_format"},
      {R"(,"seed":1e30)", "seed"},
      {R"(,"model":5)", "model"},
  };
  for (const auto& [fields, field] : kCases) {
    const auto turn = Chat(fields);
    ASSERT_FALSE(turn) << fields;
    EXPECT_EQ(turn.error().code, Code::kInvalidArgument) << fields;
    EXPECT_EQ(turn.error().field, field);
    EXPECT_THAT(turn.error().detail, StartsWith(field));
  }
}

TEST(DecodeChat, ErrorsSayTheRangeThatTheFieldHas) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"(,"max_tokens":1.5)", "max_tokens: must be an integer, 1 or more, not 1.5"},
      {R"(,"max_tokens":-3000000000)", "max_tokens: must be 1 or more, not -3000000000"},
      {R"(,"max_completion_tokens":0)", "max_completion_tokens: must be 1 or more, not 0"},
      {R"(,"max_tokens":2147483647.5)",
       "max_tokens: must be an integer, 1 or more, not 2147483647.5"},
      {R"(,"temperature":1e400)", "temperature: must be at most 3.40282e+38, not 1e400"},
      {R"(,"top_k":0.5)", "top_k: must be an integer, -1 to 2147483647, not 0.5"},
      {R"(,"top_k":99999999999999999999)",
       "top_k: must be an integer, -1 to 2147483647, not 99999999999999999999"},
      {R"(,"n":1.5)", "n: must be an integer, 1 to 128, not 1.5"},
      {R"(,"n":129)", "n: must be 1 to 128, not 129"},
  };
  for (const auto& [fields, detail] : kCases) {
    const auto turn = Chat(fields);
    ASSERT_FALSE(turn) << fields;
    EXPECT_EQ(turn.error().detail, detail);
  }
}

// Each is lowered to what the context leaves, so that a client may ask for all of it.
TEST(DecodeChat, TakesAnyCountOfTokensAsTheMostThatThereIs) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  for (const char* count : {"2147483647", "2147483648", "99999999999", "1e30", "1e400"}) {
    const std::string value = count;
    EXPECT_EQ(Chat(",\"max_tokens\":" + value)->sampling.max_tokens, kMost) << count;
    EXPECT_EQ(Chat(",\"max_completion_tokens\":" + value)->sampling.max_tokens, kMost) << count;
    const auto completion = [&value](const std::string& name) {
      return DecodeCompletionRequest(*ParseJson(R"({"prompt":"x",")" + name + "\":" + value + "}"));
    };
    EXPECT_EQ(completion("max_tokens")->sampling.max_tokens, kMost) << count;
    EXPECT_EQ(completion("n_predict")->sampling.max_tokens, kMost) << count;
  }
}

TEST(DecodeChat, BoundsTheStopTokens) {
  const auto tokens = [](size_t count) {
    return Chat(",\"stop_token_ids\":" + Json(Json::Array(count, Json(7))).Dump());
  };
  EXPECT_EQ(tokens(limits::kStopTokensMax)->sampling.stop_token_ids.size(), limits::kStopTokensMax);
  ASSERT_FALSE(tokens(limits::kStopTokensMax + 1));
  EXPECT_THAT(tokens(limits::kStopTokensMax + 1).error().detail,
              HasSubstr(std::to_string(limits::kStopTokensMax)));
}

TEST(DecodeChat, RefusesMessagesOfAWrongShape) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"({})", "messages"},
      {R"({"messages":[]})", "messages"},
      {R"({"messages":"hi"})", "messages"},
      {R"({"messages":[1]})", "messages[0]"},
      {R"({"messages":[{"content":"x"}]})", "messages[0].role"},
      {R"({"messages":[{"role":"user"}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":3}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":[{}]}]})", "messages[0].content[0]"},
      {R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})",
       "messages[0].content[0].text"},
  };
  for (const auto& [body, field] : kCases) {
    const auto turn = DecodeChatRequest(*ParseJson(body));
    ASSERT_FALSE(turn) << body;
    EXPECT_EQ(turn.error().field, field) << body;
  }
  EXPECT_FALSE(DecodeChatRequest(Json(3)));
}

TEST(DecodeCompletion, TakesEveryFormOfAPrompt) {
  const auto prompts = [](const char* json) {
    return DecodeCompletionRequest(*ParseJson(std::string(R"({"prompt":)") + json + "}"));
  };
  EXPECT_EQ(prompts(R"("hi")")->prompts[0].text, "hi");
  EXPECT_EQ(prompts(R"(["a","b"])")->prompts.size(), 2u);
  EXPECT_EQ(prompts(R"([1,2,3])")->prompts[0].tokens, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(prompts(R"([[1],[2,3]])")->prompts[1].tokens, (std::vector<int32_t>{2, 3}));
  // Numbers that are no tokens of this model are the engine's to refuse: it knows how many it has.
  EXPECT_EQ(prompts("[-1,99999999]")->prompts[0].tokens, (std::vector<int32_t>{-1, 99999999}));
  EXPECT_EQ(prompts("[[1],[4294967296]]").error().detail,
            "prompt: token 4294967296 is outside every vocabulary");
  EXPECT_EQ(prompts(R"("hi")")->sampling.max_tokens, 16);
  for (const char* bad :
       {"3", "[]", "[1,\"a\"]", "[\"a\",1]", "[2147483648]", "[[1],[1.5]]", "{}"}) {
    const auto turn = prompts(bad);
    ASSERT_FALSE(turn) << bad;
    EXPECT_EQ(turn.error().field, "prompt");
  }
  EXPECT_FALSE(DecodeCompletionRequest(*ParseJson("{}")));
}

TEST(DecodeTokenize, TakesBothServersBodies) {
  const auto decode = [](const char* json) { return DecodeTokenizeRequest(*ParseJson(json)); };
  const auto vllm = decode(R"({"prompt":"hi","parse_special":false})");
  ASSERT_TRUE(vllm);
  EXPECT_EQ(vllm->text, "hi");
  EXPECT_TRUE(vllm->add_special);
  EXPECT_FALSE(vllm->parse_special);
  EXPECT_FALSE(decode(R"({"prompt":"hi","add_special_tokens":false})")->add_special);
  const auto llamacpp = decode(R"({"content":"","prompt":"hi"})");
  ASSERT_TRUE(llamacpp);
  EXPECT_EQ(llamacpp->text, "");
  EXPECT_FALSE(llamacpp->add_special);
  EXPECT_TRUE(decode(R"({"content":"hi","add_special":true})")->add_special);
  EXPECT_TRUE(decode(R"({"messages":[{"role":"user","content":"hi"}]})")->chat.has_value());
  for (const char* bad : {"{}", "[]", R"({"prompt":7})", R"({"content":null})",
                          R"({"messages":[]})", R"({"prompt":"hi","parse_special":1})"}) {
    EXPECT_FALSE(decode(bad)) << bad;
  }
}

class StreamTest : public ::testing::Test {
 protected:
  std::string Encode(const std::vector<Event>& events) {
    OpenAiStream stream({"id-1", "m", 17}, turn_);
    std::string out;
    for (const Event& event : events) {
      stream.Encode(event, out);
    }
    return out;
  }
  Turn turn_;
};

TEST_F(StreamTest, KeepsEndsOfLineInTextWithinOneEvent) {
  const std::string out = Encode({TextDelta{0, "a\n\nb\r\nc", {1}, {}}});
  EXPECT_THAT(out, HasSubstr(R"({"content":"a\n\nb\r\nc"})"));
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 4) << "of two events";
}

TEST_F(StreamTest, SendsRoleTextFinishAndDone) {
  EXPECT_EQ(
      Encode({TextDelta{0, "a\"b", {1}, {}}, Finish{}, UsageReport{}, Done{}}),
      "data: {\"id\":\"id-1\",\"object\":\"chat.completion.chunk\",\"created\":17,\"model\":\"m\","
      "\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
      "\"logprobs\":null,\"finish_reason\":null}]}\n\n"
      "data: {\"id\":\"id-1\",\"object\":\"chat.completion.chunk\",\"created\":17,\"model\":\"m\","
      "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\\\"b\"},\"logprobs\":null,"
      "\"finish_reason\":null}]}\n\n"
      "data: {\"id\":\"id-1\",\"object\":\"chat.completion.chunk\",\"created\":17,\"model\":\"m\","
      "\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\","
      "\"stop_reason\":null}]}\n\n"
      "data: [DONE]\n\n");
}

TEST_F(StreamTest, TellsTheIdsOfTokensWithoutText) {
  const std::vector<Event> events = {TextDelta{0, "a", {1}, {}}, TextDelta{0, "", {2}, {}}};
  EXPECT_THAT(Encode(events),
              Not(HasSubstr(R"("content":""},"logprobs":null,"finish_reason":null,)")));
  turn_.return_token_ids = true;
  EXPECT_THAT(Encode(events), HasSubstr(R"("content":""},"logprobs":null,"finish_reason":null,)"
                                        R"("token_ids":[2])"));
}

TEST_F(StreamTest, SendsUsageInAChunkWithoutChoicesWhenAsked) {
  turn_.stream_include_usage = true;
  const std::string out = Encode({Finish{}, UsageReport{{3, 4, 2, -1}}, Done{}});
  EXPECT_THAT(out, HasSubstr("\"choices\":[],\"usage\":{\"prompt_tokens\":3,"
                             "\"completion_tokens\":4,\"total_tokens\":7,"
                             "\"prompt_tokens_details\":{\"cached_tokens\":2}}}\n\n"
                             "data: [DONE]\n\n"));
}

TEST_F(StreamTest, AFailureEndsTheStreamWithItsCodeAndTypeAndWithoutDone) {
  const std::string out =
      Encode({TextDelta{0, "a", {}, {}}, Failed{{Code::kDeadlineExceeded, "late"}}, Done{}});
  EXPECT_THAT(out, EndsWith("data: {\"error\":{\"message\":\"late\",\"type\":\"TimeoutError\","
                            "\"param\":null,\"code\":\"deadline_exceeded\"}}\n\n"));
  EXPECT_THAT(out, Not(HasSubstr("[DONE]")));
}

TEST_F(StreamTest, PassesAnUpstreamsChunksOnAsTheyCame) {
  EXPECT_EQ(Encode({RawChunk{"{\"x\":1.0}"}, TextDelta{0, "a", {}, {}}, Finish{}, Done{}}),
            "data: {\"x\":1.0}\n\ndata: [DONE]\n\n");
  EXPECT_EQ(Encode({RawChunk{"{\"x\":\n1.0}"}}), "data: {\"x\":\ndata: 1.0}\n\n");
}

TEST_F(StreamTest, TheFirstChunkOfAChoiceCarriesTheSeed) {
  const std::vector<Event> events = {Started{7, 1, 0}, TextDelta{0, "a", {1}, {}},
                                     TextDelta{0, "b", {2}, {}}};
  for (const Surface surface : {Surface::kChat, Surface::kCompletion}) {
    turn_.surface = surface;
    const std::string out = Encode(events);
    const std::string first = out.substr(0, out.find("\n\n"));
    EXPECT_THAT(first, EndsWith("],\"seed\":7}"));
    EXPECT_THAT(out.substr(first.size()), Not(HasSubstr("seed")));
  }
}

TEST_F(StreamTest, TheFirstChunkOfAChoiceCarriesItsPromptsTokensWhenAsked) {
  const std::vector<Event> events = {PromptEcho{0, "p", {5, 6}, {}}, TextDelta{0, "a", {1}, {}},
                                     TextDelta{0, "", {2}, {}}, Finish{}};
  EXPECT_THAT(Encode(events), Not(HasSubstr("token_ids")));
  turn_.return_token_ids = true;
  for (const auto& [surface, end] :
       {std::pair(Surface::kChat, "}],\"prompt_token_ids\":[5,6]}"),
        std::pair(Surface::kCompletion, "\"prompt_token_ids\":[5,6]}]}")}) {
    turn_.surface = surface;
    const std::string out = Encode(events);
    const std::string first = out.substr(0, out.find("\n\n"));
    EXPECT_THAT(first, EndsWith(end));
    EXPECT_THAT(out.substr(first.size()), Not(HasSubstr("prompt_token_ids")));
    EXPECT_THAT(out, HasSubstr("\"token_ids\":[1]"));
    EXPECT_THAT(out, HasSubstr("\"token_ids\":[2]")) << "of a token without a text";
  }
}

TEST_F(StreamTest, EveryChunkCarriesTheUsageSoFarWhenAsked) {
  turn_.stream_include_usage = true;
  turn_.continuous_usage_stats = true;
  const std::string out = Encode({Started{7, 1, 0}, TextDelta{0, "a", {1}, {}}});
  EXPECT_THAT(out, HasSubstr("\"seed\":7,\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":0,"));
  EXPECT_THAT(out, HasSubstr("\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1,"));
}

TEST(OpenAiErrorBody, TakesItsTypeFromTheCode) {
  const auto type = [](const Error& error) {
    const Json body = *ParseJson(OpenAiErrorBody(error));
    return body.Find("error")->Find("type")->string();
  };
  EXPECT_EQ(type({Code::kContextTooLong, "x"}), "BadRequestError");
  EXPECT_EQ(type({Code::kUnavailable, "x"}), "ServiceUnavailableError");
  EXPECT_EQ(type({Code::kUpstreamError, "x"}), "InternalServerError");
  Error refused{Code::kUpstreamError, "x"};
  refused.upstream_status = 422;
  EXPECT_EQ(type(refused), "BadRequestError");
}

TEST(WholeAnswer, HasTextUsageAndLogprobs) {
  Turn turn;
  turn.sampling.logprobs = 1;
  OpenAiWhole whole({"id-1", "m", 17}, turn);
  TextDelta delta{0, "a", {1}, {}};
  const TokenLogprobs::Entry a = {1, "a", -0.5f, 1};
  delta.logprobs.resize(1);
  delta.logprobs.front().chosen = a;
  delta.logprobs.front().top = {a};
  whole.Add(Started{9, 2, 0});
  whole.Add(delta);
  whole.Add(Finish{});
  whole.Add(UsageReport{{2, 1, 0, -1}});
  whole.Add(Done{});
  ASSERT_TRUE(whole.done());
  const Json body = *ParseJson(whole.Body());
  const Json& choice = body.Find("choices")->array()[0];
  EXPECT_EQ(choice.Find("message")->Find("content")->string(), "a");
  EXPECT_EQ(choice.Find("finish_reason")->string(), "stop");
  const Json& token = choice.Find("logprobs")->Find("content")->array()[0];
  EXPECT_EQ(token.Find("logprob")->number_text(), "-0.5");
  EXPECT_EQ(token.Find("top_logprobs")->array().size(), 1u);
  EXPECT_EQ(body.Find("usage")->Find("total_tokens")->AsInt(), 3);
  EXPECT_EQ(body.Find("seed")->AsInt(), 9);
}

TEST(WholeAnswer, HasThePromptsTokensWhenAsked) {
  for (const Surface surface : {Surface::kChat, Surface::kCompletion}) {
    Turn turn;
    turn.surface = surface;
    turn.return_token_ids = true;
    OpenAiWhole whole({"id-1", "m", 17}, turn);
    whole.Add(PromptEcho{0, "p", {5, 6}, {}});
    whole.Add(TextDelta{0, "a", {1}, {}});
    whole.Add(Finish{});
    whole.Add(Done{});
    const Json body = *ParseJson(whole.Body());
    const Json& choice = body.Find("choices")->array()[0];
    const Json& holder = surface == Surface::kChat ? body : choice;  // as vLLM has it
    ASSERT_NE(holder.Find("prompt_token_ids"), nullptr);
    EXPECT_EQ(holder.Find("prompt_token_ids")->Dump(), "[5,6]");
    EXPECT_EQ(choice.Find("token_ids")->Dump(), "[1]");
  }
}

TEST(WholeAnswer, CompletionsPutTheEchoFirst) {
  Turn turn;
  turn.surface = Surface::kCompletion;
  turn.echo = true;
  turn.sampling.logprobs = 0;
  OpenAiWhole whole({"id-1", "m", 17}, turn);
  // The two halves of a character in two tokens.
  PromptEcho echo{0, "abä", {1, 2, 3}, {}};
  echo.logprobs.push_back(TokenLogprobs::First(1, "ab"));
  echo.logprobs.push_back({.chosen = {2, "\xC3", -1.0f, 1}});
  echo.logprobs.push_back({.chosen = {3, "\xA4", -1.5f, 1}});
  TextDelta delta{0, "e", {4}, {}};
  delta.logprobs.push_back({.chosen = {4, "e", -2.0f, 1}});
  whole.Add(echo);
  whole.Add(delta);
  whole.Add(Finish{0, FinishReason::kLength, {}, {}});
  whole.Add(Done{});
  const Json body = *ParseJson(whole.Body());
  const Json& choice = body.Find("choices")->array()[0];
  EXPECT_EQ(choice.Find("text")->string(), "abäe");
  const Json& logprobs = *choice.Find("logprobs");
  EXPECT_EQ(logprobs.Find("token_logprobs")->Dump(), "[null,-1,-1.5,-2]");
  EXPECT_EQ(logprobs.Find("tokens")->Dump(), R"(["ab","bytes:\\xc3","bytes:\\xa4","e"])");
  EXPECT_TRUE(logprobs.Find("top_logprobs")->array()[0].is_null());
  EXPECT_EQ(logprobs.Find("text_offset")->Dump(), "[0,2,3,3]");
}

// As vLLM has it: not the prompt that the template made.
TEST(EchoOfAChat, IsWhatTheAssistantHadBegunToSay) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"([{"role":"user","content":"hi"}])", ""},
      {R"([{"role":"assistant","content":"no"},{"role":"user","content":"hi"}])", ""},
      {R"([{"role":"user","content":"hi"},{"role":"assistant","content":"so: "}])", "so: "},
      {R"([{"role":"assistant","content":[{"type":"text","text":"so: "}]}])", "so: "},
      {R"([{"role":"assistant","tool_calls":[]}])", ""},
  };
  for (const auto& [messages, echoed] : kCases) {
    const Turn turn =
        *DecodeChatRequest(*ParseJson(R"({"echo":true,"messages":)" + std::string(messages) + "}"));
    OpenAiWhole whole({"id-1", "m", 17}, turn);
    OpenAiStream stream({"id-1", "m", 17}, turn);
    std::string out;
    for (const Event& event : std::vector<Event>{PromptEcho{0, "<|user|>hi", {1, 2}, {}},
                                                 TextDelta{0, "yes", {3}, {}}, Finish{}, Done{}}) {
      whole.Add(event);
      stream.Encode(event, out);
    }
    const Json body = *ParseJson(whole.Body());
    EXPECT_EQ(body.Find("choices")->array()[0].Find("message")->Find("content")->string(),
              echoed + std::string("yes"));
    EXPECT_THAT(out, Not(HasSubstr("<|user|>")));
    const std::string chunk = R"("delta":{"content":")" + std::string(echoed) + R"("},)";
    EXPECT_EQ(out.find(chunk) < out.find("yes"), *echoed != 0) << messages;
  }
}

TEST(WholeAnswer, CompletionsListEachAlternativeThatIsNoText) {
  Turn turn;
  turn.surface = Surface::kCompletion;
  turn.sampling.logprobs = 3;
  OpenAiWhole whole({"id-1", "m", 17}, turn);
  TextDelta delta{0, "", {1}, {}};
  TokenLogprobs token;
  token.chosen = {1, "\xE2\x82", -0.5f, 1};
  token.top = {token.chosen, {2, "\xE2", -1.0f, 2}, {3, "\xFF", -2.0f, 3}};
  delta.logprobs.push_back(token);
  whole.Add(delta);
  whole.Add(Finish{});
  whole.Add(Done{});
  const Json body = *ParseJson(whole.Body());
  const Json& logprobs = *body.Find("choices")->array()[0].Find("logprobs");
  EXPECT_EQ(logprobs.Find("top_logprobs")->Dump(),
            R"([{"bytes:\\xe2\\x82":-0.5,"bytes:\\xe2":-1,"bytes:\\xff":-2}])");
}

TEST(StreamedAnswer, TheFirstTokenOfAnEchoHasItsTextAndNoLogprob) {
  Turn turn;
  turn.surface = Surface::kCompletion;
  turn.echo = true;
  turn.sampling.logprobs = 0;
  OpenAiStream stream({"id-1", "m", 17}, turn);
  std::string out;
  PromptEcho echo{0, "äb", {1, 2}, {}};
  echo.logprobs.push_back(TokenLogprobs::First(1, "ä"));
  echo.logprobs.push_back({.chosen = {2, "b", -1.0f, 1}});
  stream.Encode(Event(echo), out);
  TextDelta delta{0, "c", {3}, {}};
  delta.logprobs.push_back({.chosen = {3, "c", -2.0f, 1}});
  stream.Encode(Event(delta), out);
  EXPECT_THAT(out,
              HasSubstr(R"("text_offset":[0,1],"token_logprobs":[null,-1],"tokens":["ä","b"])"));
  EXPECT_THAT(out, HasSubstr(R"("text_offset":[2],"token_logprobs":[-2])"));
}

}  // namespace
}  // namespace fak::wire
