#include "perf/serve_compare.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fak::perf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Json Document(double ttft, double rate, const std::string& model = "m",
              const std::string& name = "it", int words = 40) {
  auto read = ParseJson(R"({"load":{"input_len":)" + std::to_string(words) +
                        R"(},"points":[{"request_rate":)" + Json(rate).Dump() +
                        R"(,"max_concurrency":0,"targets":[{"name":")" + name + R"(","model":")" +
                        model + R"(","runs":[{"p50_ttft_ms":1},{"p50_ttft_ms":)" +
                        Json(ttft).Dump() + R"(},{"p50_ttft_ms":1e9}]}]}]})");
  EXPECT_TRUE(read) << read.error().detail;
  return *read;
}

TEST(CompareServe, ComparesMediansOfWhatMatches) {
  const auto compared = CompareServe(Document(100, 2), Document(110, 2), {}, {});
  ASSERT_TRUE(compared) << compared.error().detail;
  ASSERT_EQ(compared->figures.size(), 1u);
  EXPECT_DOUBLE_EQ(compared->figures[0].a, 100);
  EXPECT_NEAR(*compared->figures[0].change(), 0.1, 1e-12);
  EXPECT_THAT(CompareText(*compared), HasSubstr("rate 2  it      p50_ttft_ms  100  110  +10.0%\n"));
}

TEST(CompareServe, ALoneTargetMayHaveAnotherName) {
  EXPECT_TRUE(CompareServe(Document(1, 2, "m", "before"), Document(1, 2, "m", "after"), {}, {}));
}

TEST(CompareServe, RefusesWhatIsNotComparableAndSaysInWhat) {
  const auto refused = CompareServe(Document(1, 2), Document(1, 2, "other", "it", 50), {}, {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().detail, HasSubstr("they differ in input_len, model ("));
  const auto half = CompareServe(Document(1, 2), Document(1, 2, "other", "it", 50), {"model"}, {});
  ASSERT_FALSE(half);
  EXPECT_THAT(half.error().detail, HasSubstr("they differ in input_len ("));
  const auto allowed =
      CompareServe(Document(1, 2), Document(1, 2, "other", "it", 50), {"model", "input_len"}, {});
  ASSERT_TRUE(allowed);
  EXPECT_THAT(CompareText(*allowed),
              HasSubstr("not comparable: they differ in model, input_len\n"));
}

TEST(CompareServe, BoundsThatAreBrokenAreNamed) {
  const auto above = ParseFailIf("p50_ttft_ms>+5%");
  const auto below = ParseFailIf("p50_ttft_ms<-5%");
  ASSERT_TRUE(above && below);
  const auto worse = CompareServe(Document(100, 2), Document(106, 2), {}, {*above, *below});
  ASSERT_TRUE(worse);
  EXPECT_THAT(worse->broken, ElementsAre("p50_ttft_ms>+5%: +6.0% at rate 2 of it"));
  EXPECT_THAT(CompareServe(Document(100, 2), Document(104, 2), {}, {*above, *below})->broken,
              IsEmpty());
  const auto absent = ParseFailIf("p98_ttft_ms>1%");
  EXPECT_FALSE(CompareServe(Document(1, 2), Document(1, 2), {}, {*absent}));
}

TEST(CompareServe, WhatHasNothingInCommonIsAnError) {
  EXPECT_FALSE(CompareServe(Document(1, 2), Document(1, 3), {}, {}));
  EXPECT_FALSE(CompareServe(Json(Json::Object{}), Document(1, 3), {}, {}));
  EXPECT_FALSE(CompareServe(Document(1, 3), Json(3), {}, {}));
}

TEST(ParseFailIf, NeedsAFigureASignAndPercent) {
  EXPECT_DOUBLE_EQ(ParseFailIf("x<-2.5%")->change, -0.025);
  for (const char* text : {"", "x", ">5%", "x>5", "x>%", "x>a%"}) {
    EXPECT_FALSE(ParseFailIf(text)) << text;
  }
}

}  // namespace
}  // namespace fak::perf
