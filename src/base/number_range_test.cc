#include "base/number_range.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/sampling_ranges.h"

namespace fak {
namespace {

TEST(NumberRange, HoldsItsEndsButNotTheOneThatIsOut) {
  EXPECT_TRUE(sampling_ranges::kMinP.Has(0.0));
  EXPECT_TRUE(sampling_ranges::kMinP.Has(1.0));
  EXPECT_FALSE(sampling_ranges::kTopP.Has(0.0));
  EXPECT_TRUE(sampling_ranges::kTopP.Has(1e-45));
  EXPECT_FALSE(sampling_ranges::kTopP.Has(1.0000001));
  EXPECT_FALSE(sampling_ranges::kTopK.Has(-2));
}

TEST(NumberRange, NeverHoldsWhatIsNoNumberOrHasNoEnd) {
  for (const NumberRange& range :
       {sampling_ranges::kTemperature, sampling_ranges::kTopP, sampling_ranges::kTopK,
        sampling_ranges::kMinP, sampling_ranges::kTypicalP, sampling_ranges::kPresencePenalty,
        sampling_ranges::kFrequencyPenalty, sampling_ranges::kRepetitionPenalty}) {
    EXPECT_FALSE(range.Has(std::nan(""))) << range.Text();
    EXPECT_FALSE(range.Has(HUGE_VAL)) << range.Text();
    EXPECT_FALSE(range.Has(-HUGE_VAL)) << range.Text();
  }
}

TEST(NumberRange, SaysItselfInWords) {
  EXPECT_EQ(sampling_ranges::kMinP.Text(), "0 to 1");
  EXPECT_EQ(sampling_ranges::kTopP.Text(), "above 0, at most 1");
  EXPECT_EQ(sampling_ranges::kTemperature.Text(), "0 or more");
  EXPECT_EQ(sampling_ranges::kTopK.Text(), "-1 to 2147483647");
  EXPECT_EQ(sampling_ranges::kMaxTokens.Text(), "1 to 2147483647");
  EXPECT_EQ(sampling_ranges::kRepetitionPenalty.Text(), "1e-07 to 10000000");
  EXPECT_EQ((NumberRange{0, 2'000'001}.Text()), "0 to 2000001");
}

TEST(NumberRange, SaysTheEndThatAValueIsBeyond) {
  EXPECT_EQ(sampling_ranges::kTemperature.TextAgainst(-1), "0 or more");
  EXPECT_EQ(sampling_ranges::kTemperature.TextAgainst(1e39), "at most 3.40282e+38");
  EXPECT_EQ(sampling_ranges::kTemperature.TextAgainst(HUGE_VAL), "at most 3.40282e+38");
  EXPECT_EQ(sampling_ranges::kRepetitionPenalty.TextAgainst(0), "1e-07 to 10000000");
  EXPECT_EQ(sampling_ranges::kTopP.TextAgainst(2), "above 0, at most 1");
}

}  // namespace
}  // namespace fak
