#include "wire/http_headers.h"

#include <gtest/gtest.h>

namespace fak::wire {
namespace {

TEST(HttpHeaders, ComparesNamesWithoutCaseAndKeepsOrder) {
  HttpHeaders headers = {{"A", "1"}, {"b", "2"}, {"a", "3"}};
  EXPECT_EQ(headers.Get("a"), "1");
  EXPECT_EQ(headers.Count("A"), 2u);
  headers.Set("A", "4");
  EXPECT_EQ(headers.Count("a"), 1u);
  EXPECT_EQ(headers.begin()->first, "b");
  EXPECT_TRUE(headers.Remove("B"));
  EXPECT_FALSE(headers.Remove("B"));
  EXPECT_EQ(headers.Get("b"), std::nullopt);
}

TEST(HttpHeaders, FindsTokensInLists) {
  const HttpHeaders headers = {{"Connection", "keep-alive, Upgrade"}, {"connection", " ,CLOSE"}};
  EXPECT_TRUE(headers.HasToken("connection", "upgrade"));
  EXPECT_TRUE(headers.HasToken("Connection", "close"));
  EXPECT_FALSE(headers.HasToken("Connection", "keep"));
}

TEST(HttpHeaders, RemovesWhatConcernsOneConnection) {
  HttpHeaders headers = {{"Connection", "x-one, close"}, {"X-One", "1"},       {"X-Two", "2"},
                         {"keep-alive", "timeout=5"},    {"TE", "trailers"},   {"Upgrade", "h2c"},
                         {"Transfer-Encoding", "gzip"},  {"Trailer", "X-Two"}, {"Host", "h"}};
  headers.RemoveHopByHop();
  ASSERT_EQ(headers.size(), 2u);
  EXPECT_TRUE(headers.Has("X-Two"));
  EXPECT_TRUE(headers.Has("Host"));
}

}  // namespace
}  // namespace fak::wire
