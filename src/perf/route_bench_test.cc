#include "perf/route_bench.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace fak::perf {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RouteResult Result(const std::string& policy, double mean, double p99) {
  return {.policy = policy, .ttft_mean_ms = mean, .ttft_p99_ms = p99};
}

std::vector<RouteCell> Cells() {
  return {{4, 0.5, 1, {Result("ours", 100, 400), Result("other", 200, 800)}},
          {16, 0.95, 1, {Result("ours", 1000, 4000), Result("other", 500, 4000)}}};
}

TEST(Ratios, AreGeometricMeansAndCountLostCells) {
  const auto cells = Cells();
  const auto ratios = Ratios(cells);
  ASSERT_EQ(ratios.size(), 2u);
  EXPECT_DOUBLE_EQ(ratios[0].mean, 1);
  EXPECT_EQ(ratios[0].faster, 0u);
  EXPECT_NEAR(ratios[1].mean, 1, 1e-9);
  EXPECT_NEAR(ratios[1].p99, 1.41421356, 1e-6);
  EXPECT_EQ(ratios[1].faster, 1u);
}

TEST(RouteText, MarksWhatBeatsOurs) {
  const std::string text = RouteText(Cells());
  EXPECT_THAT(text, HasSubstr("replicas  load  gateways  ours   other \n"
                              "       4  0.50         1   100     200 \n"
                              "      16  0.95         1  1000     500*\n"));
  EXPECT_THAT(text, HasSubstr("* beats ours in this cell"));
  EXPECT_THAT(text, HasSubstr("other  1.00x  ################\n"));
  EXPECT_THAT(text, Not(HasSubstr("4000*")));
}

TEST(RouteJson, HasARowACellAndPolicy) {
  const auto rows = ParseJson(RouteJson(Cells()));
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->array().size(), 4u);
  EXPECT_EQ(rows->array()[3].Find("policy")->string(), "other");
  EXPECT_EQ(rows->array()[3].Find("ttft_mean_ms")->number(), 500);
}

}  // namespace
}  // namespace fak::perf
