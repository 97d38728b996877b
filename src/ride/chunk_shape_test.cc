#include "ride/chunk_shape.h"

#include <gtest/gtest.h>

namespace fak::ride {
namespace {

constexpr std::string_view kFirst = R"({"id":"x","choices":[{"delta":{"content":" to"}}]})";

TEST(ChunkShape, KnowsTheNextChunkByAllButItsText) {
  ChunkShape shape;
  EXPECT_EQ(shape.TextOf(kFirst), std::nullopt);
  shape.Learn(kFirst, " to");
  EXPECT_EQ(shape.TextOf(kFirst), " to");
  EXPECT_EQ(shape.TextOf(R"({"id":"x","choices":[{"delta":{"content":"h\u00e9"}}]})"),
            std::nullopt);
  EXPECT_EQ(shape.TextOf("{\"id\":\"x\",\"choices\":[{\"delta\":{\"content\":\"h\xc3\xa9\"}}]}"),
            "h\xc3\xa9");
}

TEST(ChunkShape, LeavesWhatMayBeAnotherDocumentToTheParser) {
  ChunkShape shape;
  shape.Learn(kFirst, " to");
  for (const std::string_view other : {
           R"({"id":"y","choices":[{"delta":{"content":" to"}}]})",
           R"({"id":"x","choices":[{"delta":{"content":" to"}}]} )",
           R"({"id":"x","choices":[{"delta":{"content":""}}]})",
           R"({"id":"x","choices":[{"delta":{"content":"a","b":"c"}}]})",
           R"({"id":"x","choices":[{"delta":{"content":"a\nb"}}]})",
           R"({"id":"x","choices":[{"delta":{"content":"\"}}]})",
           "{\"id\":\"x\",\"choices\":[{\"delta\":{\"content\":\"a\nb\"}}]}",
           "{\"id\":\"x\",\"choices\":[{\"delta\":{\"content\":\"\xc3\"}}]}",
           R"({"id":"x","choices":[{"delta":{"content":"}}]})",
           "",
       }) {
    EXPECT_EQ(shape.TextOf(other), std::nullopt) << other;
  }
}

// At every place in texts of every length, beside what is looked at with it.
TEST(ChunkShape, SeesEveryByteThatNeedsAnEscapeOrIsNoText) {
  for (size_t size = 1; size <= 20; ++size) {
    for (size_t at = 0; at < size; ++at) {
      for (int byte = 0; byte < 256; ++byte) {
        ChunkShape shape;
        shape.Learn(kFirst, " to");
        std::string text(size, at % 2 == 0 ? '!' : '~');
        text[at] = static_cast<char>(byte);
        const bool plain = byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
        const std::string raw = R"({"id":"x","choices":[{"delta":{"content":")" + text + R"("}}]})";
        ASSERT_EQ(shape.TextOf(raw).has_value(), plain) << size << " " << at << " " << byte;
      }
    }
  }
}

TEST(ChunkShape, LearnsNothingWhereTheTextsPlaceIsInDoubt) {
  for (const auto& [raw, text] : {
           std::pair<std::string_view, std::string_view>{R"({"a":"x","content":"x"})", "x"},
           {R"({"x":1,"content":"x"})", "x"},
           {R"({"a":":","content":":"})", ":"},
           {R"({"a":"\\","content":"x"})", "x"},
           {R"({"content":"x\ny"})", "x\ny"},
           {R"({"content":""})", ""},
       }) {
    ChunkShape shape;
    shape.Learn(raw, text);
    EXPECT_EQ(shape.TextOf(raw), std::nullopt) << raw;
  }
}

TEST(ChunkShape, GivesUpOnAStreamWhoseChunksAlwaysDiffer) {
  ChunkShape shape;
  const auto chunk = [](int i) { return "{\"i\":" + std::to_string(i) + ",\"content\":\"a\"}"; };
  for (int i = 0; i < 8; ++i) {
    shape.Learn(chunk(i), "a");
    ASSERT_NE(shape.TextOf(chunk(i)), std::nullopt);  // which earns it another time
  }
  for (int i = 0; i < 8; ++i) {
    shape.Learn(chunk(i), "a");
  }
  shape.Learn(chunk(99), "a");
  EXPECT_EQ(shape.TextOf(chunk(99)), std::nullopt);
  EXPECT_NE(shape.TextOf(chunk(7)), std::nullopt);
}

}  // namespace
}  // namespace fak::ride
