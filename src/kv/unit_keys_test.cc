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

// So that an index of units can be fed with blocks of any size.
TEST(UnitKeys, ABlockHasTheKeyOfItsLastUnit) {
  std::vector<int32_t> tokens(128);
  std::iota(tokens.begin(), tokens.end(), 5);
  const std::vector<uint64_t> units = UnitKeys("salt", tokens);
  for (const size_t block : {16u, 32u, 64u, 128u}) {
    uint64_t key = RootKey("salt");
    for (size_t at = 0; at < tokens.size(); at += block) {
      key = BlockKey(key, std::span(tokens).subspan(at, block));
      EXPECT_EQ(key, units[(at + block) / kUnitTokens - 1]) << block;
    }
  }
}

}  // namespace
}  // namespace fak::kv
