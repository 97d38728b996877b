#include "engine/scheduler.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "kv/event_log.h"
#include "kv/unit_keys.h"

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
                std::string tenant = "", double tenant_weight = 1.0) {
    Sequence& sequence = sequences_.emplace_back();
    sequence.tenant = std::move(tenant);
    sequence.tenant_weight = tenant_weight;
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
  Sequence& early = Add(4, 100);
  Sequence& late = Add(4, 200);
  Sequence& urgent = Add(8, 0, -1);  // the latest, but not of the lowest priority
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

TEST_F(SchedulerTest, OneThatFillsThePoolGetsOnBesideItsOwnCachedTail) {
  Start({}, 4);
  Sequence& a = Add(14);
  Step();
  scheduler_->Remove(a, true);
  Sequence& b = Add(14);  // its last block is the tree's, and there is none for a copy
  EXPECT_EQ(Step(), (Rows{{&b, 1}}));
  EXPECT_EQ(Step(), (Rows{{&b, 1}}));
  EXPECT_EQ(b.tokens.size(), 16u);
  EXPECT_EQ(scheduler_->preemptions(), 0u);
}

TEST_F(SchedulerTest, OneThatFillsThePoolGetsOnBesideTwinsOfItsBlocks) {
  Start({.max_num_batched_tokens = 4}, 4);
  Sequence& a = Add(8);
  Step();
  Step();
  scheduler_->Remove(a, true);
  Sequence& b = Add(14);
  b.score_prompt = true;  // takes nothing from the cache, and leaves its own behind it there
  size_t steps = 0;
  while (b.tokens.size() < 16 && ++steps < 100) {
    Step();
  }
  EXPECT_EQ(b.tokens.size(), 16u);
  EXPECT_EQ(scheduler_->preemptions(), 0u);
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
  for (int32_t i = 0; i < 40; ++i) {
    Add(4, 10'000 + 100 * i, 0, "modest");
    Add(4, 20'000 + 100 * i, 0, "heavy", 3.0);
  }
  std::map<std::string, int> served;
  for (int i = 0; i < 50; ++i) {
    const Rows rows = Step();
    ++served[rows.front().first->tenant];
    scheduler_->Remove(*const_cast<Sequence*>(rows.front().first), false);
  }
  EXPECT_EQ(served, (std::map<std::string, int>{{"greedy", 10}, {"modest", 10}, {"heavy", 30}}));
}

TEST_F(SchedulerTest, LimitsRowsThatAreScored) {
  Start({.max_num_seqs = 6}, 64);
  Sequence& scored = Add(10);
  scored.score_prompt = true;
  EXPECT_EQ(Step(), (Rows{{&scored, 6}}));
  EXPECT_EQ(Step(), (Rows{{&scored, 4}}));
}

// What a consumer of KV events knows of a cache: each block's parent and tokens, by its name.
class CacheModel {
 public:
  void Apply(const std::vector<wire::KvEvent>& events) {
    for (const wire::KvEvent& event : events) {
      switch (event.kind) {
        case wire::KvEvent::Kind::kStored: Store(event); break;
        case wire::KvEvent::Kind::kRemoved:
          for (const uint64_t name : event.block_hashes) {
            EXPECT_EQ(blocks_.erase(name), 1u) << "removed and not stored";
          }
          break;
        case wire::KvEvent::Kind::kCleared: blocks_.clear(); break;
      }
    }
  }
  // Every block's parent is there, or the block starts a prompt.
  bool whole() const {
    return std::all_of(blocks_.begin(), blocks_.end(), [this](const auto& block) {
      return block.second.starts || blocks_.contains(block.second.parent);
    });
  }
  size_t size() const { return blocks_.size(); }
  // Blocks of the longest known prefix.
  size_t Known(std::string_view salt, std::span<const int32_t> tokens) const {
    uint64_t before = kv::RootKey(salt);
    for (size_t at = 0; at + 4 <= tokens.size(); at += 4) {
      const uint64_t name = kv::BlockKey(before, tokens.subspan(at, 4));
      const auto found = blocks_.find(name);
      if (found == blocks_.end() ||
          !std::ranges::equal(found->second.tokens, tokens.subspan(at, 4)) ||
          (at == 0 ? found->second.salt != salt : found->second.parent != before)) {
        return at / 4;
      }
      before = name;
    }
    return tokens.size() / 4;
  }

 private:
  struct Block {
    bool starts = false;
    uint64_t parent = 0;
    std::string salt;
    std::vector<int32_t> tokens;
  };

  void Store(const wire::KvEvent& event) {
    ASSERT_EQ(event.tokens.size(), event.block_hashes.size() * 4);
    for (size_t i = 0; i < event.block_hashes.size(); ++i) {
      Block block;
      block.starts = i == 0 && !event.parent_hash;
      block.parent = i > 0 ? event.block_hashes[i - 1] : event.parent_hash.value_or(0);
      block.salt = block.starts ? event.cache_salt : "";
      const auto begin = event.tokens.begin() + static_cast<ptrdiff_t>(4 * i);
      block.tokens.assign(begin, begin + 4);
      EXPECT_TRUE(blocks_.emplace(event.block_hashes[i], std::move(block)).second)
          << "stored twice";
    }
  }

  std::map<uint64_t, Block> blocks_;
};

// Under random arrivals, cancels, evictions and preemptions, whoever replays the events knows of
// every prompt exactly the blocks that the prefix tree holds, and of no others.
TEST_F(SchedulerTest, KvEventsReplayedAreTheContentOfTheTree) {
  uint64_t preemptions = 0;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    kv::EventLog log;
    CacheModel model;
    sequences_.clear();
    scheduler_.reset();
    tree_.reset();
    Start({.max_num_seqs = 6, .max_num_batched_tokens = 24}, 24);
    tree_->set_event_log(&log);
    for (int step = 0; step < 400; ++step) {
      if (scheduler_->waiting() < 4 && random() % 3 == 0) {
        Sequence& sequence = sequences_.emplace_back();
        sequence.salt = random() % 2 == 0 ? "" : "tenant";
        sequence.arrival = sequences_.size();
        sequence.arrival_ns = clock_.NowNs();
        sequence.prompt_tokens = 1 + random() % 40;
        for (uint32_t i = 0; i < sequence.prompt_tokens; ++i) {  // few tokens: much is shared
          sequence.tokens.push_back(i < 8 ? 1 : static_cast<int32_t>(random() % 2));
        }
        scheduler_->Add(sequence);
      }
      Step();
      for (Sequence& sequence : sequences_) {
        const bool done = sequence.tokens.size() >= sequence.prompt_tokens + 12u;
        if (sequence.state != Sequence::State::kEnded && (done || random() % 60 == 0)) {
          scheduler_->Remove(sequence, random() % 8 != 0);
        }
      }
      const auto chance = random() % 100;
      if (chance == 0) {
        tree_->Clear();
      } else if (chance < 4 && !sequences_.empty()) {
        const Sequence& named = sequences_[random() % sequences_.size()];
        tree_->Prune(named.salt, std::span(named.tokens).first(1 + random() % named.tokens.size()));
      }
      model.Apply(log.Take());
      ASSERT_TRUE(model.whole()) << "seed " << seed << " step " << step;
      std::set<uint64_t> held;  // by the tree
      for (const Sequence& sequence : sequences_) {
        const auto match = tree_->Find(sequence.salt, sequence.tokens,
                                       static_cast<uint32_t>(sequence.tokens.size()));
        for (const kv::BlockId block : match.blocks) {
          pool_->Release(block);
        }
        ASSERT_EQ(model.Known(sequence.salt, sequence.tokens), match.tokens / 4)
            << "seed " << seed << " step " << step;
        uint64_t name = kv::RootKey(sequence.salt);
        for (size_t at = 0; at + 4 <= match.tokens; at += 4) {
          name = kv::BlockKey(name, std::span(sequence.tokens).subspan(at, 4));
          held.insert(name);
        }
      }
      ASSERT_EQ(model.size(), held.size()) << "seed " << seed << " step " << step;
    }
    preemptions += scheduler_->preemptions();
  }
  EXPECT_GT(preemptions, 0u);
}

}  // namespace
}  // namespace fak::engine
