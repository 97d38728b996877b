#include "ride/upstream_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fak::ride {
namespace {

using ::testing::HasSubstr;

TEST(UpstreamError, NeverQuotesOurKey) {
  const std::string key = "sk-a/b\"c";
  const std::string quoted = R"(sk-a\/b\"c)";
  const auto clean = [&](const Error& error) {
    EXPECT_THAT(error.detail + error.field, ::testing::Not(HasSubstr("sk-a"))) << error.detail;
    EXPECT_THAT(error.detail + error.field, HasSubstr("[red"));
  };
  for (const int status : {400, 401, 422, 500, 503}) {
    clean(UpstreamError(status, R"({"error":{"message":"no key )" + quoted + R"( here"}})", key));
    clean(UpstreamError(status, R"({"error":"Bearer sk-a/b\"c is unknown"})", key));
    clean(UpstreamError(status, R"({"why":")" + quoted + R"("})", key));  // its first bytes
    clean(UpstreamError(status, "you sent " + key, key));
    // In the cut of what is shown.
    clean(UpstreamError(status, std::string(195, '.') + key, key));
  }
  clean(UpstreamError(400, R"({"message":"bad","param":")" + quoted + "\"}", key));
  const std::string frame = R"({"error":{"message":"key )" + quoted + R"("}})";
  clean(ErrorUnder200(*ParseJson(frame), frame, key));
  EXPECT_EQ(UpstreamError(400, R"({"message":"a k"})", "k").detail, "a k");  // hides nothing
}

// Bodies as the engines were seen to send them, or as their sources have them.
TEST(UpstreamError, ReadsTheShapeOfEveryEngine) {
  struct Case {
    int status;
    const char* body;
    Code code;
    int shown;  // upstream_status
    const char* detail;
    const char* field;
  };
  const Case kCases[] = {
      // vLLM
      {400,
       R"({"error":{"message":"max_tokens must be at least 1, got -1.","type":"BadRequestError",)"
       R"("param":"max_tokens","code":400}})",
       Code::kUpstreamError, 400, "max_tokens must be at least 1, got -1.", "max_tokens"},
      {400,
       R"({"error":{"message":"This model's maximum context length is 2048 tokens.",)"
       R"("type":"BadRequestError","param":"input_tokens","code":400}})",
       Code::kContextTooLong, 400, "This model's maximum context length is 2048 tokens.",
       "input_tokens"},
      {503, R"({"error":{"message":"busy","type":"Service Unavailable","code":503}})",
       Code::kUnavailable, 0, "the upstream answered 503: busy", ""},
      {401, R"({"error":"Unauthorized"})", Code::kUpstreamError, 0,
       "the upstream answered 401: Unauthorized", ""},
      {404, R"({"detail":"Not Found"})", Code::kUnsupported, 0,
       "the upstream answered 404: Not Found", ""},
      // SGLang
      {400,
       R"({"object":"error","message":"bad n","type":"BadRequestError","param":"n","code":400})",
       Code::kUpstreamError, 400, "bad n", "n"},
      // llama.cpp
      {400,
       R"({"error":{"code":400,"message":"too long","type":"exceed_context_size_error",)"
       R"("n_prompt_tokens":9000,"n_ctx":2048}})",
       Code::kContextTooLong, 400, "too long", ""},
      {503, R"({"error":{"message":"Loading model","type":"unavailable_error","code":503}})",
       Code::kUnavailable, 0, "the upstream answered 503: Loading model", ""},
      // Dynamo
      {400,
       R"({"message":"Validation: Unsupported parameter(s): `foo`","type":"Bad Request","code":400})",
       Code::kUpstreamError, 400, "Validation: Unsupported parameter(s): `foo`", ""},
      {529, R"({"message":"Service temporarily overloaded","type":"Overloaded","code":529})",
       Code::kUnavailable, 0, "the upstream answered 529: Service temporarily overloaded", ""},
      // mlx-lm
      {400, R"({"error": "temperature must be at least 0"})", Code::kUpstreamError, 400,
       "temperature must be at least 0", ""},
      // Anthropic
      {429, R"({"type":"error","error":{"type":"rate_limit_error","message":"slow down"}})",
       Code::kRateLimited, 429, "slow down", ""},
      // FastAPI
      {422,
       R"({"detail":[{"loc":["body","messages",0,"role"],"msg":"Field required","type":"missing"}]})",
       Code::kUpstreamError, 422, "Field required", "messages.0.role"},
      {500, "", Code::kUpstreamError, 0, "the upstream answered 500", ""},
      {504, "<html>", Code::kDeadlineExceeded, 0, "the upstream answered 504: <html>", ""},
      {302, "", Code::kUpstreamError, 0, "the upstream answered 302", ""},
  };
  for (const Case& each : kCases) {
    const Error error = UpstreamError(each.status, each.body);
    EXPECT_EQ(error.code, each.code) << each.body;
    EXPECT_EQ(error.upstream_status, each.shown) << each.body;
    EXPECT_EQ(error.detail, each.detail) << each.body;
    EXPECT_EQ(error.field, each.field) << each.body;
  }
}

TEST(UpstreamError, ReadsWhetherAPathOrAModelIsAbsent) {
  const auto code = [](const char* body) { return UpstreamError(404, body).code; };
  EXPECT_EQ(code(R"({"error":{"message":"The model `x` does not exist.",)"
                 R"("type":"NotFoundError","param":"model","code":404}})"),
            Code::kNotFound)
      << "vLLM";
  EXPECT_EQ(code(R"({"error":{"message":"no x","type":"invalid_request_error","param":null,)"
                 R"("code":"model_not_found"}})"),
            Code::kNotFound)
      << "OpenAI";
  EXPECT_EQ(code(R"({"detail":"Not Found"})"), Code::kUnsupported);
  EXPECT_EQ(code("<html>"), Code::kUnsupported);
}

TEST(UpstreamError, KeepsTheCodeThatAnotherFakGives) {
  const std::pair<Code, int> kOwn[] = {
      {Code::kInvalidArgument, 400}, {Code::kInvalidArgument, 405},
      {Code::kUnsupported, 400},     {Code::kUnsupported, 415},
      {Code::kContextTooLong, 400},  {Code::kNotFound, 404},
      {Code::kAlreadyExists, 409},   {Code::kPayloadTooLarge, 413},
      {Code::kRateLimited, 429},     {Code::kResourceExhausted, 503},
      {Code::kUnavailable, 503},     {Code::kDeadlineExceeded, 504},
  };
  for (const auto& [code, status] : kOwn) {
    const std::string body = R"({"error":{"message":"so","type":"T","param":"f","code":")" +
                             std::string(CodeName(code)) + "\"}}";
    const Error error = UpstreamError(status, body);
    EXPECT_EQ(error.code, code) << status;
    EXPECT_EQ(error.upstream_status, status < 500 ? status : 0) << body;
    EXPECT_EQ(error.field, "f");
  }
  // A code that doesn't fit its status says nothing: who is at fault decides about retries.
  EXPECT_EQ(UpstreamError(500, R"({"error":{"message":"x","code":"invalid_argument"}})").code,
            Code::kUpstreamError);
  EXPECT_EQ(UpstreamError(401, R"({"error":{"message":"x","code":"unsupported"}})").code,
            Code::kUpstreamError);
  EXPECT_EQ(UpstreamError(400, R"({"error":{"message":"x","code":"unavailable"}})").code,
            Code::kUpstreamError);
}

TEST(UpstreamError, ShowsNoMoreThanTheBeginningOfWhatItCantRead) {
  EXPECT_LT(UpstreamError(500, std::string(100'000, 'x')).detail.size(), 300u);
  EXPECT_THAT(UpstreamError(500, "\xff\xfe").detail, HasSubstr("\xef\xbf\xbd"));
}

TEST(ErrorUnder200, TakesTheStatusThatTheFrameNames) {
  const auto read = [](const char* text) {
    const Json document = *ParseJson(text);
    EXPECT_TRUE(IsErrorDocument(AnswerDocument(document))) << text;
    return ErrorUnder200(document, text);
  };
  EXPECT_EQ(read(R"({"error":{"message":"Service temporarily unavailable","code":503}})").code,
            Code::kUnavailable);
  EXPECT_EQ(read(R"({"error":{"message":"Request deadline exceeded","code":504}})").code,
            Code::kDeadlineExceeded);
  EXPECT_EQ(read(R"({"error":{"message":"EngineCore died","code":500}})").code,
            Code::kUpstreamError);
  EXPECT_EQ(read(R"({"type":"error","error":{"type":"overloaded_error","message":"x"}})").code,
            Code::kUnavailable);
  EXPECT_EQ(read(R"({"object":"error","message":"flat","code":400})").upstream_status, 400);
  EXPECT_EQ(read(R"({"error":{"message":"late","code":"deadline_exceeded"}})").code,
            Code::kDeadlineExceeded);
  EXPECT_EQ(read(R"({"error":{"message":"x","code":"cancelled"}})").code, Code::kUpstreamError);
  EXPECT_EQ(read(R"({"error":"text"})").detail, "the upstream reported an error: text");
}

TEST(IsErrorDocument, TakesAnswersForWhatTheyAre) {
  for (const char* text : {R"({"error":null,"choices":[]})", R"({"object":"response","error":{}})",
                           R"({"type":"message"})", "{}", "[]", "3"}) {
    EXPECT_FALSE(IsErrorDocument(AnswerDocument(*ParseJson(text)))) << text;
  }
}

}  // namespace
}  // namespace fak::ride
