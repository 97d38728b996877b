#include "wire/http_body.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace fak::wire {
namespace {

struct Decoded {
  std::string content;
  std::string rest;  // bytes behind the message
  bool done = false;
  std::string error;
};

// Feeds the bytes in pieces of `step`.
Decoded Decode(HttpBodyDecoder decoder, std::string_view bytes, size_t step) {
  Decoded out;
  while (!bytes.empty() && !decoder.done()) {
    const std::string_view piece = bytes.substr(0, step);
    const auto used = decoder.Feed(piece, [&out](std::string_view part) { out.content += part; });
    if (!used) {
      out.error = used.error().detail;
      return out;
    }
    bytes.remove_prefix(*used);
    if (*used < piece.size()) {
      break;
    }
  }
  out.rest = bytes;
  out.done = decoder.done();
  return out;
}

HttpBodyDecoder Chunked(uint64_t bytes_max = UINT64_MAX) {
  return HttpBodyDecoder(HttpFraming::kChunked, 0, bytes_max);
}

TEST(HttpBodyDecoder, TakesChunksApartAtEveryCut) {
  const std::string bytes =
      "5\r\nhello\r\n00A;name=\"v\"\r\n0123456789\r\n0\r\nX-Trailer: 1\r\n\r\nGET /";
  for (size_t step = 1; step <= bytes.size(); ++step) {
    const Decoded out = Decode(Chunked(), bytes, step);
    EXPECT_EQ(out.error, "");
    EXPECT_EQ(out.content, "hello0123456789");
    EXPECT_EQ(out.rest, "GET /") << "step " << step;
    EXPECT_TRUE(out.done);
  }
}

// RFC 9112 7.1.1: nobody should write them, and everybody must take them.
TEST(HttpBodyDecoder, TakesBlanksBeforeAnExtension) {
  for (const std::string_view line :
       {"5 ;a=b", "5\t;a", "5 \t ; a = b", "5;a ; b", "05  ;a=\"; \""}) {
    const std::string bytes = std::string(line) + "\r\nhello\r\n0 ;x\r\n\r\nGET /";
    for (size_t step = 1; step <= bytes.size(); ++step) {
      const Decoded out = Decode(Chunked(), bytes, step);
      EXPECT_EQ(out.error, "") << line;
      EXPECT_EQ(out.content, "hello") << line;
      EXPECT_EQ(out.rest, "GET /") << line;
    }
  }
}

TEST(HttpBodyDecoder, StopsBehindALength) {
  for (size_t step = 1; step <= 8; ++step) {
    const Decoded out = Decode(HttpBodyDecoder(HttpFraming::kLength, 4), "abcdGET", step);
    EXPECT_EQ(out.content, "abcd");
    EXPECT_EQ(out.rest, "GET");
    EXPECT_TRUE(out.done);
  }
  EXPECT_TRUE(HttpBodyDecoder(HttpFraming::kLength, 0).done());
  EXPECT_TRUE(HttpBodyDecoder().done());
}

TEST(HttpBodyDecoder, ReadsUntilClose) {
  HttpBodyDecoder decoder(HttpFraming::kUntilClose, 0);
  std::string content;
  EXPECT_EQ(*decoder.Feed("abc", [&content](std::string_view part) { content += part; }), 3u);
  EXPECT_FALSE(decoder.done());
  EXPECT_TRUE(decoder.Finish());
  EXPECT_TRUE(decoder.done());
}

TEST(HttpBodyDecoder, AnEarlyCloseIsAnError) {
  for (const std::string_view bytes : {"", "5", "5\r\nhel", "5\r\nhello\r\n", "0\r\n", "0\r\n\r"}) {
    HttpBodyDecoder decoder = Chunked();
    ASSERT_TRUE(decoder.Feed(bytes, [](std::string_view) {}));
    const Status finished = decoder.Finish();
    ASSERT_FALSE(finished) << bytes;
    EXPECT_EQ(finished.error().code, Code::kUpstreamError);
  }
  EXPECT_FALSE(HttpBodyDecoder(HttpFraming::kLength, 1).Finish());
}

TEST(HttpBodyDecoder, RefusesShapesThatParsersReadDifferently) {
  const std::string cases[] = {
      "\r\n",                            // no size
      "g\r\n",                           // not hexadecimal
      "0x5\r\nhello\r\n",                // prefix
      "+5\r\nhello\r\n",                 // sign
      "-1\r\n",                          //
      " 5\r\nhello\r\n",                 // blank before
      "5 \r\nhello\r\n",                 // blank behind
      "5\t\r\nhello\r\n",                //
      "5 5;a\r\nhello\r\n",              //
      "5 \n;a\r\nhello\r\n",             //
      "5\nhello\n",                      // bare LF
      "5\r\r\nhello\r\n",                // bare CR
      "5;a\nb\r\nhello\r\n",             // bare LF in an extension
      std::string("5;\0\r\nhello", 10),  // NUL
      "5\r\nhelloX\r\n",                 // longer than its size
      "5\r\nhello\n",                    // no CR
      "8000000000000000\r\n",            // 2^63
      "FFFFFFFFFFFFFFFF\r\n",
      "00000000000000005\r\nhello",  // 17 digits
      "0\r\nA: b\n\r\n",             // bare LF in a trailer
      "0\r\n\n",
      "0\r\nA: \x01\r\n\r\n",
  };
  for (const std::string& bytes : cases) {
    for (const size_t step : {size_t{1}, bytes.size()}) {
      const Decoded out = Decode(Chunked(), bytes, step);
      EXPECT_NE(out.error, "") << testing::PrintToString(bytes) << " was taken";
    }
  }
}

TEST(HttpBodyDecoder, BoundsContentAndExtras) {
  EXPECT_EQ(Decode(Chunked(5), "5\r\nhello\r\n0\r\n\r\n", 99).error, "");
  EXPECT_NE(Decode(Chunked(4), "5\r\n", 99).error, "") << "refused by the size line alone";
  EXPECT_NE(Decode(Chunked(9), "5\r\nhello\r\n5\r\nhello", 99).error, "");
  EXPECT_NE(Decode(HttpBodyDecoder(HttpFraming::kUntilClose, 0, 2), "abc", 99).error, "");
  const std::string extension = "1;" + std::string(limits::kHttpHeadBytesMax, 'x') + "\r\n";
  EXPECT_NE(Decode(Chunked(), extension, 4096).error, "");
  const std::string blanks = "1" + std::string(limits::kHttpHeadBytesMax + 1, ' ') + ";\r\n";
  EXPECT_NE(Decode(Chunked(), blanks, 4096).error, "");
  std::string many;  // more than the bound in all, and little beside what they come with
  for (size_t i = 0; i < limits::kHttpHeadBytesMax; ++i) {
    many += "5;s=1\r\nhello\r\n";
  }
  EXPECT_EQ(Decode(Chunked(), many + "0\r\n\r\n", 4096).error, "");
}

TEST(HttpChunk, RoundTripsThroughTheDecoder) {
  std::string bytes;
  AppendHttpChunk(bytes, "hello");
  AppendHttpChunk(bytes, "");
  AppendHttpChunk(bytes, std::string(300, 'x'));
  bytes += kHttpLastChunk;
  EXPECT_TRUE(bytes.starts_with("5\r\nhello\r\n12c\r\n"));
  const Decoded out = Decode(Chunked(), bytes, 7);
  EXPECT_EQ(out.content, "hello" + std::string(300, 'x'));
  EXPECT_TRUE(out.done);
}

}  // namespace
}  // namespace fak::wire
