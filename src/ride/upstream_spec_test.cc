#include "ride/upstream_spec.h"

#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fak::ride {
namespace {

TEST(ParseUpstream, TakesNameAndEngineBeforeTheUrl) {
  struct Case {
    const char* text;
    const char* name;
    const char* engine;
    const char* url;
  };
  const Case kCases[] = {
      {"http://a:8001", "a:8001", "auto", "http://a:8001"},
      {"vllm+http://a:8001/v1", "a:8001", "vllm", "http://a:8001/v1"},
      {"big=http://a", "big", "auto", "http://a"},
      {"big=llamacpp+https://a/x=1+2", "big", "llamacpp", "https://a/x=1+2"},
      {"auto+http://[::1]:9", "[::1]:9", "auto", "http://[::1]:9"},
  };
  for (const Case& each : kCases) {
    const auto spec = ParseUpstream(each.text);
    ASSERT_TRUE(spec) << each.text << ": " << spec.error().detail;
    EXPECT_EQ(spec->name, each.name);
    EXPECT_EQ(spec->engine, each.engine);
    EXPECT_EQ(spec->url, each.url);
  }
}

TEST(ParseUpstream, RefusesWhatItCantMean) {
  for (const char* text : {"", "a", "=http://a", "a b=http://a", "tgi+http://a", "+http://a",
                           "x=y=http://a", "http://u:p@a", "ftp://a"}) {
    EXPECT_FALSE(ParseUpstream(text)) << text;
  }
}

TEST(ParseUpstream, RefusesTheWorkersOfFaksOwn) {
  for (const char* text :
       {"gateway=http://a", "native=vllm+http://a", "http://gateway", "openai+http://native/v1"}) {
    const auto spec = ParseUpstream(text);
    ASSERT_FALSE(spec) << text;
    EXPECT_EQ(spec.error().field, "name");
    EXPECT_THAT(spec.error().detail, ::testing::HasSubstr("a worker of fak's own"));
  }
  EXPECT_TRUE(ParseUpstream("gateway-1=http://a"));
  EXPECT_TRUE(ParseUpstream("http://gateway:8000"));
  EXPECT_TRUE(ParseUpstream("a=http://gateway"));
}

TEST(ParseUpstream, SaysHowAUrlWithoutASchemeIsMeant) {
  const std::pair<const char*, const char*> kCases[] = {
      {"127.0.0.1:1", "mean http://127.0.0.1:1?"},
      {"a=h:1", "mean a=http://h:1?"},
      {"a=vllm+h:1", "mean a=vllm+http://h:1?"},
  };
  for (const auto& [text, meant] : kCases) {
    EXPECT_THAT(ParseUpstream(text).error().detail, ::testing::HasSubstr(meant));
  }
  EXPECT_THAT(ParseUpstream("a=").error().detail, ::testing::Not(::testing::HasSubstr("mean")));
}

TEST(ParseUpstream, SaysWhichPartOfAPastedUrlToLeaveOut) {
  const std::pair<const char*, const char*> kCases[] = {
      {"http://a/v1/chat/completions", "leave out /v1/chat/completions:"},
      {"b=vllm+http://a/v1/completions/", "leave out /v1/completions:"},
      {"http://a/anthropic/v1/messages", "leave out /v1/messages:"},
      {"http://a/api/chat/completions", "leave out /chat/completions:"},
  };
  for (const auto& [text, said] : kCases) {
    const auto spec = ParseUpstream(text);
    ASSERT_FALSE(spec) << text;
    EXPECT_THAT(spec.error().detail, ::testing::HasSubstr(said));
  }
  EXPECT_TRUE(ParseUpstream("http://a/completions-of-mine/v1"));
}

TEST(ParseUpstream, RefusesAQueryWithoutShowingIt) {
  for (const char* text : {"http://a/v1?key=SECRET", "a=b=http://a?key=SECRET", "a:1?key=SECRET",
                           "tgi+http://a:x?key=SECRET"}) {
    const auto spec = ParseUpstream(text);
    ASSERT_FALSE(spec) << text;
    EXPECT_THAT(spec.error().detail, ::testing::HasSubstr("no query"));
    EXPECT_THAT(spec.error().detail, ::testing::Not(::testing::HasSubstr("SECRET")));
  }
}

}  // namespace
}  // namespace fak::ride
