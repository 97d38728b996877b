#include "metrics/goodput.h"

#include <gtest/gtest.h>

namespace fak::metrics {
namespace {

TEST(ParseSlo, ReadsBoundsInMilliseconds) {
  const auto slo = ParseSlo("chat=tpot:50,ttft:500");
  ASSERT_TRUE(slo);
  EXPECT_EQ(slo->name, "chat");
  EXPECT_EQ(slo->first_token_s, 0.5);
  EXPECT_EQ(slo->per_token_s, 0.05);
  EXPECT_FALSE(slo->end_to_end_s.has_value());
}

TEST(ParseSlo, RefusesWhatIsNone) {
  for (const char* text : {"", "chat", "=ttft:1", "a b=ttft:1", "a=", "a=ttft", "a=ttft:0",
                           "a=ttft:x", "a=itl:5", "a=ttft:1,ttft:2", "a=ttft:1,"}) {
    const auto slo = ParseSlo(text);
    ASSERT_FALSE(slo) << text;
    EXPECT_EQ(slo.error().field, "--slo");
  }
}

TEST(Meets, HoldsEveryBoundThatIsGiven) {
  const Slo slo{"s", 0.5, 0.05, 2.0};
  const RequestTimes good{0.5, 0.05, 2.0, 10};
  EXPECT_TRUE(Meets(slo, good));
  EXPECT_FALSE(Meets(slo, {0.6, 0.05, 2.0, 10}));
  EXPECT_FALSE(Meets(slo, {0.5, 0.06, 2.0, 10}));
  EXPECT_FALSE(Meets(slo, {0.5, 0.05, 2.1, 10}));
  EXPECT_TRUE(Meets({"s", {}, {}, {}}, {9, 9, 9, 9}));
}

TEST(Meets, BoundsWhatWasNotMeasuredByTheWhole) {
  const Slo slo{"s", 0.5, 0.05, {}};
  EXPECT_TRUE(Meets(slo, {{}, {}, 0.4, 11}));    // 0.04 s a token at most
  EXPECT_FALSE(Meets(slo, {{}, {}, 0.6, 101}));  // its first token may have been late
  EXPECT_FALSE(Meets(slo, {{}, {}, 0.4, 5}));    // 0.1 s a token, perhaps
  EXPECT_TRUE(Meets(slo, {{}, {}, 0.4, 1}));     // one token has no gaps
}

}  // namespace
}  // namespace fak::metrics
