#include "fleet/residency_index.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <map>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/limits.h"

namespace fak::fleet {
namespace {

using ::testing::ElementsAre;
using Keys = std::vector<uint64_t>;

// A path as prompts make them: each key stands for all before it.
Keys PathOf(std::span<const int> steps) {
  Keys keys;
  uint64_t key = 0;
  for (const int step : steps) {
    key = Xxh3(BytesOf(std::span(&step, 1)), key);
    keys.push_back(key);
  }
  return keys;
}
Keys Path(int first, size_t length) {
  std::vector<int> steps(length, 0);
  steps.front() = first;
  return PathOf(steps);
}

// What the index promises, in the plainest way.
class Model {
 public:
  explicit Model(size_t pairs_max) : pairs_max_(pairs_max) {}

  uint32_t Match(std::span<const uint64_t> keys, ReplicaId replica) {
    uint32_t held = 0;
    while (held < keys.size() && Find(replica, keys[held]) != uses_[replica].end()) {
      ++held;
    }
    return held;
  }
  void Add(ReplicaId replica, std::span<const uint64_t> keys, int confirmed = 0) {
    ++now_;
    for (size_t i = std::min(keys.size(), pairs_max_); i-- > 0;) {
      Put(replica, keys[i], uses_[replica].begin(), now_, confirmed);
      Evict();
    }
  }
  void Confirm(ReplicaId replica, std::optional<uint64_t> after, std::span<const uint64_t> keys) {
    if (!after) {
      Add(replica, keys, 1);
      return;
    }
    for (const uint64_t key : keys) {
      const auto before = Find(replica, *after);
      if (before == uses_[replica].end()) {
        return;
      }
      Put(replica, key, std::next(before), before->used, 1);
      Evict();
      after = key;
    }
  }
  void Remove(ReplicaId replica, std::span<const uint64_t> keys, bool unconfirmed_only) {
    for (const uint64_t key : keys) {
      const auto use = Find(replica, key);
      if (use == uses_[replica].end() || (unconfirmed_only && use->confirmed > 0)) {
        continue;
      }
      if (--use->confirmed <= 0) {
        uses_[replica].erase(use);
      }
    }
  }
  void Clear(ReplicaId replica) { uses_[replica].clear(); }
  size_t pairs() const {
    size_t sum = 0;
    for (const auto& [replica, uses] : uses_) {
      sum += uses.size();
    }
    return sum;
  }

 private:
  struct Use {
    uint64_t key;
    uint64_t used;
    int confirmed;
  };
  using Uses = std::list<Use>;  // the latest first

  Uses::iterator Find(ReplicaId replica, uint64_t key) {
    return std::find_if(uses_[replica].begin(), uses_[replica].end(),
                        [key](const Use& use) { return use.key == key; });
  }
  void Put(ReplicaId replica, uint64_t key, Uses::iterator at, uint64_t used, int confirmed) {
    const auto old = Find(replica, key);
    confirmed += old == uses_[replica].end() ? 0 : old->confirmed;
    uses_[replica].insert(at, {key, used, confirmed});
    if (old != uses_[replica].end()) {
      uses_[replica].erase(old);
    }
  }
  void Evict() {
    if (pairs() <= pairs_max_) {
      return;
    }
    Uses* oldest = nullptr;
    for (auto& [replica, uses] : uses_) {
      if (!uses.empty() && (oldest == nullptr || uses.back().used < oldest->back().used)) {
        oldest = &uses;
      }
    }
    oldest->pop_back();
  }

  const size_t pairs_max_;
  uint64_t now_ = 0;
  std::map<ReplicaId, Uses> uses_;
};

struct Shape {
  size_t pairs_max;
  int replicas;
  int length_max;
  int rounds;
};

void CompareWithModel(uint64_t seed, Shape shape) {
  std::mt19937_64 random(seed);
  const auto below = [&random](int bound) {
    return static_cast<int>(random() % static_cast<uint64_t>(bound));
  };
  FakeRandom fake(seed);
  ResidencyIndex index(shape.pairs_max, fake);
  Model model(shape.pairs_max);
  std::vector<ReplicaId> replicas;
  for (int i = 0; i < shape.replicas; ++i) {
    replicas.push_back(static_cast<ReplicaId>(i * 7));
  }
  for (int round = 0; round < shape.rounds; ++round) {
    std::vector<int> steps(static_cast<size_t>(1 + below(shape.length_max)));
    for (int& step : steps) {
      step = below(shape.length_max) < 3 ? below(3) : 0;
    }
    const Keys path = PathOf(steps);
    const ReplicaId replica = replicas[static_cast<size_t>(below(shape.replicas))];
    const size_t cut = static_cast<size_t>(below(static_cast<int>(path.size())));
    const auto tail = std::span(path).subspan(cut);
    const auto after = cut == 0 ? std::nullopt : std::optional(path[cut - 1]);
    const int what = below(100);
    if (what < 40) {
      index.Add(replica, path);
      model.Add(replica, path);
    } else if (what < 75) {
      index.Confirm(replica, after, tail);
      model.Confirm(replica, after, tail);
    } else if (what < 98) {
      const bool unconfirmed_only = what < 85;
      const auto gone = tail.first(std::min<size_t>(tail.size(), 3));
      unconfirmed_only ? index.DropUnconfirmed(replica, gone) : index.Remove(replica, gone);
      model.Remove(replica, gone, unconfirmed_only);
    } else {
      index.Clear(replica);
      model.Clear(replica);
    }
    ASSERT_EQ(index.pairs(), model.pairs()) << "seed " << seed << " round " << round;
    ASSERT_LE(index.pairs(), shape.pairs_max);
    const auto held = index.Match(path, replicas);
    for (size_t i = 0; i < replicas.size(); ++i) {
      ASSERT_EQ(held[i], model.Match(path, replicas[i])) << "seed " << seed << " round " << round;
    }
  }
}

TEST(ResidencyIndex, AnswersAsAPlainMapDoes) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CompareWithModel(seed, {.pairs_max = 1000, .replicas = 4, .length_max = 12, .rounds = 600});
  }
}

TEST(ResidencyIndex, ForgetsWhatAPlainListOfUsesWould) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CompareWithModel(seed, {.pairs_max = 40, .replicas = 5, .length_max = 12, .rounds = 600});
  }
}

TEST(ResidencyIndex, AnswersAlikeWhereAPathTakesSeveralTurns) {
  CompareWithModel(1, {.pairs_max = 900, .replicas = 3, .length_max = 700, .rounds = 60});
}

TEST(ResidencyIndex, TellsManyReplicasApart) {
  CompareWithModel(1, {.pairs_max = 3000, .replicas = 200, .length_max = 8, .rounds = 1500});
}

TEST(ResidencyIndex, CountsUnitsUpToTheFirstGap) {
  ResidencyIndex index(100);
  const Keys path = Path(1, 10);
  const std::vector<ReplicaId> replicas = {7, 3, 7, 9};
  index.Add(7, path);
  index.Add(3, std::span(path).first(4));
  EXPECT_THAT(index.Match(path, replicas), ElementsAre(10, 4, 10, 0));
  index.Remove(7, std::span(path).subspan(6, 1));
  EXPECT_THAT(index.Match(path, replicas), ElementsAre(6, 4, 6, 0));
  index.Confirm(7, path[5], std::span(path).subspan(6, 1));
  EXPECT_THAT(index.Match(path, replicas), ElementsAre(10, 4, 10, 0));
  EXPECT_THAT(index.Match({}, replicas), ElementsAre(0, 0, 0, 0));
  EXPECT_TRUE(index.Match(path, {}).empty());
}

TEST(ResidencyIndex, LosesTheLongestUnusedPathFromItsEnd) {
  ResidencyIndex index(20);
  const Keys a = Path(1, 10);
  const Keys b = Path(2, 10);
  const std::vector<ReplicaId> one = {1};
  index.Add(1, a);
  index.Add(1, b);
  index.Add(1, a);  // used again
  index.Add(2, Path(3, 4));
  EXPECT_EQ(index.pairs(), 20u);
  EXPECT_THAT(index.Match(a, one), ElementsAre(10));
  EXPECT_THAT(index.Match(b, one), ElementsAre(6));
}

TEST(ResidencyIndex, KeepsTheBeginningOfAPathThatIsTooLong) {
  ResidencyIndex index(8);
  const Keys path = Path(1, 1000);
  index.Add(1, path);
  EXPECT_THAT(index.Match(path, std::vector<ReplicaId>{1}), ElementsAre(8));
}

TEST(ResidencyIndex, ConfirmsNothingBehindWhatIsNotThere) {
  ResidencyIndex index(100);
  const Keys path = Path(1, 4);
  index.Confirm(1, path[1], std::span(path).subspan(2));
  EXPECT_EQ(index.pairs(), 0u);
}

TEST(ResidencyIndex, KeepsAUnitAsLongAsABlockStandsForIt) {
  ResidencyIndex index(100);
  const Keys path = Path(1, 1);
  const std::vector<ReplicaId> one = {1};
  index.Confirm(1, std::nullopt, path);
  index.Confirm(1, std::nullopt, path);
  index.Add(1, path);
  index.DropUnconfirmed(1, path);
  index.Remove(1, path);
  EXPECT_THAT(index.Match(path, one), ElementsAre(1));
  index.Remove(1, path);
  EXPECT_THAT(index.Match(path, one), ElementsAre(0));
  index.Add(1, path);
  index.DropUnconfirmed(1, path);
  EXPECT_EQ(index.pairs(), 0u);
}

TEST(ResidencyIndex, UsesTheRoomOfReplicasThatWereCleared) {
  ResidencyIndex index(1000);
  for (ReplicaId replica = 0; replica < 3 * limits::kResidencyReplicasMax; ++replica) {
    index.Add(replica, Path(1, 2));
    index.Clear(replica);
  }
  EXPECT_EQ(index.pairs(), 0u);
  for (ReplicaId replica = 0; replica <= limits::kResidencyReplicasMax; ++replica) {
    index.Add(replica, Path(1, 1));
  }
  EXPECT_EQ(index.pairs(), 1000u);
  index.Clear(0);
  index.Add(5 * limits::kResidencyReplicasMax, Path(1, 1));
  EXPECT_THAT(index.Match(Path(1, 1), std::vector<ReplicaId>{5 * limits::kResidencyReplicasMax}),
              ElementsAre(1));
}

TEST(ResidencyIndex, TakesFewBytesAPair) {
  ResidencyIndex index(1'000'000);
  for (int i = 1; i <= 300; ++i) {
    index.Add(static_cast<ReplicaId>(i % 64), Path(i, 1000));
  }
  EXPECT_EQ(index.pairs(), 300'000u);
  EXPECT_LE(index.bytes(), 64 * index.pairs());
}

TEST(ResidencyIndex, NeverAnswersTooMuchWhileItChanges) {
  ResidencyIndex index(3000);
  const Keys held = Path(1, 700);
  const Keys other = Path(2, 700);
  const std::vector<ReplicaId> replicas = {1, 2, 3};
  index.Add(1, held);
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  const auto read = [&] {
    while (!done) {
      const auto a = index.Match(held, replicas);
      const auto b = index.Match(other, replicas);
      wrong += a[1] != 0 || a[2] != 0 || b[0] != 0 || b[1] > 700;
    }
  };
  const auto write = [&](ReplicaId replica) {
    for (int i = 0; i < 200; ++i) {
      index.Add(replica, other);
      index.Confirm(replica, other[9], std::span(other).subspan(10, 5));
      index.Remove(replica, std::span(other).last(5));
      if (i % 10 == 0) {
        index.Clear(replica);
      }
    }
  };
  std::vector<std::thread> readers(2);
  for (std::thread& reader : readers) {
    reader = std::thread(read);
  }
  std::thread second(write, 2);
  write(3);
  second.join();
  done = true;
  for (std::thread& reader : readers) {
    reader.join();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_THAT(index.Match(held, replicas), ElementsAre(700, 0, 0));
  EXPECT_THAT(index.Match(other, replicas), ElementsAre(0, 695, 695));
}

}  // namespace
}  // namespace fak::fleet
