#include "perf/route_baselines.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fak::perf {
namespace {

using ::testing::HasSubstr;

// Of whole blocks.
TraceRequest Request(std::vector<uint64_t> keys) {
  TraceRequest request{.keys = std::move(keys)};
  request.prompt_tokens = static_cast<int64_t>(request.keys.size()) * kTraceBlockTokens;
  return request;
}

TEST(MakePlacer, KnowsThePoliciesOfProductionAndTheBaselines) {
  FakeRandom random;
  for (const std::string& name : PlacerNames()) {
    EXPECT_TRUE(MakePlacer(name, random)) << name;
  }
  const auto none = MakePlacer("best", random);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().detail, HasSubstr("no routing policy best: there are cache_aware, "));
  EXPECT_THAT(none.error().detail, HasSubstr("sglang"));
}

TEST(SglangRule, SendsWhatIsNewToTheFewestRequests) {
  const auto placer = MakeSglangPlacer({});
  std::vector<fleet::ReplicaView> views(3);
  views[0].in_flight = 2;
  views[1].in_flight = views[2].in_flight = 1;
  EXPECT_EQ(placer->Place(Request({1, 2, 3}), views), 1u);
  EXPECT_EQ(placer->Place(Request({4}), views), 1u);
  EXPECT_EQ(placer->Place(Request({1, 2}), views), 1u);
}

TEST(SglangRule, SendsWhatIsNewToTheSmallestTreeIfAsked) {
  const auto placer = MakeSglangPlacer({.smallest_tree = true});
  const std::vector<fleet::ReplicaView> views(3);
  EXPECT_EQ(placer->Place(Request({1, 2, 3}), views), 0u);
  EXPECT_EQ(placer->Place(Request({4}), views), 1u);
  EXPECT_EQ(placer->Place(Request({5, 6}), views), 2u);
  EXPECT_EQ(placer->Place(Request({7}), views), 1u);
}

TEST(SglangRule, FollowsAPrefixOfMoreThanItsThreshold) {
  const auto placer = MakeSglangPlacer({.cache_threshold = 0.5, .smallest_tree = true});
  const std::vector<fleet::ReplicaView> views(2);
  EXPECT_EQ(placer->Place(Request({1, 2}), views), 0u);
  EXPECT_EQ(placer->Place(Request({1, 2, 3}), views), 0u);
  EXPECT_EQ(placer->Place(Request({1, 9}), views), 1u);  // half, and not more
}

TEST(SglangRule, OutOfBalanceTakesTheFewestRequestsAndRemembersIt) {
  const auto placer = MakeSglangPlacer({.balance_abs = 10, .balance_rel = 2});
  std::vector<fleet::ReplicaView> views(2);
  EXPECT_EQ(placer->Place(Request({1}), views), 0u);
  views[0].in_flight = 10;
  EXPECT_EQ(placer->Place(Request({1}), views), 0u);  // 10 is not more than 10
  views[0].in_flight = 11;
  EXPECT_EQ(placer->Place(Request({1, 2}), views), 1u);
  EXPECT_EQ(placer->Place(Request({1}), views), 1u);
  views[0].in_flight = 24;
  views[1].in_flight = 12;
  EXPECT_EQ(placer->Place(Request({1}), views), 0u);  // not twice as many; it went there first
  EXPECT_EQ(placer->Place(Request({1, 2, 3}), views), 1u);
}

TEST(LongestMatch, TakesTheLongestPrefixWhateverTheLoad) {
  FakeRandom random;
  const auto placer = *MakePlacer("longest_match", random);
  std::vector<fleet::ReplicaView> views(3);
  views[1].backlog_tokens = 1'000'000;
  views[1].cached_tokens = 512;
  EXPECT_EQ(placer->Place(Request({1}), views), 1u);
  views[2].cached_tokens = 512;
  EXPECT_EQ(placer->Place(Request({1}), views), 2u);
}

}  // namespace
}  // namespace fak::perf
