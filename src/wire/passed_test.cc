#include "wire/passed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <tuple>

#include "base/limits.h"

namespace fak::wire {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

std::string Stream(Surface surface, std::initializer_list<Event> events) {
  PassedStream stream(surface);
  std::string out;
  for (const Event& event : events) {
    stream.Encode(event, out);
  }
  EXPECT_TRUE(stream.ended());
  return out;
}

TEST(PassedStream, SendsEventsUnderTheirNamesAndNothingElse) {
  EXPECT_EQ(Stream(Surface::kMessages,
                   {RawChunk{"{\"type\":\"message_start\",\"n\":1.0}", "message_start"},
                    TextDelta{0, "a", {}, {}}, UsageReport{}, Finish{},
                    RawChunk{"{\"type\":\"message_stop\"}", "message_stop"}, Done{}}),
            "event: message_start\ndata: {\"type\":\"message_start\",\"n\":1.0}\n\n"
            "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

TEST(PassedStream, EndsAFailureInTheDialectOfTheSurface) {
  const Failed failed{{Code::kUnavailable, "gone"}};
  EXPECT_EQ(Stream(Surface::kMessages, {failed}),
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
            "\"message\":\"gone\"}}\n\n");
  EXPECT_THAT(Stream(Surface::kResponses, {failed}),
              HasSubstr("event: error\ndata: {\"type\":\"error\",\"code\":\"unavailable\""));
  EXPECT_EQ(Stream(Surface::kResponses, {RawChunk{"{}", "response.failed"}, failed}),
            "event: response.failed\ndata: {}\n\n");
}

TEST(PassedStream, NumbersAFailureOfAResponseAfterItsEvents) {
  const Failed failed{{Code::kUnavailable, "gone"}};
  const auto last = [&failed](std::initializer_list<std::string_view> events) {
    PassedStream stream(Surface::kResponses);
    std::string out;
    for (const std::string_view event : events) {
      stream.Encode(RawChunk{std::string(event), "response.x"}, out);
    }
    out.clear();
    stream.Encode(failed, out);
    return out;
  };
  EXPECT_THAT(last({}), EndsWith("\"param\":null,\"sequence_number\":0}\n\n"));
  EXPECT_THAT(last({R"({"sequence_number":0})", R"({"sequence_number":7,"delta":"a"})"}),
              EndsWith("\"sequence_number\":8}\n\n"));
  // Where the engine has none, or nonsense: as many as came.
  for (const std::string_view odd :
       {"{}", R"({"sequence_number":-1})", R"({"sequence_number":"x"})",
        R"({"sequence_number":9223372036854775807})", "[]"}) {
    EXPECT_THAT(last({"{}", odd}), EndsWith("\"sequence_number\":2}\n\n")) << odd;
  }
}

TEST(DecodePassedRequest, ReadsNoMoreThanItNeeds) {
  const auto turn = DecodePassedRequest(
      *ParseJson(R"({"model":"m","stream":true,"frob":1,"messages":[{"a":1}],"system":"s"})"),
      Surface::kMessages);
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->model, "m");
  EXPECT_TRUE(turn->stream);
  EXPECT_EQ(turn->prompts.at(0).text, R"("s"[{"a":1}])");
}

TEST(DecodePassedRequest, StreamsOnlyWhatCanBeStreamed) {
  const Json document = *ParseJson(R"({"stream":true,"input":"x","messages":[]})");
  EXPECT_TRUE(DecodePassedRequest(document, Surface::kResponses)->stream);
  EXPECT_FALSE(DecodePassedRequest(document, Surface::kEmbedding)->stream);
  EXPECT_FALSE(DecodePassedRequest(document, Surface::kCountTokens)->stream);
}

TEST(DecodePassedRequest, NamesWhatIsMissingOrOfAWrongType) {
  const std::tuple<Surface, const char*, const char*> kCases[] = {
      {Surface::kMessages, "{}", "messages"},
      {Surface::kCountTokens, "{}", "messages"},
      {Surface::kResponses, "{}", "input"},
      {Surface::kEmbedding, "{\"prompt\":\"x\"}", "input"},
      {Surface::kEmbedding, "{\"input\":\"x\",\"stream\":1}", "stream"},
      {Surface::kMessages, "{\"messages\":[],\"model\":1}", "model"},
  };
  for (const auto& [surface, document, field] : kCases) {
    const auto turn = DecodePassedRequest(*ParseJson(document), surface);
    ASSERT_FALSE(turn) << document;
    EXPECT_EQ(turn.error().field, field);
  }
  EXPECT_FALSE(DecodePassedRequest(*ParseJson("[]"), Surface::kMessages));
  EXPECT_TRUE(
      DecodePassedRequest(*ParseJson(R"({"previous_response_id":"r"})"), Surface::kResponses));
}

TEST(PassedStream, SglangsOwnEndsInItsWords) {
  EXPECT_EQ(Stream(Surface::kGenerate, {RawChunk{"{\"text\":\"a\"}", ""}, Finish{}, Done{}}),
            "data: {\"text\":\"a\"}\n\ndata: [DONE]\n\n");
  const std::string failed = Stream(Surface::kGenerate, {Failed{{Code::kUnavailable, "gone"}}});
  EXPECT_THAT(failed, ::testing::StartsWith("data: {\"error\":{\"message\":\"gone\""));
  EXPECT_THAT(failed, ::testing::Not(HasSubstr("DONE")));
}

TEST(DecodePassedRequest, ReadsOfSglangsOwnHowManyAnswersThereWillBe) {
  const std::tuple<const char*, size_t, int> kCases[] = {
      {R"({"text":"a"})", 1, 1},
      {R"({"text":["a","b"]})", 2, 1},
      {R"({"input_ids":[1,2,3]})", 1, 1},
      {R"({"input_ids":[[1,2],[3]],"sampling_params":{"n":3}})", 2, 3},
      {R"({"text":["a","b"],"sampling_params":[{"n":2},{"n":2}]})", 2, 2},
      {R"({"text":null,"input_embeds":[[0.5],[1]]})", 1, 1},
      {R"({"input_embeds":[[[0.5],[1]],[[2]]]})", 2, 1},
  };
  for (const auto& [document, prompts, n] : kCases) {
    const auto turn = DecodePassedRequest(*ParseJson(document), Surface::kGenerate);
    ASSERT_TRUE(turn) << document << turn.error().detail;
    EXPECT_EQ(turn->prompts.size(), prompts) << document;
    EXPECT_EQ(turn->n, n) << document;
  }
  const auto turn = DecodePassedRequest(
      *ParseJson(R"({"text":"a","stream":true,"extra_key":"s","frob":1})"), Surface::kGenerate);
  ASSERT_TRUE(turn);
  EXPECT_TRUE(turn->stream);
  EXPECT_EQ(turn->cache_salt, "s");
  for (const char* wrong : {"{}", R"({"prompt":"a"})", R"({"text":"a","stream":1})",
                            R"({"text":"a","sampling_params":{"n":0}})",
                            R"({"text":"a","sampling_params":{"n":129}})"}) {
    EXPECT_FALSE(DecodePassedRequest(*ParseJson(wrong), Surface::kGenerate)) << wrong;
  }
  std::string many = R"({"text":["a")";
  for (size_t i = 0; i < limits::kPromptsMax; ++i) {
    many += R"(,"a")";
  }
  EXPECT_FALSE(DecodePassedRequest(*ParseJson(many + "]}"), Surface::kGenerate));
}

TEST(ErrorBody, SpeaksTheDialectOfTheSurface) {
  EXPECT_EQ(ErrorBody(Surface::kMessages, {Code::kNotFound, "no"}, 404, "r"),
            R"({"type":"error","error":{"type":"not_found_error","message":"no"},)"
            R"("request_id":"r"})");
  EXPECT_EQ(ErrorBody(Surface::kResponses, {Code::kNotFound, "no"}, 404, "r"),
            R"({"error":{"message":"no","type":"NotFoundError","param":null,"code":"not_found"}})");
}

}  // namespace
}  // namespace fak::wire
