#include "kv/unit_keys.h"

#include <numeric>

#include <gtest/gtest.h>

namespace fak::kv {
namespace {

TEST(UnitKeys, CoverWholeUnitsAndAgreeOnCommonPrefixes) {
  std::vector<int32_t> tokens(50);
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto keys = UnitKeys("", tokens);
  ASSERT_EQ(keys.size(), 3u);
  tokens[20] = 1000;
  const auto other = UnitKeys("", tokens);
  EXPECT_EQ(keys[0], other[0]);
  EXPECT_NE(keys[1], other[1]);
  EXPECT_NE(keys[2], other[2]);
}

TEST(UnitKeys, DifferBySalt) {
  const std::vector<int32_t> tokens(16, 1);
  EXPECT_NE(UnitKeys("a", tokens), UnitKeys("b", tokens));
  EXPECT_NE(UnitKeys("a", std::string(64, 'x')), UnitKeys("b", std::string(64, 'x')));
}

}  // namespace
}  // namespace fak::kv
