#include "perf/route_trace.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fak::perf {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Line(int at_ms, int prompt, int output, const std::string& ids) {
  return "{\"timestamp\": " + std::to_string(at_ms) +
         ", \"input_length\": " + std::to_string(prompt) +
         ", \"output_length\": " + std::to_string(output) + ", \"hash_ids\": [" + ids + "]}\n";
}

TEST(ParseRouteTrace, ReadsMooncake) {
  const auto trace =
      ParseRouteTrace(Line(3000, 513, 7, "4, 5") + "\n" + Line(4500, 512, 0, "4"), "t.jsonl");
  ASSERT_TRUE(trace) << trace.error().detail;
  ASSERT_EQ(trace->requests.size(), 2u);
  const TraceRequest& first = trace->requests[0];
  EXPECT_EQ(first.at_us, 0);
  EXPECT_EQ(first.prompt_tokens, 513);
  EXPECT_EQ(first.output_tokens, 7);
  ASSERT_EQ(first.keys.size(), 2u);
  const TraceRequest& second = trace->requests[1];
  EXPECT_EQ(second.at_us, 1'500'000);
  EXPECT_EQ(second.output_tokens, 1);
  EXPECT_EQ(second.keys[0], first.keys[0]);
  EXPECT_EQ(trace->duration_us(), 1'500'000);
  EXPECT_EQ(trace->prompt_tokens(), 1025);
  EXPECT_EQ(trace->new_tokens(), 514);  // all of the first, and the second's last
}

TEST(ParseRouteTrace, TakesABlockForAllBeforeItToo) {
  const auto trace =
      ParseRouteTrace(Line(0, 1024, 1, "1, 9") + Line(0, 1024, 1, "2, 9"), "t.jsonl");
  ASSERT_TRUE(trace);
  EXPECT_NE(trace->requests[0].keys[1], trace->requests[1].keys[1]);
}

TEST(ParseRouteTrace, ReadsAzureAndSharesNothing) {
  const auto trace = ParseRouteTrace(
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
      "2023-11-16 23:59:59.5000000,600,44\r\n"
      "2023-11-17 00:00:01,600,1\r\n",
      "t.csv");
  ASSERT_TRUE(trace) << trace.error().detail;
  ASSERT_EQ(trace->requests.size(), 2u);
  EXPECT_EQ(trace->requests[1].at_us, 1'500'000);
  EXPECT_EQ(trace->requests[0].keys.size(), 2u);
  EXPECT_EQ(trace->new_tokens(), 1200);
  EXPECT_NE(trace->requests[0].session, trace->requests[1].session);
}

TEST(ParseRouteTrace, PutsRequestsInOrder) {
  const auto trace = ParseRouteTrace(Line(2000, 20, 1, "1") + Line(1000, 10, 1, "2"), "t.jsonl");
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->requests[0].prompt_tokens, 10);
  EXPECT_EQ(trace->requests[1].at_us, 1'000'000);
}

TEST(ParseRouteTrace, TakesWhatGoesOnForOneSession) {
  const auto trace = ParseRouteTrace(
      Line(0, 1024, 1, "0, 1") + Line(1, 1024, 1, "0, 2") + Line(2, 1536, 1, "0, 2, 3"), "t");
  ASSERT_TRUE(trace);
  EXPECT_NE(trace->requests[0].session, trace->requests[1].session);
  EXPECT_EQ(trace->requests[1].session, trace->requests[2].session);
}

TEST(ParseRouteTrace, SaysWhereItIsWrong) {
  const std::string azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  const std::string good = Line(0, 10, 1, "1");
  const std::pair<std::string, std::string> kCases[] = {
      {"", "t: has no request"},
      {"\n\nhello\n", "t:3: is neither a Mooncake trace"},
      {good + "{\n", "t:2: "},
      {good + "{}\n", "t:2: needs timestamp, an integer"},
      {good + "{\"timestamp\":1,\"input_length\":\"a\"}", "t:2: needs input_length"},
      {Line(0, 0, 1, ""), "t:1: a prompt has 1 to "},
      {Line(0, 10, -1, "1"), "t:1: a prompt has 1 to "},
      {Line(-1, 10, 1, "1"), "t:1: timestamp is in milliseconds"},
      {Line(0, 513, 1, "1"), "t:1: hash_ids has 1 blocks, but 513 tokens are 2 of 512"},
      {Line(0, 10, 1, "\"a\""), "t:1: hash_ids must be integers"},
      {azure + "2023-11-16 18:15:46,1\n", "t:2: must be TIMESTAMP,"},
      {azure + "2023-13-16 18:15:46,1,1\n", "t:2: the time must be like "},
      {azure + "2023-02-29 18:15:46,1,1\n", "t:2: the time must be like "},
      {azure + "2023-11-16 18:15:46,1,x\n", "t:2: the numbers of tokens must be integers"},
      {azure + "2023-11-16 18:15:46,99999999,1\n", "t:2: a prompt has 1 to "},
  };
  for (const auto& [text, said] : kCases) {
    const auto trace = ParseRouteTrace(text, "t");
    ASSERT_FALSE(trace) << text;
    EXPECT_EQ(trace.error().code, Code::kInvalidArgument);
    EXPECT_THAT(trace.error().detail, StartsWith(said)) << text;
  }
}

TEST(ReadRouteTrace, NamesTheFileThatIsNotThere) {
  const auto trace = ReadRouteTrace("/nonexistent.jsonl");
  ASSERT_FALSE(trace);
  EXPECT_THAT(trace.error().detail, HasSubstr("/nonexistent.jsonl"));
}

}  // namespace
}  // namespace fak::perf
