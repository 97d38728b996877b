#include "net/http_head.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace fak::net {
namespace {

using wire::HttpFraming;

TEST(HeadFinder, FindsTheBlankLineAtEveryCut) {
  const std::string head = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  for (size_t cut = 0; cut < head.size(); ++cut) {
    HeadFinder finder;
    EXPECT_EQ(*finder.Find(head.substr(0, cut)), 0u);
    EXPECT_EQ(*finder.Find(head + "body"), head.size()) << cut;
  }
  EXPECT_FALSE(HeadFinder().Find("GET / HTTP/1.1\nHost: a\r\n"));
  EXPECT_FALSE(HeadFinder().Find("\n"));
}

TEST(RequestHead, ReadsWhatClientsSend) {
  const auto head = ParseRequestHead(
      "POST /v1/chat?x=1 HTTP/1.1\r\nHost: a:8000\r\ncontent-LENGTH:  12 \r\nX-Empty:\r\n"
      "Expect: 100-Continue\r\n\r\n");
  ASSERT_TRUE(head) << head.error().error.detail;
  EXPECT_EQ(head->request.method, "POST");
  EXPECT_EQ(head->request.path(), "/v1/chat");
  EXPECT_EQ(head->request.query(), "x=1");
  EXPECT_EQ(head->request.headers.Get("X-Empty"), "");
  EXPECT_EQ(head->framing, HttpFraming::kLength);
  EXPECT_EQ(head->length, 12u);
  EXPECT_TRUE(head->expects_continue);
  EXPECT_TRUE(head->keep_alive);
}

TEST(RequestHead, KnowsWhenAConnectionEnds) {
  const auto keeps = [](std::string_view version, std::string_view connection) {
    return ParseRequestHead("GET / HTTP/" + std::string(version) +
                            "\r\nHost: a\r\nConnection: " + std::string(connection) + "\r\n\r\n")
        ->keep_alive;
  };
  EXPECT_TRUE(keeps("1.1", "keep-alive"));
  EXPECT_TRUE(keeps("1.1", "x"));
  EXPECT_FALSE(keeps("1.1", "x, CLOSE"));
  EXPECT_FALSE(keeps("1.0", "x"));
  EXPECT_TRUE(keeps("1.0", "Keep-Alive"));
  EXPECT_FALSE(keeps("1.0", "keep-alive, close"));
}

TEST(RequestHead, BringsTargetsIntoOriginForm) {
  const auto target = [](std::string_view line) {
    const auto head = ParseRequestHead(std::string(line) + " HTTP/1.1\r\nHost: a\r\n\r\n");
    return head ? head->request.target : "refused " + std::to_string(head.error().status);
  };
  EXPECT_EQ(target("GET /a//b?c"), "/a//b?c");
  EXPECT_EQ(target("GET http://h:1/a?b"), "/a?b");
  EXPECT_EQ(target("GET HTTPS://h?b"), "/?b");
  EXPECT_EQ(target("GET http://h"), "/");
  EXPECT_EQ(target("OPTIONS *"), "*");
  EXPECT_EQ(target("GET *"), "refused 400");
  EXPECT_EQ(target("GET a"), "refused 400");
  EXPECT_EQ(target("GET ftp://h/"), "refused 400");
  EXPECT_EQ(target("CONNECT h:1"), "refused 501");
  EXPECT_EQ(target("GET /\xC3\xA9"), "refused 400");
}

struct BadHead {
  std::string head;  // without the blank line
  int status;
};

TEST(RequestHead, RefusesShapesThatServersReadDifferently) {
  const std::string start = "POST / HTTP/1.1\r\nHost: a\r\n";
  const BadHead cases[] = {
      {start + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", 400},
      {start + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n", 400},
      {start + "Transfer-Encoding: identity\r\nContent-Length: 1\r\n", 400},
      {start + "Content-Length: 1\r\nContent-Length: 1\r\n", 400},
      {start + "Content-Length: 1\r\nContent-Length: 2\r\n", 400},
      {start + "Content-Length: 1, 1\r\n", 400},
      {start + "Content-Length: +1\r\n", 400},
      {start + "Content-Length: -1\r\n", 400},
      {start + "Content-Length: 0x1\r\n", 400},
      {start + "Content-Length: 1 2\r\n", 400},
      {start + "Content-Length:\r\n", 400},
      {start + "Content-Length: 9223372036854775808\r\n", 400},
      {start + "Content-Length: 99999999999999999999\r\n", 400},
      {start + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400},
      {start + "Transfer-Encoding: gzip, chunked\r\n", 501},
      {start + "Transfer-Encoding: chunked, chunked\r\n", 501},
      {start + "Transfer-Encoding: chunked, identity\r\n", 501},
      {start + "Transfer-Encoding: xchunked\r\n", 501},
      {start + "Transfer-Encoding: \"chunked\"\r\n", 501},
      {start + "Transfer-Encoding : chunked\r\n", 400},
      {start + "Transfer-Encoding\t: chunked\r\n", 400},
      {start + "X: a\r\n Transfer-Encoding: chunked\r\n", 400},
      {start + "X: a\r\n\tb\r\n", 400},
      {start + " Content-Length: 1\r\n", 400},
      {start + "X: a\rContent-Length: 1\r\n", 400},
      {start + "X: a\x0b\r\n", 400},
      {start + std::string("X: a\0b\r\n", 8), 400},
      {start + std::string("X\0: a\r\n", 7), 400},
      {start + "X(y): a\r\n", 400},
      {start + ": a\r\n", 400},
      {start + "no colon\r\n", 400},
      {start + "Host: b\r\n", 400},
      {start + "Expect: 200-ok\r\n", 417},
      {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n", 400},
      {"GET / HTTP/1.1\r\n", 400},
      {"GET / HTTP/2.0\r\nHost: a\r\n", 505},
      {"GET / HTTP/1.2\r\nHost: a\r\n", 505},
      {"GET / HTTP/11\r\nHost: a\r\n", 505},
      {"GET / http/1.1\r\nHost: a\r\n", 400},
      {"GET /\r\nHost: a\r\n", 400},
      {"GET  / HTTP/1.1\r\nHost: a\r\n", 400},
      {"GET / a HTTP/1.1\r\nHost: a\r\n", 400},
      {"GET / HTTP/1.1 \r\nHost: a\r\n", 505},
      {"G\x7FT / HTTP/1.1\r\nHost: a\r\n", 400},
      {"GE(T / HTTP/1.1\r\nHost: a\r\n", 400},
      {" GET / HTTP/1.1\r\nHost: a\r\n", 400},
      {"PRI * HTTP/2.0\r\n", 505},
      {"\x16\x03\x01\x02", 400},
  };
  for (const BadHead& bad : cases) {
    const auto head = ParseRequestHead(bad.head + "\r\n");
    ASSERT_FALSE(head) << testing::PrintToString(bad.head);
    EXPECT_EQ(head.error().status, bad.status)
        << testing::PrintToString(bad.head) << ": " << head.error().error.detail;
  }
}

TEST(RequestHead, BoundsFields) {
  const auto parse = [](size_t fields) {
    std::string head = "GET / HTTP/1.1\r\nHost: a\r\n";
    for (size_t i = 1; i < fields; ++i) {
      head += "X: y\r\n";
    }
    return ParseRequestHead(head + "\r\n");
  };
  EXPECT_TRUE(parse(limits::kHttpFieldsMax));
  const auto refused = parse(limits::kHttpFieldsMax + 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, 431);
  EXPECT_EQ(refused.error().error.code, Code::kPayloadTooLarge);
}

struct GoodResponse {
  std::string head;  // without the blank line
  HttpFraming framing;
  uint64_t length;
  bool keep_alive;
};

TEST(ResponseHead, FindsTheEndOfTheBody) {
  const GoodResponse cases[] = {
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", HttpFraming::kLength, 5, true},
      {"HTTP/1.1 200 \r\nContent-Length: 5\r\nContent-Length: 5\r\n", HttpFraming::kLength, 5,
       true},
      {"HTTP/1.1 200 \r\ntransfer-encoding: Chunked\r\n", HttpFraming::kChunked, 0, true},
      {"HTTP/1.1 200 OK\r\n", HttpFraming::kUntilClose, 0, false},
      {"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n", HttpFraming::kLength, 5, false},
      {"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n", HttpFraming::kNone, 0, true},
      {"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n", HttpFraming::kNone, 0, true},
      {"HTTP/1.1 100 Continue\r\n", HttpFraming::kNone, 0, true},
      {"HTTP/1.1 500 caf\xC3\xA9\r\nConnection: close\r\nContent-Length: 0\r\n",
       HttpFraming::kLength, 0, false},
  };
  for (const GoodResponse& good : cases) {
    const auto head = ParseResponseHead(good.head + "\r\n", false);
    ASSERT_TRUE(head) << good.head << head.error().detail;
    EXPECT_EQ(head->framing, good.framing) << good.head;
    EXPECT_EQ(head->length, good.length) << good.head;
    EXPECT_EQ(head->keep_alive, good.keep_alive) << good.head;
  }
  EXPECT_EQ(ParseResponseHead("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true)->framing,
            HttpFraming::kNone);
}

TEST(ResponseHead, RefusesNonsense) {
  for (const std::string head :
       {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n", "HTTP/1.1 20 OK\r\n",
        "HTTP/1.1 099 OK\r\n", "HTTP/1.1 600 OK\r\n", "HTTP/1.1 2000 OK\r\n", "HTTP/2 200\r\n",
        "ICY 200 OK\r\n", "<html>\r\n", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n",
        "HTTP/1.1 200 OK\r\nX : a\r\n"}) {
    const auto parsed = ParseResponseHead(head + "\r\n", false);
    ASSERT_FALSE(parsed) << head;
    EXPECT_EQ(parsed.error().code, Code::kUpstreamError);
  }
}

}  // namespace
}  // namespace fak::net
