#include "tensor/cpu/attention_plan.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace fak::tensor::cpu {
namespace {

constexpr HeadShape kHeads = {4, 1, 64};
constexpr int kThreads = 2;
constexpr uint64_t kEnough = 1 << 20;  // floats

AttentionPlan PlanOf(std::vector<SequenceRows> sequences, int threads = kThreads,
                     uint64_t partials_a_thread = kEnough, HeadShape heads = kHeads,
                     uint32_t window = 0) {
  uint32_t row = 0;
  for (SequenceRows& sequence : sequences) {
    sequence.first_row = row;
    row += sequence.rows;
  }
  AttentionPlan plan{.heads = heads, .window = window, .tiles = {}};
  PlanAttention(sequences, threads, partials_a_thread, plan);
  return plan;
}

SequenceRows Rows(uint32_t rows, uint32_t first_position) {
  return {.rows = rows, .first_position = first_position, .blocks = {}};
}

// Tasks are numbered without gaps, and those of a pair have each of its splits once.
void ExpectWhole(const AttentionPlan& plan) {
  size_t task = 0;
  size_t pair = 0;
  uint64_t floats = 0;
  const uint32_t group = plan.heads.q_heads / plan.heads.kv_heads;
  for (const AttentionTile& tile : plan.tiles) {
    EXPECT_EQ(tile.first_task, task);
    EXPECT_EQ(tile.first_pair, pair);
    EXPECT_EQ(tile.first_partials, floats);
    EXPECT_GE(tile.tasks * tile.splits_a_task, tile.splits);
    EXPECT_LT((tile.tasks - 1) * tile.splits_a_task, tile.splits);
    task += size_t{tile.tasks} * plan.heads.kv_heads;
    pair += plan.heads.kv_heads;
    floats += plan.heads.kv_heads * PartialFloats(tile.rows * group, tile.splits, plan.heads.dim);
  }
  EXPECT_EQ(plan.tasks, task);
}

TEST(AttentionPlan, DividesSplitsAmongThreadsWhereThereIsOneKvHead) {
  const AttentionPlan plan = PlanOf({Rows(1, 8191)});
  ExpectWhole(plan);
  ASSERT_EQ(plan.tiles.size(), 1u);
  EXPECT_EQ(plan.tiles[0].splits, 32u);
  EXPECT_EQ(plan.tiles[0].splits_a_task, 2u);
  EXPECT_EQ(plan.tasks, 16u);
  EXPECT_TRUE(plan.cut);
}

TEST(AttentionPlan, LeavesASplitOrAThreadAlone) {
  for (const AttentionPlan& plan : {PlanOf({Rows(1, 255)}), PlanOf({Rows(1, 8191)}, 1)}) {
    ExpectWhole(plan);
    EXPECT_EQ(plan.tasks, 1u);
    EXPECT_FALSE(plan.cut);
  }
}

TEST(AttentionPlan, CountsOnlySplitsThatTheWindowLeaves) {
  const AttentionPlan plan = PlanOf({Rows(1, 8191)}, kThreads, kEnough, kHeads, 512);
  ExpectWhole(plan);
  EXPECT_EQ(plan.tiles[0].first_split, 30u);
  EXPECT_EQ(plan.tiles[0].splits, 2u);
  EXPECT_EQ(plan.tasks, 2u);
}

TEST(AttentionPlan, DividesADeepSequenceBesideShallowOnes) {
  std::vector<SequenceRows> sequences(10, Rows(1, 100));
  sequences.push_back(Rows(1, 8191));
  const AttentionPlan plan = PlanOf(sequences);
  ExpectWhole(plan);
  EXPECT_EQ(plan.tiles[0].tasks, 1u);
  EXPECT_EQ(plan.tiles[10].tasks, 16u);
}

TEST(AttentionPlan, DividesNothingWhosePartialsDoNotFit) {
  const uint64_t floats = PartialFloats(4, 32, 64);
  EXPECT_TRUE(PlanOf({Rows(1, 8191)}, kThreads, floats / 2).cut);
  const AttentionPlan plan = PlanOf({Rows(1, 8191)}, kThreads, floats / 2 - 1);
  ExpectWhole(plan);
  EXPECT_FALSE(plan.cut);
  EXPECT_EQ(plan.tasks, 1u);
}

TEST(AttentionPlan, DividesNothingOfManyPairs) {
  const std::vector<SequenceRows> sequences(PairsMax(kThreads) + 1, Rows(1, 1000));
  const AttentionPlan plan = PlanOf(sequences);
  ExpectWhole(plan);
  EXPECT_FALSE(plan.cut);
}

TEST(AttentionPlan, TakesRowsOfAPromptTogether) {
  const AttentionPlan plan = PlanOf({Rows(100, 250)}, kThreads, kEnough, {6, 2, 64});
  ExpectWhole(plan);
  ASSERT_EQ(plan.tiles.size(), 10u);
  EXPECT_EQ(plan.tiles[0].rows, 10u);
  EXPECT_EQ(plan.tiles[0].last_position, 259u);
  EXPECT_EQ(plan.tiles[0].splits, 2u);
  EXPECT_EQ(plan.tiles[9].first_row, 90u);
  EXPECT_EQ(plan.tiles[9].last_position, 349u);
}

}  // namespace
}  // namespace fak::tensor::cpu
