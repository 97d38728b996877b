#include "fleet/router.h"

#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fak::fleet {
namespace {

using ::testing::HasSubstr;

struct Replicas {
  explicit Replicas(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      names.push_back("replica-" + std::to_string(i));
    }
    for (size_t i = 0; i < count; ++i) {
      views.push_back({.id = static_cast<ReplicaId>(i), .name = names[i]});
    }
  }
  Replicas(const Replicas&) = delete;
  Replicas& operator=(const Replicas&) = delete;

  std::vector<std::string> names;
  std::vector<ReplicaView> views;
};

std::unique_ptr<RoutingPolicy> Policy(std::string_view name) {
  auto policy = MakeRoutingPolicy(name);
  CHECK(policy.has_value());
  return *std::move(policy);
}

// How often each id was chosen.
std::map<ReplicaId, int> Shares(RoutingPolicy& policy, const RouteTurn& turn,
                                std::span<const ReplicaView> views, int rounds, uint64_t seed) {
  FakeRandom random(seed);
  std::map<ReplicaId, int> shares;
  for (int i = 0; i < rounds; ++i) {
    ++shares[views[policy.Choose(turn, views, random).index].id];
  }
  return shares;
}

TEST(RoutingPolicies, AreKnownByName) {
  EXPECT_EQ(RoutingPolicyNames().front(), kDefaultRoutingPolicy);
  for (const std::string& name : RoutingPolicyNames()) {
    EXPECT_EQ(Policy(name)->name(), name);
  }
  const auto none = MakeRoutingPolicy("best");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kInvalidArgument);
  EXPECT_THAT(none.error().detail, HasSubstr("no routing policy best: there are cache_aware, "));
}

TEST(RoutingPolicies, ChooseTheOnlyOneWithItsScore) {
  Replicas replicas(1);
  replicas.views[0].weight = 0;
  replicas.views[0].backlog_tokens = 7;
  for (const std::string& name : RoutingPolicyNames()) {
    FakeRandom random;
    const auto choice = Policy(name)->Choose({.prompt_tokens = 5}, replicas.views, random);
    EXPECT_EQ(choice.index, 0u) << name;
    EXPECT_EQ(choice.why, kWhyOnlyOne) << name;
    ASSERT_EQ(choice.compared.size(), 1u) << name;
    EXPECT_EQ(choice.compared[0].backlog_tokens, 7) << name;
  }
}

TEST(RoutingPolicies, DecideAlikeFromOneSeed) {
  Replicas replicas(9);
  for (const std::string& name : RoutingPolicyNames()) {
    const auto once = Shares(*Policy(name), {}, replicas.views, 500, 3);
    EXPECT_EQ(once, Shares(*Policy(name), {}, replicas.views, 500, 3)) << name;
  }
}

TEST(RoutingPolicies, SendNothingToAWeightOfZero) {
  Replicas replicas(4);
  replicas.views[2].weight = 0;
  replicas.views[2].cached_tokens = 100;  // the best match, too
  for (const std::string& name : RoutingPolicyNames()) {
    FakeRandom random;
    const auto policy = Policy(name);
    for (int i = 0; i < 300; ++i) {
      const std::string session = std::to_string(i);
      const RouteTurn turn{.prompt_tokens = 100, .session = session};
      EXPECT_NE(policy->Choose(turn, replicas.views, random).index, 2u) << name;
    }
  }
}

TEST(CacheAware, TakesTheLongestPrefixWhereItSavesWork) {
  Replicas replicas(8);
  replicas.views[5].cached_tokens = 900;
  replicas.views[5].backlog_tokens = 899;
  const auto policy = Policy("cache_aware");
  FakeRandom random;
  for (int i = 0; i < 100; ++i) {
    const auto choice = policy->Choose({.prompt_tokens = 1000}, replicas.views, random);
    EXPECT_EQ(choice.index, 5u);
    EXPECT_EQ(choice.why, kWhyLongestPrefix);
    EXPECT_LE(choice.compared.size(), 3u);
  }
}

TEST(CacheAware, LeavesThePrefixWhereTheWaitIsLonger) {
  Replicas replicas(8);
  replicas.views[5].cached_tokens = 900;
  replicas.views[5].backlog_tokens = 901;
  const auto policy = Policy("cache_aware");
  FakeRandom random;
  for (int i = 0; i < 100; ++i) {
    const auto choice = policy->Choose({.prompt_tokens = 1000}, replicas.views, random);
    EXPECT_NE(choice.index, 5u);
    for (const RouteScore& score : choice.compared) {
      EXPECT_EQ(score.cost, score.id == 5 ? 1001 : 1000);
    }
  }
}

TEST(CacheAware, AmongEqualMatchesTakesTheLeastBacklog) {
  Replicas replicas(16);
  for (ReplicaView& view : replicas.views) {
    view.backlog_tokens = 5000;
  }
  replicas.views[3].cached_tokens = replicas.views[9].cached_tokens = 400;
  replicas.views[9].backlog_tokens = 4999;
  const auto shares = Shares(*Policy("cache_aware"), {.prompt_tokens = 500}, replicas.views, 50, 1);
  EXPECT_EQ(shares, (std::map<ReplicaId, int>{{9, 50}}));
}

TEST(CacheAware, AmongEqualCostsTakesTheLeastBacklogThenAny) {
  Replicas replicas(2);
  replicas.views[0].cached_tokens = replicas.views[0].backlog_tokens = 100;
  const auto policy = Policy("cache_aware");
  FakeRandom random;
  const auto choice = policy->Choose({.prompt_tokens = 200}, replicas.views, random);
  EXPECT_EQ(choice.index, 1u);
  EXPECT_EQ(choice.why, kWhyLeastBacklog);

  replicas.views[0].cached_tokens = replicas.views[0].backlog_tokens = 0;
  const auto shares = Shares(*policy, {.prompt_tokens = 200}, replicas.views, 1000, 1);
  EXPECT_NEAR(shares.at(0), 500, 80);
}

TEST(CacheAware, LooksAtTwoAtRandomBesideTheMatch) {
  Replicas replicas(10);
  for (size_t i = 0; i < 10; ++i) {
    replicas.views[i].backlog_tokens = static_cast<int64_t>(1000 * i);
  }
  replicas.views[9].cached_tokens = 1;
  // Replica 0 is the cheapest of all and is chosen when it is drawn: in 2 of 10 cases.
  const auto shares =
      Shares(*Policy("cache_aware"), {.prompt_tokens = 10}, replicas.views, 5000, 7);
  EXPECT_NEAR(shares.at(0), 1000, 120);
}

TEST(PowerOfTwo, TakesTheFewerRequestsOfTwo) {
  Replicas replicas(4);
  for (size_t i = 0; i < 4; ++i) {
    replicas.views[i].in_flight = static_cast<int64_t>(i);
  }
  const auto shares = Shares(*Policy("power_of_two"), {}, replicas.views, 6000, 5);
  EXPECT_NEAR(shares.at(0), 3000, 200);  // in half of the pairs
  EXPECT_NEAR(shares.at(1), 2000, 200);
  EXPECT_NEAR(shares.at(2), 1000, 200);
  EXPECT_EQ(shares.count(3), 0u);
}

TEST(LeastLoaded, CountsRequestsForAReplicasWeight) {
  Replicas replicas(3);
  replicas.views[0] = {.id = 0, .in_flight = 4, .weight = 1};
  replicas.views[1] = {.id = 1, .in_flight = 7, .weight = 2};
  replicas.views[2] = {.id = 2, .in_flight = 4, .weight = 1};
  FakeRandom random;
  const auto choice = Policy("least_loaded")->Choose({}, replicas.views, random);
  EXPECT_EQ(choice.index, 1u);
  EXPECT_EQ(choice.why, kWhyFewestRequests);
  EXPECT_EQ(choice.compared.size(), 3u);
}

TEST(RoundRobin, TakesTurnsSmoothlyByWeight) {
  Replicas replicas(3);
  replicas.views[0].weight = 3;
  const auto policy = Policy("round_robin");
  FakeRandom random;
  std::string turns;
  for (int i = 0; i < 10; ++i) {
    turns += std::to_string(policy->Choose({}, replicas.views, random).index);
  }
  EXPECT_EQ(turns, "0102001020");
}

TEST(RoundRobin, ACopyUsesUpNobodysTurn) {
  const std::unique_ptr<RoutingPolicy> policy = *MakeRoutingPolicy("round_robin");
  const std::vector<ReplicaView> replicas = {{.id = 0, .name = "a"}, {.id = 1, .name = "b"}};
  FakeRandom random;
  EXPECT_EQ(policy->Choose({}, replicas, random).index, 0u);
  const std::unique_ptr<RoutingPolicy> copy = policy->Copy();
  EXPECT_EQ(copy->name(), policy->name());
  EXPECT_EQ(copy->Choose({}, replicas, random).index, 1u);
  EXPECT_EQ(copy->Choose({}, replicas, random).index, 0u);
  EXPECT_EQ(policy->Choose({}, replicas, random).index, 1u);
}

TEST(RoundRobin, KeepsSetsThatShareItApart) {
  Replicas replicas(4);
  const auto policy = Policy("round_robin");
  const std::span<const ReplicaView> all(replicas.views);
  FakeRandom random;
  std::map<ReplicaId, int> shares;
  for (int i = 0; i < 100; ++i) {
    ++shares[policy->Choose({}, all.subspan(0, 2), random).index];
    ++shares[2 + policy->Choose({}, all.subspan(2), random).index];
    ++shares[2 + policy->Choose({}, all.subspan(2), random).index];
  }
  EXPECT_EQ(shares, (std::map<ReplicaId, int>{{0, 50}, {1, 50}, {2, 100}, {3, 100}}));
}

TEST(Random, SpreadsByWeight) {
  Replicas replicas(3);
  replicas.views[1].weight = 2;
  const auto shares = Shares(*Policy("random"), {}, replicas.views, 8000, 11);
  EXPECT_NEAR(shares.at(0), 2000, 200);
  EXPECT_NEAR(shares.at(1), 4000, 200);
  EXPECT_NEAR(shares.at(2), 2000, 200);
}

// Where each of `count` sessions goes, by the replica's name.
std::vector<std::string> Homes(std::span<const ReplicaView> views, int count) {
  const auto policy = Policy("session");
  FakeRandom random;
  std::vector<std::string> homes;
  for (int i = 0; i < count; ++i) {
    const std::string session = "user-" + std::to_string(i);
    homes.emplace_back(views[policy->Choose({.session = session}, views, random).index].name);
  }
  return homes;
}

TEST(Session, MovesOnlyTheSessionsOfAReplicaThatGoes) {
  Replicas replicas(8);
  constexpr int kSessions = 4000;
  const auto before = Homes(replicas.views, kSessions);
  const std::string gone = replicas.names[3];
  replicas.views.erase(replicas.views.begin() + 3);
  const auto after = Homes(replicas.views, kSessions);
  std::map<std::string, int> shares;
  for (int i = 0; i < kSessions; ++i) {
    ++shares[before[i]];
    if (before[i] != gone) {
      EXPECT_EQ(before[i], after[i]);
    } else {
      EXPECT_NE(after[i], gone);
    }
  }
  for (const auto& [name, share] : shares) {
    EXPECT_NEAR(share, kSessions / 8, 100) << name;
  }
}

TEST(Session, GrowsAShareByTakingSessionsForItAlone) {
  Replicas replicas(4);
  constexpr int kSessions = 4000;
  const auto before = Homes(replicas.views, kSessions);
  replicas.views[2].weight = 3;
  const auto after = Homes(replicas.views, kSessions);
  int share = 0;
  for (int i = 0; i < kSessions; ++i) {
    share += after[i] == replicas.names[2] ? 1 : 0;
    EXPECT_TRUE(before[i] == after[i] || after[i] == replicas.names[2]);
  }
  EXPECT_NEAR(share, kSessions / 2, 150);
}

TEST(Session, WithoutASessionIsCacheAware) {
  Replicas replicas(5);
  replicas.views[4].cached_tokens = 50;
  FakeRandom random;
  const auto choice = Policy("session")->Choose({.prompt_tokens = 60}, replicas.views, random);
  EXPECT_EQ(choice.index, 4u);
  EXPECT_EQ(choice.why, kWhyLongestPrefix);
}

}  // namespace
}  // namespace fak::fleet
