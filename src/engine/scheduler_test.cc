#include "engine/scheduler.h"

#include <deque>
#include <numeric>
#include <utility>

#include <gtest/gtest.h>

namespace fak::engine {
namespace {

// Drives a scheduler as the engine does, without a model: a step appends one token to every
// sequence that samples.
class SchedulerTest : public ::testing::Test {
 protected:
  void Start(SchedulerOptions options, uint32_t blocks) {
    options.block_size = 4;
    pool_.emplace(blocks);
    tree_.emplace(*pool_, options.block_size);
    scheduler_.emplace(options, *pool_, *tree_, clock_,
                       [this](kv::BlockId, kv::BlockId, uint32_t) { ++copies_; });
  }
  Sequence& Add(uint32_t prompt, int32_t first_token = 0, int32_t priority = 0,
                std::string tenant = "") {
    Sequence& sequence = sequences_.emplace_back();
    sequence.tenant = std::move(tenant);
    sequence.priority = priority;
    sequence.arrival = sequences_.size();
    sequence.arrival_ns = clock_.NowNs();
    sequence.prompt_tokens = prompt;
    sequence.tokens.resize(prompt);
    std::iota(sequence.tokens.begin(), sequence.tokens.end(), first_token);
    scheduler_->Add(sequence);
    return sequence;
  }
  // Rows of each sequence in the step, in its order.
  std::vector<std::pair<const Sequence*, uint32_t>> Step() {
    std::vector<std::pair<const Sequence*, uint32_t>> rows;
    std::vector<Sequence*> sampled;
    for (const Slice& slice : scheduler_->Plan()) {
      rows.emplace_back(slice.sequence, slice.rows);
      if (slice.samples()) {
        sampled.push_back(slice.sequence);
      }
      for (uint32_t at = slice.sequence->computed / 4; at < slice.sequence->blocks.size(); ++at) {
        EXPECT_FALSE(pool_->shared(slice.sequence->blocks[at])) << "writes a shared block";
      }
    }
    scheduler_->Commit();
    for (Sequence* sequence : sampled) {
      sequence->tokens.push_back(7);
    }
    return rows;
  }

  FakeClock clock_;
  std::deque<Sequence> sequences_;
  std::optional<kv::BlockPool> pool_;
  std::optional<kv::PrefixTree> tree_;
  std::optional<Scheduler> scheduler_;
  int copies_ = 0;
};

using Rows = std::vector<std::pair<const Sequence*, uint32_t>>;

TEST_F(SchedulerTest, DecodesFirstAndChunksALongPrompt) {
  Start({.max_num_batched_tokens = 8}, 64);
  Sequence& a = Add(3, 100);
  EXPECT_EQ(Step(), (Rows{{&a, 3}}));
  Sequence& b = Add(20, 200);
  EXPECT_EQ(Step(), (Rows{{&a, 1}, {&b, 7}}));
  EXPECT_EQ(Step(), (Rows{{&a, 1}, {&b, 7}}));
  EXPECT_EQ(Step(), (Rows{{&a, 1}, {&b, 6}}));
  EXPECT_EQ(Step(), (Rows{{&a, 1}, {&b, 1}}));
}

TEST_F(SchedulerTest, BoundsTheRowsOfOnePromptInAStep) {
  Start({.max_num_batched_tokens = 64, .long_prefill_token_threshold = 7}, 64);
  Sequence& a = Add(16, 100);
  Sequence& b = Add(3, 200);
  EXPECT_EQ(Step(), (Rows{{&a, 7}, {&b, 3}}));
  EXPECT_EQ(Step(), (Rows{{&b, 1}, {&a, 7}}));
  EXPECT_EQ(Step(), (Rows{{&b, 1}, {&a, 2}}));
}

TEST_F(SchedulerTest, KeepsToTheLimitOfSequences) {
  Start({.max_num_seqs = 2}, 64);
  Add(2, 0);
  Add(2, 10);
  Add(2, 20);
  EXPECT_EQ(Step().size(), 2u);
  EXPECT_EQ(scheduler_->waiting(), 1u);
}

TEST_F(SchedulerTest, ReusesACachedPrefixToTheTokenAndCopiesTheSharedBlock) {
  Start({}, 64);
  Sequence& a = Add(10);
  Step();
  scheduler_->Remove(a, true);
  Sequence& b = Add(10);
  EXPECT_EQ(Step(), (Rows{{&b, 1}}));
  EXPECT_EQ(b.cached_tokens, 9u);
  EXPECT_EQ(copies_, 1);
}

TEST_F(SchedulerTest, WithoutCachingComputesEverything) {
  Start({.enable_prefix_caching = false}, 64);
  Sequence& a = Add(10);
  Step();
  scheduler_->Remove(a, true);
  EXPECT_EQ(pool_->free(), pool_->total());
  Sequence& b = Add(10);
  EXPECT_EQ(Step(), (Rows{{&b, 10}}));
}

TEST_F(SchedulerTest, ChoicesShareTheirPromptsBlocks) {
  Start({.enable_prefix_caching = false}, 64);
  Sequence& leader = Add(10);
  Sequence& choice = Add(10);
  choice.maybe_leader = &leader;
  EXPECT_EQ(Step(), (Rows{{&leader, 10}}));
  EXPECT_EQ(Step(), (Rows{{&leader, 1}, {&choice, 1}}));
  EXPECT_EQ(choice.blocks[0], leader.blocks[0]);
  EXPECT_EQ(choice.blocks[1], leader.blocks[1]);
  EXPECT_NE(choice.blocks[2], leader.blocks[2]);
}

TEST_F(SchedulerTest, PreemptsTheLatestOfTheLowestPriorityAndResumesIt) {
  Start({.enable_prefix_caching = false}, 6);
  Sequence& urgent = Add(8, 0, -1);
  Sequence& early = Add(4, 100);
  Sequence& late = Add(4, 200);
  Step();
  EXPECT_EQ(scheduler_->running(), 3u);
  Step();  // each needs one more block: 2 + 1, 1 + 1, 1 + 1 > 6
  EXPECT_EQ(late.preemptions, 1u);
  EXPECT_EQ(early.preemptions, 0u);
  EXPECT_EQ(late.tokens.size(), 5u);
  EXPECT_EQ(scheduler_->waiting(), 1u);
  scheduler_->Remove(urgent, true);
  const Rows rows = Step();
  EXPECT_EQ(rows, (Rows{{&early, 1}, {&late, 5}}));
  EXPECT_EQ(scheduler_->preemptions(), 1u);
}

TEST_F(SchedulerTest, EverySequenceEndsUnderPressure) {
  Start({.max_num_seqs = 8, .max_num_batched_tokens = 16}, 12);
  for (int32_t i = 0; i < 20; ++i) {
    Add(5 + static_cast<uint32_t>(i) % 9, 100 * i);
  }
  size_t ended = 0;
  for (int step = 0; step < 5000 && ended < 20; ++step) {
    Step();
    for (Sequence& sequence : sequences_) {
      if (sequence.state == Sequence::State::kRunning &&
          sequence.tokens.size() >= sequence.prompt_tokens + 20) {
        scheduler_->Remove(sequence, true);
        ++ended;
      }
    }
  }
  EXPECT_EQ(ended, 20u);
  EXPECT_GT(scheduler_->preemptions(), 0u);
  EXPECT_EQ(pool_->free() + pool_->cached_only(), pool_->total());
}

TEST_F(SchedulerTest, HigherPriorityGoesFirstAndWaitingRaisesIt) {
  Start({.max_num_seqs = 1}, 64);
  Sequence& running = Add(2, 0);
  Step();
  Sequence& low = Add(2, 10, 5);
  clock_.AdvanceMs(1000);
  Sequence& high = Add(2, 20, 1);
  scheduler_->Remove(running, false);
  EXPECT_EQ(Step().front().first, &high);
  clock_.AdvanceMs(60'000);  // six levels
  Sequence& newer = Add(2, 30, 0);
  scheduler_->Remove(high, false);
  EXPECT_EQ(Step().front().first, &low);
  scheduler_->Remove(low, false);
  EXPECT_EQ(Step().front().first, &newer);
}

TEST_F(SchedulerTest, TenantsShareByWeight) {
  Start({.max_num_seqs = 1}, 64);
  for (int32_t i = 0; i < 40; ++i) {
    Add(4, 100 * i, 0, "greedy");
  }
  for (int32_t i = 0; i < 10; ++i) {
    Add(4, 10'000 + 100 * i, 0, "modest");
  }
  std::map<std::string, int> served;
  for (int i = 0; i < 20; ++i) {
    const Rows rows = Step();
    ++served[rows.front().first->tenant];
    scheduler_->Remove(*const_cast<Sequence*>(rows.front().first), false);
  }
  EXPECT_EQ(served["modest"], 10);
}

TEST_F(SchedulerTest, LimitsRowsThatAreScored) {
  Start({.max_num_seqs = 6}, 64);
  Sequence& scored = Add(10);
  scored.score_prompt = true;
  EXPECT_EQ(Step(), (Rows{{&scored, 6}}));
  EXPECT_EQ(Step(), (Rows{{&scored, 4}}));
}

}  // namespace
}  // namespace fak::engine
