#include "perf/serve_stream.h"

#include <string>

#include <gtest/gtest.h>

namespace fak::perf {
namespace {

std::string Delta(const std::string& text) {
  return R"(data: {"choices":[{"index":0,"delta":{"content":")" + text +
         R"("},"finish_reason":null}]})" + "\n\n";
}
const std::string kRole =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
const std::string kFinish =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n";
const std::string kUsage =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3,"
    "\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n";
const std::string kDone = "data: [DONE]\n\n";

constexpr ServeAsked kAsked = {.output_tokens = 4, .prompt_bytes = 20};

ServeRecord Read(const std::string& body) {
  ServeRecord record;
  ServeStream stream(record, kAsked);
  stream.Feed(body, 5);
  stream.Finish(9);
  return record;
}

TEST(ServeStream, TimesChunksWithContentAlone) {
  ServeRecord record;
  ServeStream stream(record, kAsked);
  stream.Feed(kRole, 10);
  stream.Feed(Delta("a"), 20);
  stream.Feed(Delta("b").substr(0, 9), 30);
  stream.Feed(Delta("b").substr(9) + kFinish, 40);
  stream.Feed(kUsage + kDone, 50);
  stream.Finish(60);
  EXPECT_EQ(record.fault, ServeFault::kNone) << record.why;
  EXPECT_EQ(record.chunks_ns, (std::vector<int64_t>{20, 40}));
  EXPECT_EQ(record.done_ns, 60);
  EXPECT_EQ(record.finish, "length");
  EXPECT_EQ(record.prompt_tokens, 7);
  EXPECT_EQ(record.tokens(), 3);
  EXPECT_EQ(record.cached_tokens, 4);
}

TEST(ServeStream, ReadsCompletionsAndReasoningToo) {
  const ServeRecord completion =
      Read("data: {\"choices\":[{\"text\":\"hi\",\"finish_reason\":\"stop\"}]}\n\n" + kDone);
  EXPECT_EQ(completion.fault, ServeFault::kNone);
  EXPECT_EQ(completion.tokens(), 1) << "chunks count where there is no usage";
  const ServeRecord reasoning =
      Read("data: {\"choices\":[{\"delta\":{\"content\":null,\"reasoning_content\":\"hm\"}}]}\n\n" +
           kFinish);
  EXPECT_EQ(reasoning.chunks_ns.size(), 1u);
}

TEST(ServeStream, SameTextHasTheSameHashHoweverItWasCut) {
  const ServeRecord one = Read(Delta("ab") + Delta("c") + kFinish);
  const ServeRecord other = Read(Delta("a") + Delta("bc") + kFinish);
  EXPECT_EQ(one.text_sha256, other.text_sha256);
  EXPECT_NE(one.text_sha256, Read(Delta("abd") + kFinish).text_sha256);
}

TEST(ServeStream, WhatIsNotWholeIsAFault) {
  EXPECT_EQ(Read(Delta("a") + kDone).fault, ServeFault::kCutShort);
  EXPECT_EQ(Read(Delta("a")).fault, ServeFault::kCutShort);
  EXPECT_EQ(Read(kRole + kFinish + kDone).fault, ServeFault::kEmpty);
  EXPECT_EQ(Read("").fault, ServeFault::kCutShort);
}

TEST(ServeStream, AnErrorUnder200IsAFault) {
  const ServeRecord record =
      Read(Delta("a") + "data: {\"error\":{\"message\":\"boom\"}}\n\n" + kFinish);
  EXPECT_EQ(record.fault, ServeFault::kErrorFrame);
  EXPECT_EQ(record.why, "boom");
  EXPECT_EQ(record.chunks_ns.size(), 1u) << "what came before it stays";
}

std::string Usage(int64_t prompt, int64_t output, int64_t cached) {
  return "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":" + std::to_string(prompt) +
         ",\"completion_tokens\":" + std::to_string(output) +
         ",\"prompt_tokens_details\":{\"cached_tokens\":" + std::to_string(cached) + "}}}\n\n";
}

TEST(ServeStream, AUsageThatCannotBeTrueIsAFault) {
  const auto read = [](int64_t prompt, int64_t output, int64_t cached) {
    return Read(Delta("five.") + kFinish + Usage(prompt, output, cached) + kDone);
  };
  EXPECT_EQ(read(7, 4, 7).fault, ServeFault::kNone);
  EXPECT_EQ(read(7, 5, 0).fault, ServeFault::kNone) << "more than was asked for, and the text too";
  for (const ServeRecord& record :
       {read(7, 2147483647, 0), read(7, 6, 0), read(2147483647, 4, 0), read(7, 4, 8)}) {
    EXPECT_EQ(record.fault, ServeFault::kImpossible) << record.why;
  }
  EXPECT_EQ(ServeFaultName(ServeFault::kImpossible), "usage_impossible");
  EXPECT_EQ(ServeFaultName(ServeFault::kCancelled), "cancelled");
  EXPECT_EQ(read(7, 2147483647, 0).why,
            "its usage says 2147483647 output tokens, for a text of 5 bytes; 4 were asked for");
}

TEST(ServeStream, NonsenseIsAFault) {
  EXPECT_EQ(Read("data: {oops\n\n").fault, ServeFault::kNonsense);
  EXPECT_EQ(Read("data: [1,2]\n\n").fault, ServeFault::kNonsense);
  EXPECT_EQ(Read("<html>hello</html>").fault, ServeFault::kCutShort);
}

}  // namespace
}  // namespace fak::perf
