#include "fleet/residency_tally.h"

#include <gtest/gtest.h>

namespace fak::fleet {
namespace {

TEST(ResidencyTally, TellsTooMuchFromTooLittle) {
  ResidencyTally tally;
  EXPECT_EQ(tally.figures().error(), 0);
  tally.Count(1000, 800, 600);
  tally.Count(1000, 100, 400);
  tally.Count(2000, 48, 48);
  const ResidencyTally::Figures figures = tally.figures();
  EXPECT_EQ(figures.requests, 3u);
  EXPECT_EQ(figures.prompt_tokens, 4000u);
  EXPECT_EQ(figures.estimated_tokens, 948u);
  EXPECT_EQ(figures.cached_tokens, 1048u);
  EXPECT_EQ(figures.over_tokens, 200u);
  EXPECT_EQ(figures.under_tokens, 300u);
  EXPECT_DOUBLE_EQ(figures.error(), 0.125);
}

TEST(ResidencyTally, CutsWhatAnEngineCannotMean) {
  ResidencyTally tally;
  tally.Count(100, 100, 1000);
  tally.Count(-5, 16, 16);
  EXPECT_EQ(tally.figures().cached_tokens, 100u);
  EXPECT_EQ(tally.figures().error(), 0);
}

}  // namespace
}  // namespace fak::fleet
