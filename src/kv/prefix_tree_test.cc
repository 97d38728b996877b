#include "kv/prefix_tree.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace fak::kv {
namespace {

constexpr uint32_t kBlock = 4;

std::vector<int32_t> Iota(int32_t first, size_t count) {
  std::vector<int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

class PrefixTreeTest : public ::testing::Test {
 protected:
  // As a sequence does: takes blocks, fills them, remembers the path, lets go.
  std::vector<BlockId> Remember(std::span<const int32_t> tokens, std::string_view salt = "") {
    std::vector<BlockId> blocks;
    for (size_t i = 0; i < tokens.size(); i += kBlock) {
      blocks.push_back(pool_.Allocate());
    }
    tree_.Insert(salt, tokens, blocks);
    Release(blocks);
    return blocks;
  }
  void Release(std::span<const BlockId> blocks) {
    for (const BlockId block : blocks) {
      pool_.Release(block);
    }
  }
  uint32_t Matched(std::span<const int32_t> tokens, std::string_view salt = "") {
    const auto match = tree_.Find(salt, tokens, static_cast<uint32_t>(tokens.size()));
    Release(match.blocks);
    return match.tokens;
  }

  BlockPool pool_{32};
  PrefixTree tree_{pool_, kBlock};
};

TEST_F(PrefixTreeTest, MatchesToTheToken) {
  const auto path = Iota(0, 10);
  const auto blocks = Remember(path);
  for (size_t length = 0; length <= path.size(); ++length) {
    const auto match = tree_.Find("", std::span(path).first(length), 100);
    EXPECT_EQ(match.tokens, length);
    EXPECT_EQ(match.blocks.size(), (length + kBlock - 1) / kBlock);
    EXPECT_TRUE(std::equal(match.blocks.begin(), match.blocks.end(), blocks.begin()));
    Release(match.blocks);
  }
  auto other = path;
  other[6] = 99;
  EXPECT_EQ(Matched(other), 6u);
}

TEST_F(PrefixTreeTest, StopsAtTheGivenMaximum) {
  const auto path = Iota(0, 8);
  Remember(path);
  const auto match = tree_.Find("", path, 7);
  EXPECT_EQ(match.tokens, 7u);
  EXPECT_EQ(match.blocks.size(), 2u);
  Release(match.blocks);
}

TEST_F(PrefixTreeTest, KeepsItsOwnBlockForKnownTokens) {
  const auto path = Iota(0, 8);
  const auto first = Remember(path);
  Remember(path);
  EXPECT_EQ(pool_.free(), pool_.total() - 2);
  const auto match = tree_.Find("", path, 8);
  EXPECT_EQ(match.blocks, first);
  Release(match.blocks);
}

TEST_F(PrefixTreeTest, ReplacesAPartialBlockByALongerFill) {
  Remember(Iota(0, 6));
  Remember(Iota(0, 8));
  EXPECT_EQ(tree_.nodes(), 2u);
  EXPECT_EQ(Matched(Iota(0, 8)), 8u);
  Remember(Iota(0, 5));
  EXPECT_EQ(tree_.nodes(), 2u);
  EXPECT_EQ(pool_.cached_only(), 2u);
}

TEST_F(PrefixTreeTest, NeverMatchesAcrossSalts) {
  Remember(Iota(0, 8), "alice");
  EXPECT_EQ(Matched(Iota(0, 8), "bob"), 0u);
  EXPECT_EQ(Matched(Iota(0, 8)), 0u);
  EXPECT_EQ(Matched(Iota(0, 8), "alice"), 8u);
}

TEST_F(PrefixTreeTest, EvictsTheLeastRecentlyUsedLeafFirst) {
  auto left = Iota(0, 8);
  auto right = Iota(0, 8);
  right[5] = 50;
  Remember(left);
  Remember(right);
  EXPECT_EQ(Matched(left), 8u);  // right's tail is now the oldest leaf
  EXPECT_EQ(tree_.Evict(1), 1u);
  EXPECT_EQ(Matched(left), 8u);
  EXPECT_EQ(Matched(right), 5u);
  EXPECT_EQ(tree_.Evict(100), 2u);
  EXPECT_EQ(pool_.free(), pool_.total());
}

TEST_F(PrefixTreeTest, ForgetsASaltWithItsLastBlock) {
  for (int i = 0; i < 8; ++i) {
    Remember(Iota(0, 8), "salt" + std::to_string(i));
  }
  EXPECT_EQ(tree_.salts(), 8u);
  tree_.Evict(6);
  EXPECT_EQ(tree_.salts(), 5u);
  tree_.Prune("salt7", Iota(0, 1));
  EXPECT_EQ(tree_.salts(), 4u);
}

TEST_F(PrefixTreeTest, NeverEvictsWhatASequenceHolds) {
  const auto path = Iota(0, 8);
  Remember(path);
  const auto match = tree_.Find("", path, 4);
  EXPECT_EQ(tree_.Evict(100), 1u);
  EXPECT_EQ(Matched(path), 4u);
  Release(match.blocks);
  EXPECT_EQ(tree_.Evict(100), 1u);
}

TEST_F(PrefixTreeTest, PruneTakesTheBranchAndNothingElse) {
  auto side = Iota(0, 12);
  side[9] = 90;
  Remember(Iota(0, 16));
  Remember(side);
  EXPECT_EQ(tree_.Prune("", Iota(0, 7)).nodes, 4u);  // the second block and all below it
  EXPECT_EQ(Matched(Iota(0, 16)), 4u);
  EXPECT_EQ(tree_.Prune("", Iota(5, 3)).nodes, 0u);
  EXPECT_EQ(tree_.Prune("nobody", Iota(0, 4)).nodes, 0u);
}

TEST_F(PrefixTreeTest, PruneTellsWhatOfThePathStays) {
  auto other = Iota(0, 12);
  other[9] = 90;
  Remember(Iota(0, 12));
  EXPECT_EQ(tree_.Prune("", Iota(0, 3)).tokens_left, 0u);
  Remember(Iota(0, 12));
  Remember(other);
  const auto pruned = tree_.Prune("", Iota(0, 12));
  EXPECT_EQ(pruned.nodes, 1u);
  EXPECT_EQ(pruned.tokens_left, 9u);  // two blocks, and a token of the other's third
  EXPECT_EQ(Matched(Iota(0, 12)), pruned.tokens_left);
  EXPECT_EQ(tree_.Prune("", Iota(0, 16)).tokens_left, 9u);
}

TEST_F(PrefixTreeTest, ClearsSomeSaltsAndLeavesTheOthers) {
  EventLog log;
  Remember(Iota(0, 8), "a");
  Remember(Iota(0, 8), "ab");
  Remember(Iota(0, 8), "b");
  tree_.set_event_log(&log);
  EXPECT_EQ(tree_.ClearSalts([](std::string_view salt) { return salt.starts_with("a"); }), 4u);
  EXPECT_EQ(tree_.salts(), 1u);
  EXPECT_EQ(Matched(Iota(0, 8), "a"), 0u);
  EXPECT_EQ(Matched(Iota(0, 8), "ab"), 0u);
  EXPECT_EQ(Matched(Iota(0, 8), "b"), 8u);
  for (const wire::KvEvent& event : log.Take()) {
    EXPECT_EQ(event.kind, wire::KvEvent::Kind::kRemoved);
  }
  tree_.set_event_log(nullptr);
}

TEST_F(PrefixTreeTest, PrunedBlocksStayWithTheirSequence) {
  const auto path = Iota(0, 8);
  Remember(path);
  const auto match = tree_.Find("", path, 8);
  EXPECT_EQ(tree_.Clear(), 2u);
  EXPECT_EQ(pool_.free(), pool_.total() - 2);
  Release(match.blocks);
  EXPECT_EQ(pool_.free(), pool_.total());
}

TEST_F(PrefixTreeTest, FindsTheDeepestCheckpointAndGivesSlotsBack) {
  const auto path = Iota(0, 12);
  std::vector<BlockId> blocks{pool_.Allocate(), pool_.Allocate(), pool_.Allocate()};
  tree_.Insert("", std::span(path).first(4), blocks, StateSlot{7});
  tree_.Insert("", std::span(path).first(8), blocks, StateSlot{8});
  tree_.Insert("", path, blocks);
  Release(blocks);
  auto match = tree_.Find("", path, 11);
  EXPECT_EQ(match.tokens, 11u);
  EXPECT_EQ(match.state, StateSlot{8});
  EXPECT_EQ(match.state_tokens, 8u);
  Release(match.blocks);
  match = tree_.Find("", path, 7);
  EXPECT_EQ(match.state, StateSlot{7});
  EXPECT_EQ(match.state_tokens, 4u);
  Release(match.blocks);
  tree_.Clear();
  EXPECT_EQ(tree_.TakeReleasedStates().size(), 2u);
  EXPECT_TRUE(tree_.TakeReleasedStates().empty());
}

// Against a plain list of remembered paths, under random use and no eviction.
TEST(PrefixTree, AgreesWithAListOfPaths) {
  std::mt19937 random(1);
  BlockPool pool(100'000);
  PrefixTree tree(pool, kBlock);
  std::vector<std::vector<int32_t>> paths;
  for (int round = 0; round < 2000; ++round) {
    std::vector<int32_t> tokens(random() % 24);
    for (int32_t& token : tokens) {
      token = static_cast<int32_t>(random() % 2);
    }
    size_t expected = 0;
    for (const auto& path : paths) {
      const auto end = std::mismatch(path.begin(), path.end(), tokens.begin(), tokens.end());
      expected = std::max(expected, static_cast<size_t>(end.first - path.begin()));
    }
    auto match = tree.Find("", tokens, 100);
    ASSERT_EQ(match.tokens, expected);
    while (match.blocks.size() * kBlock < tokens.size()) {
      match.blocks.push_back(pool.Allocate());
    }
    tree.Insert("", tokens, match.blocks);
    for (const BlockId block : match.blocks) {
      pool.Release(block);
    }
    paths.push_back(tokens);
  }
  tree.Clear();
  EXPECT_EQ(pool.free(), pool.total());
  EXPECT_EQ(pool.cached_only(), 0u);
}

TEST_F(PrefixTreeTest, TellsOfWholeBlocksOnly) {
  EventLog log;
  tree_.set_event_log(&log);
  Remember(Iota(0, 6), "salt");
  auto events = log.Take();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, wire::KvEvent::Kind::kStored);
  EXPECT_EQ(events[0].block_hashes.size(), 1u);
  EXPECT_EQ(events[0].tokens, Iota(0, 4));
  EXPECT_EQ(events[0].block_size, 4);
  EXPECT_EQ(events[0].parent_hash, std::nullopt);
  EXPECT_EQ(events[0].cache_salt, "salt");
  const uint64_t first = events[0].block_hashes[0];

  // The rest of the second block, and a third, continue the first and each other.
  Remember(Iota(0, 12), "salt");
  events = log.Take();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].parent_hash, first);
  EXPECT_EQ(events[0].cache_salt, "");
  EXPECT_EQ(events[0].block_hashes.size(), 2u);
  EXPECT_EQ(events[0].tokens, Iota(4, 8));
  const std::vector<uint64_t> rest = events[0].block_hashes;

  Remember(Iota(0, 12), "salt");
  EXPECT_TRUE(log.empty()) << "known already";
  EXPECT_EQ(tree_.Evict(2), 2u);
  events = log.Take();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, wire::KvEvent::Kind::kRemoved);
  EXPECT_EQ(events[0].block_hashes, (std::vector<uint64_t>{rest[1], rest[0]}));
  tree_.Prune("salt", Iota(0, 2));
  events = log.Take();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].block_hashes, std::vector<uint64_t>{first});
}

TEST_F(PrefixTreeTest, TellsOfAClearanceOnceAndOfNothingBeforeIt) {
  EventLog log;
  tree_.set_event_log(&log);
  tree_.Clear();
  EXPECT_TRUE(log.empty());
  Remember(Iota(0, 12));
  Remember(Iota(50, 4));
  tree_.Clear();
  Remember(Iota(0, 4));
  const auto events = log.Take();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, wire::KvEvent::Kind::kCleared);
  EXPECT_EQ(events[1].tokens, Iota(0, 4));
}

}  // namespace
}  // namespace fak::kv
