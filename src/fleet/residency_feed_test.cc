#include "fleet/residency_feed.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "kv/unit_keys.h"

namespace fak::fleet {
namespace {

using wire::KvEvent;
using wire::KvEventBatch;
using wire::KvMedium;
using Tokens = std::vector<int32_t>;

constexpr ReplicaId kReplica = 5;

Tokens Iota(int32_t first, size_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// Blocks `hashes` with tokens that count up from `first`.
KvEvent Stored(std::vector<uint64_t> hashes, std::optional<uint64_t> parent, int32_t first,
               int32_t block_size = 16) {
  KvEvent event{.block_hashes = std::move(hashes), .parent_hash = parent, .block_size = block_size};
  event.tokens = Iota(first, event.block_hashes.size() * static_cast<size_t>(block_size));
  return event;
}
KvEvent Removed(std::vector<uint64_t> hashes, KvMedium medium = KvMedium::kDevice) {
  return {.kind = KvEvent::Kind::kRemoved, .block_hashes = std::move(hashes), .medium = medium};
}
const KvEvent kCleared{.kind = KvEvent::Kind::kCleared};

class ResidencyFeedTest : public ::testing::Test {
 protected:
  void Take(std::vector<KvEvent> events, uint64_t generation = 0, int32_t rank = 0) {
    feed_.OnBatch({.generation = generation, .rank = rank, .events = std::move(events)});
  }
  uint32_t Held(const Tokens& tokens, std::string_view salt = "") {
    return index_.Match(kv::UnitKeys(salt, tokens), std::vector<ReplicaId>{kReplica}).front();
  }
  uint32_t HeldFromZero(size_t count) { return Held(Iota(0, count)); }

  ResidencyIndex index_{10'000};
  ResidencyFeed feed_{index_, kReplica};
};

TEST_F(ResidencyFeedTest, SplitsBlocksIntoUnits) {
  Take({Stored({1, 2}, {}, 0, 64), Stored({3}, 2, 128, 32)});
  EXPECT_EQ(HeldFromZero(200), 10u);
  Take({Removed({3})});
  EXPECT_EQ(HeldFromZero(200), 8u);
  Take({Removed({1})});
  EXPECT_EQ(HeldFromZero(200), 0u);
  Take({Stored({1}, {}, 0, 64)});
  EXPECT_EQ(HeldFromZero(200), 8u);
}

TEST_F(ResidencyFeedTest, MakesUnitsOfSmallBlocks) {
  for (int32_t i = 0; i < 40; ++i) {
    const auto hash = static_cast<uint64_t>(i + 1);
    Take({Stored({hash}, i == 0 ? std::nullopt : std::optional(hash - 1), i, 1)});
    EXPECT_EQ(HeldFromZero(100), static_cast<uint32_t>(i + 1) / 16);
  }
  Take({Removed({20})});
  EXPECT_EQ(HeldFromZero(100), 1u);
  Take({Stored({20}, 19, 19, 1)});
  EXPECT_EQ(HeldFromZero(100), 2u);
}

TEST_F(ResidencyFeedTest, MakesUnitsAcrossBlocksOfAnySize) {
  Take({Stored({1, 2, 3}, {}, 0, 24)});  // 72 tokens
  EXPECT_EQ(HeldFromZero(100), 4u);
  Take({Removed({2})});  // 24 to 47: what remains is the first unit
  EXPECT_EQ(HeldFromZero(100), 1u);
  EXPECT_EQ(index_.pairs(), 2u);  // and the unit that lies in block 3 alone
}

TEST_F(ResidencyFeedTest, HoldsABlockWhileAMediumDoes) {
  KvEvent moved{.block_hashes = {1}, .medium = KvMedium::kHost};
  Take({Stored({1}, {}, 0), moved, Removed({1})});
  EXPECT_EQ(HeldFromZero(16), 1u);
  Take({moved});
  EXPECT_EQ(feed_.stats().duplicates, 1u);
  Take({Removed({1}, KvMedium::kHost)});
  EXPECT_EQ(HeldFromZero(16), 0u);
  Take({moved});
  EXPECT_EQ(feed_.stats().unknown_blocks, 1u);
  for (const KvMedium medium : {KvMedium::kStorage, KvMedium::kExternal}) {
    KvEvent elsewhere = Stored({2}, {}, 0);
    elsewhere.medium = medium;
    Take({elsewhere});
  }
  EXPECT_EQ(HeldFromZero(16), 0u);
  EXPECT_EQ(feed_.stats().ignored, 2u);
}

TEST_F(ResidencyFeedTest, HoldsAUnitWhileOneOfEqualBlocksDoes) {
  KvEvent chunk = Stored({77}, {}, 0, 256);
  chunk.medium = KvMedium::kHost;
  Take({Stored({1, 2}, {}, 0), chunk, Removed({1, 2})});
  EXPECT_EQ(HeldFromZero(256), 16u);
  Take({Stored({1, 2}, {}, 0), Removed({77}, KvMedium::kHost)});
  EXPECT_EQ(HeldFromZero(256), 2u);
}

TEST_F(ResidencyFeedTest, KeepsSaltsApart) {
  KvEvent salted = Stored({1, 2}, {}, 0);
  salted.cache_salt = "a";
  Take({salted, Stored({3}, 2, 32)});
  EXPECT_EQ(Held(Iota(0, 48), "a"), 3u);
  EXPECT_EQ(Held(Iota(0, 48)), 0u);
  EXPECT_EQ(Held(Iota(0, 48), "b"), 0u);
}

TEST_F(ResidencyFeedTest, LeavesOutWhatPlainPromptsCannotMean) {
  KvEvent adapted = Stored({1}, {}, 0);
  adapted.adapter = "lora";
  KvEvent pictured = Stored({4, 5, 6}, {}, 0);
  pictured.extra_keys = {"", "image", ""};
  Take({adapted, pictured, Stored({7}, 6, 48)});
  EXPECT_EQ(HeldFromZero(100), 1u);
  EXPECT_EQ(index_.pairs(), 1u);
  EXPECT_EQ(feed_.stats().left_out, 2u);
  EXPECT_EQ(feed_.stats().unknown_parents, 1u);
}

TEST_F(ResidencyFeedTest, TakesOneGroupThatKeepsTheWholePrefix) {
  KvEvent window = Stored({1}, {}, 0);
  window.group = 1;
  window.whole_prefix = false;
  KvEvent other = Stored({1}, {}, 0);
  other.group = 2;
  KvEvent gone = Removed({1});
  gone.group = 1;
  Take({window});
  EXPECT_EQ(HeldFromZero(16), 0u);
  EXPECT_FALSE(feed_.live());
  Take({Stored({1}, {}, 0), other, gone});
  EXPECT_EQ(HeldFromZero(16), 1u);
  EXPECT_EQ(feed_.stats().ignored, 3u);
}

TEST_F(ResidencyFeedTest, CountsWhatItCannotPlace) {
  Take({Stored({2}, 1, 16), Removed({9})});
  EXPECT_EQ(feed_.stats().unknown_parents, 1u);
  EXPECT_EQ(feed_.stats().unknown_blocks, 1u);
  KvEvent odd = Stored({1, 2}, {}, 0);
  odd.tokens.pop_back();
  KvEvent none = Stored({1}, {}, 0);
  none.block_size = 0;
  Take({odd, none});
  EXPECT_EQ(feed_.stats().malformed, 2u);
  EXPECT_EQ(index_.pairs(), 0u);
}

TEST_F(ResidencyFeedTest, ForgetsAllWhenClearedOrInANewGeneration) {
  Take({Stored({1}, {}, 0)}, 3);
  EXPECT_TRUE(feed_.live());
  Take({Stored({2}, 1, 16)}, 2);  // late
  EXPECT_EQ(HeldFromZero(32), 1u);
  EXPECT_EQ(feed_.stats().late, 1u);
  Take({kCleared}, 3);
  EXPECT_EQ(HeldFromZero(32), 0u);
  EXPECT_FALSE(feed_.live());
  Take({Stored({1}, {}, 0)}, 3);
  Take({Stored({2}, 1, 16)}, 4);
  EXPECT_EQ(HeldFromZero(32), 0u);
  EXPECT_EQ(feed_.stats().unknown_parents, 1u);
  Take({Stored({1}, {}, 0)}, 4);
  feed_.Clear();
  EXPECT_EQ(HeldFromZero(32), 0u);
  Take({Stored({1}, {}, 0)}, 0);  // of a new driver
  EXPECT_EQ(HeldFromZero(32), 1u);
}

TEST_F(ResidencyFeedTest, ClearsOneRankAlone) {
  Take({Stored({1, 2}, {}, 0)}, 0, 0);
  Take({Stored({1, 2, 3}, {}, 0)}, 7, 1);
  EXPECT_EQ(HeldFromZero(100), 3u);
  Take({kCleared}, 7, 1);
  EXPECT_EQ(HeldFromZero(100), 2u);
  Take({Stored({1}, {}, 0)}, 8, 1);
  Take({}, 1, 0);
  EXPECT_EQ(HeldFromZero(100), 1u);
  Take({kCleared}, 8, 1);
  EXPECT_EQ(index_.pairs(), 0u);
}

TEST_F(ResidencyFeedTest, DropsWhatWasRoutedAndNeverStored) {
  const auto keys = kv::UnitKeys("", Iota(0, 64));
  index_.Add(kReplica, keys);
  feed_.OnEnded(keys, 0);  // it has told nothing yet: nothing is known better
  EXPECT_EQ(HeldFromZero(64), 4u);
  Take({Stored({1}, {}, 0, 32)});
  feed_.OnEnded(keys, 48);  // and a third unit was there already, as it said
  EXPECT_EQ(HeldFromZero(64), 3u);
  feed_.OnEnded(keys, 0);
  EXPECT_EQ(HeldFromZero(64), 2u);
}

// An engine as the feed hears it, and what it holds.
class FakeEngine {
 public:
  FakeEngine(int32_t rank, size_t block_size) : rank_(rank), block_size_(block_size) {}

  void Run(const Tokens& tokens, KvMedium medium, std::vector<KvEvent>& events) {
    bool goes_on = false;
    std::optional<uint64_t> parent;
    for (size_t end = block_size_; end <= tokens.size(); end += block_size_) {
      const uint64_t hash = HashOf(tokens, end);
      blocks_[hash].path.assign(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(end));
      if (!blocks_[hash].media.insert(medium).second) {
        goes_on = false;
      } else {
        if (!goes_on) {
          events.push_back({.medium = medium,
                            .parent_hash = parent,
                            .block_size = static_cast<int32_t>(block_size_)});
        }
        events.back().block_hashes.push_back(hash);
        events.back().tokens.insert(events.back().tokens.end(),
                                    tokens.begin() + static_cast<ptrdiff_t>(end - block_size_),
                                    tokens.begin() + static_cast<ptrdiff_t>(end));
        goes_on = true;
      }
      parent = hash;
    }
  }
  void RemoveOne(std::mt19937_64& random, std::vector<KvEvent>& events) {
    if (blocks_.empty()) {
      return;
    }
    const auto block =
        std::next(blocks_.begin(), static_cast<ptrdiff_t>(random() % blocks_.size()));
    const KvMedium medium = *block->second.media.begin();
    events.push_back(Removed({block->first}, medium));
    block->second.media.erase(medium);
    if (block->second.media.empty()) {
      blocks_.erase(block);
    }
  }
  void Clear() { blocks_.clear(); }
  // Its keys say nothing of the tokens behind a unit: blocks that go on there may be anyone's.
  bool HasUnit(const Tokens& tokens, size_t unit) const {
    const size_t unit_end = unit * 16 + 16;
    for (size_t at = unit_end - 16; at < unit_end; ++at) {
      const size_t end = (at / block_size_ + 1) * block_size_;
      const auto begins_alike = [&](const auto& block) {
        const Tokens& path = block.second.path;
        return path.size() == end &&
               std::equal(path.begin(),
                          path.begin() + static_cast<ptrdiff_t>(std::min(end, unit_end)),
                          tokens.begin());
      };
      if (!std::any_of(blocks_.begin(), blocks_.end(), begins_alike)) {
        return false;
      }
    }
    return true;
  }
  int32_t rank() const { return rank_; }

 private:
  uint64_t HashOf(const Tokens& tokens, size_t end) const {
    return Xxh3(BytesOf(std::span(tokens).first(end)), static_cast<uint64_t>(rank_) + 99);
  }
  const int32_t rank_;
  const size_t block_size_;
  struct Block {
    Tokens path;
    std::set<KvMedium> media;
  };
  std::map<uint64_t, Block> blocks_;
};

Tokens RandomPrompt(std::mt19937_64& random) {
  Tokens tokens(random() % 150 + 1);
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = random() % 40 == 0 ? static_cast<int32_t>(random() % 2) : 2;
  }
  return tokens;
}

struct Followed {
  std::vector<FakeEngine> ranks;
  ResidencyIndex index{100'000};
  ResidencyFeed feed;

  Followed(size_t block_size, size_t count, size_t blocks_max) : feed(index, 1, blocks_max) {
    for (size_t i = 0; i < count; ++i) {
      ranks.emplace_back(static_cast<int32_t>(i), block_size);
    }
  }
  void Step(std::mt19937_64& random, uint64_t& generation) {
    FakeEngine& engine = ranks[random() % ranks.size()];
    KvEventBatch batch{.rank = engine.rank()};
    const uint64_t what = random() % 100;
    if (what < 55) {
      engine.Run(RandomPrompt(random), random() % 4 == 0 ? KvMedium::kHost : KvMedium::kDevice,
                 batch.events);
    } else if (what < 98) {
      for (int i = 0; i < 6; ++i) {
        engine.RemoveOne(random, batch.events);
      }
    } else {
      engine.Clear();
      what == 98 ? batch.events.push_back(kCleared) : void(++generation);
    }
    batch.generation = generation;
    feed.OnBatch(batch);
    if (what == 99) {  // a generation is a rank's own; here all raise theirs
      for (FakeEngine& other : ranks) {
        other.Clear();
        feed.OnBatch({.generation = generation, .rank = other.rank()});
      }
    }
  }
  uint32_t Truth(const Tokens& tokens) const {
    uint32_t units = 0;
    while (units < tokens.size() / 16 &&
           std::any_of(
               ranks.begin(), ranks.end(),
               [&](const FakeEngine& rank) { return rank.HasUnit(tokens, units); })) {
      ++units;
    }
    return units;
  }
  uint32_t Believed(const Tokens& tokens) const {
    return index.Match(kv::UnitKeys("", tokens), std::vector<ReplicaId>{1}).front();
  }
};

TEST(ResidencyFeed, BelievesWhatIsTrueForBlocksOfAnySize) {
  for (const size_t block_size : {1, 4, 10, 16, 24, 32, 48}) {
    for (const size_t ranks : {1, 3}) {
      std::mt19937_64 random(block_size * 10 + ranks);
      Followed followed(block_size, ranks, 100'000);
      uint64_t generation = 1;
      for (int step = 0; step < 400; ++step) {
        followed.Step(random, generation);
        for (int i = 0; i < 3; ++i) {
          const Tokens prompt = RandomPrompt(random);
          ASSERT_EQ(followed.Believed(prompt), followed.Truth(prompt))
              << "block size " << block_size << " ranks " << ranks << " step " << step;
        }
      }
      EXPECT_EQ(followed.feed.stats().unknown_parents, 0u);
      EXPECT_EQ(followed.feed.stats().unknown_blocks, 0u);
    }
  }
}

TEST(ResidencyFeed, BelievesNothingFalseWhereItMustForget) {
  for (const size_t block_size : {1, 16, 24}) {
    std::mt19937_64 random(block_size);
    Followed followed(block_size, 2, 20);
    uint64_t generation = 1;
    for (int step = 0; step < 400; ++step) {
      followed.Step(random, generation);
      for (int i = 0; i < 3; ++i) {
        const Tokens prompt = RandomPrompt(random);
        ASSERT_LE(followed.Believed(prompt), followed.Truth(prompt)) << "step " << step;
      }
    }
    EXPECT_GT(followed.feed.stats().forgotten, 0u);
  }
}

TEST(ResidencyFeed, ForgetsTheOldestPathFromItsEnd) {
  ResidencyIndex index(1000);
  ResidencyFeed feed(index, 1, 8);
  const auto held = [&index](int32_t first) {
    return index.Match(kv::UnitKeys("", Iota(first, 80)), std::vector<ReplicaId>{1}).front();
  };
  feed.OnBatch({.events = {Stored({1, 2, 3, 4}, {}, 0), Stored({11, 12, 13, 14}, {}, 1000)}});
  feed.OnBatch({.events = {Stored({15}, 14, 1064)}});
  EXPECT_EQ(held(0), 3u);
  EXPECT_EQ(held(1000), 5u);
  feed.OnBatch({.events = {Removed({15}), Stored({21}, {}, 500)}});
  EXPECT_EQ(held(0), 3u);
  EXPECT_EQ(held(1000), 4u);
  EXPECT_EQ(held(500), 1u);
  EXPECT_EQ(feed.stats().forgotten, 1u);
}

}  // namespace
}  // namespace fak::fleet
