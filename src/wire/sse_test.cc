#include "wire/sse.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/limits.h"

namespace fak::wire {
namespace {

// Events as "type|data|id".
std::vector<std::string> Split(std::string_view bytes, size_t step, bool finish = false) {
  SseSplitter splitter;
  std::vector<std::string> events;
  const auto on_event = [&events](const SseEvent& event) {
    std::string text(event.type);
    text += '|';
    text += event.data;
    text += '|';
    text += event.id;
    events.push_back(std::move(text));
  };
  for (; !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size()))) {
    // A copy of exactly the piece: a view kept too long is then seen by the address sanitizer.
    const std::string piece(bytes.substr(0, step));
    EXPECT_TRUE(splitter.Feed(piece, on_event));
  }
  if (finish) {
    splitter.Finish(on_event);
  }
  return events;
}

struct Case {
  std::string stream;
  std::vector<std::string> events;
};

TEST(SseSplitter, KeepsEventsWholeAtEveryCut) {
  const Case cases[] = {
      {"data: {\"a\":1}\n\ndata: [DONE]\n\n", {"|{\"a\":1}|", "|[DONE]|"}},
      {"data:{}\r\n\r\ndata:x\r\rdata: y\n\r\n", {"|{}|", "|x|", "|y|"}},
      {"event: ping\ndata: {}\nid: 7\n\ndata: z\n\n", {"ping|{}|7", "|z|"}},
      {"\xEF\xBB\xBF"
       "data: bom\n\n\xEF\xBB\xBF"
       "data: not at the start\n\n",
       {"|bom|"}},
      {": comment\n\n:\n\ndata: a\n: inside\ndata: b\n\n", {"|a\nb|"}},
      {"data\n\ndata:\n\ndata:\ndata:\n\n", {"||", "||", "|\n|"}},
      {"data:  two blanks\n\n", {"| two blanks|"}},
      {"event: only\n\nid: 1\n\ndata: x\n\n", {"|x|"}},
      {"retry: 10\nunknown: y\ndataset: z\ndata: w\n\n", {"|w|"}},
      {"data: caf\xC3\xA9 \xF0\x9F\x98\x80\n\n", {"|caf\xC3\xA9 \xF0\x9F\x98\x80|"}},
      {std::string("data: a\0b\nid: \0\n\n", 17), {std::string("|a\0b|", 5)}},
      {"\n\n\r\n\r\ndata: a\n\n", {"|a|"}},
      {"data: unfinished\n", {}},
  };
  for (const Case& c : cases) {
    for (size_t step = 1; step <= c.stream.size(); ++step) {
      EXPECT_EQ(Split(c.stream, step), c.events) << c.stream << " step " << step;
    }
  }
}

TEST(SseSplitter, HandsOutTheLastEventWithoutItsBlankLine) {
  for (const std::string_view stream :
       {"data: a\n\ndata: b", "data: a\n\ndata: b\n", "data: a\n\ndata: b\r"}) {
    for (size_t step = 1; step <= stream.size(); ++step) {
      EXPECT_EQ(Split(stream, step, /*finish=*/true), (std::vector<std::string>{"|a|", "|b|"}));
    }
  }
  EXPECT_EQ(Split("event: x\n", 3, /*finish=*/true), std::vector<std::string>());
}

TEST(SseSplitter, BoundsAnUnfinishedEvent) {
  const std::string megabyte(1 << 20, 'x');
  for (const std::string_view separator : {"", "\ndata: "}) {
    SseSplitter splitter;
    ASSERT_TRUE(splitter.Feed("data: ", [](const SseEvent&) {}));
    Status status;
    size_t fed = 0;
    for (; status && fed <= 2 * limits::kSseEventBytesMax; fed += megabyte.size()) {
      ASSERT_TRUE(splitter.Feed(separator, [](const SseEvent&) {}));
      status = splitter.Feed(megabyte, [](const SseEvent&) {});
    }
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kPayloadTooLarge);
    EXPECT_LE(fed, limits::kSseEventBytesMax + 2 * megabyte.size());
  }
}

TEST(SseJoiner, WritesWhatEveryClientReads) {
  std::string out;
  AppendSseData(out, "{\"a\":1}");
  out += kSseDone;
  AppendSseEvent(out, "ping", "{}");
  AppendSseComment(out, "alive\nforged: x");
  EXPECT_EQ(out, "data: {\"a\":1}\n\ndata: [DONE]\n\nevent: ping\ndata: {}\n\n: alive\n\n");
}

TEST(SseJoiner, RoundTripsLinesOfEveryKind) {
  for (const std::string_view data : {"", "a", "a\nb", "a\r\nb", "a\rb", "\n", "a\n"}) {
    std::string out;
    AppendSseEvent(out, "t", data);
    std::string expected(data);
    for (size_t at; (at = expected.find('\r')) != std::string::npos;) {
      expected.replace(at, expected.substr(at).starts_with("\r\n") ? 2 : 1, "\n");
    }
    EXPECT_EQ(Split(out, 1), std::vector<std::string>{"t|" + expected + "|"});
  }
}

}  // namespace
}  // namespace fak::wire
