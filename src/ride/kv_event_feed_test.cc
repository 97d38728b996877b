#include "ride/kv_event_feed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "net/zmq_publisher.h"

namespace fak::ride {
namespace {

using wire::KvEvent;
using wire::KvEventBatch;
using Frames = std::vector<std::string>;

// A publisher of which a test says what arrives.
class KvEventFeedTest : public ::testing::Test {
 protected:
  void Start(bool can_replay, std::optional<int32_t> rank = {}) {
    feed_.emplace(
        KvEventFeedOptions{.rank = rank, .can_replay = can_replay}, clock_,
        [this](const KvEventBatch& batch) { got_.push_back(batch); },
        [this](uint64_t first) { asked_.push_back(first); });
  }
  // The batch of a number stores a block of that name.
  std::string Payload(uint64_t number, double time_s = -1, int32_t rank = 0) {
    KvEventBatch batch;
    batch.rank = rank;
    batch.time_s = time_s < 0 ? static_cast<double>(number) + epoch_s_ : time_s;
    batch.events.push_back({.block_hashes = {number}, .tokens = {1}, .block_size = 1});
    return kv::EncodeKvEvents(batch);
  }
  void Live(uint64_t number) {
    feed_->OnMessage({"kv", net::BigEndian64(number), Payload(number)});
  }
  bool Replayed(uint64_t number) {
    return feed_->OnReplayed({"", "kv", net::BigEndian64(number), Payload(number)});
  }
  bool ReplayEnds() { return feed_->OnReplayed({"", "", net::BigEndian64(net::kReplayEnd), ""}); }
  // What was handed on: a block's name, or "C" and the new generation.
  std::string Got() {
    std::string text;
    for (const KvEventBatch& batch : got_) {
      text += text.empty() ? "" : " ";
      text += batch.events.front().kind == KvEvent::Kind::kCleared
                  ? "C" + std::to_string(batch.generation)
                  : std::to_string(batch.events.front().block_hashes.front());
    }
    return text;
  }

  FakeClock clock_;
  double epoch_s_ = 1000;  // when the publisher began
  std::optional<KvEventFeed> feed_;
  std::vector<KvEventBatch> got_;
  std::vector<uint64_t> asked_;
};

TEST_F(KvEventFeedTest, HandsOnWhatComesInOrder) {
  Start(false);
  Live(0);
  Live(1);
  Live(2);
  EXPECT_EQ(Got(), "0 1 2");
  EXPECT_EQ(got_[2].sequence, 2u);
  EXPECT_EQ(got_[2].generation, 0u);
}

TEST_F(KvEventFeedTest, AGapWithoutReplayClears) {
  Start(false);
  Live(0);
  Live(2);
  Live(3);
  EXPECT_EQ(Got(), "0 C1 2 3");
  EXPECT_EQ(got_.back().generation, 1u);
  EXPECT_EQ(feed_->stats().gaps, 1u);
  EXPECT_TRUE(asked_.empty());
}

TEST_F(KvEventFeedTest, AGapBeforeAnythingWasHandedOnCostsNothing) {
  Start(false);
  Live(57);
  Live(58);
  EXPECT_EQ(Got(), "57 58");
  EXPECT_EQ(feed_->generation(), 0u);
}

TEST_F(KvEventFeedTest, AGapIsFilledByReplayAndLiveBatchesWait) {
  Start(true);
  Live(0);
  Live(3);
  EXPECT_EQ(asked_, std::vector<uint64_t>{1});
  Live(4);
  EXPECT_EQ(Got(), "0");
  EXPECT_TRUE(Replayed(1));
  EXPECT_TRUE(Replayed(2));
  EXPECT_TRUE(Replayed(3));
  EXPECT_FALSE(ReplayEnds());
  EXPECT_EQ(Got(), "0 1 2 3 4");
  EXPECT_EQ(feed_->generation(), 0u);
  Live(5);
  EXPECT_EQ(Got(), "0 1 2 3 4 5");
}

TEST_F(KvEventFeedTest, TakesTheReplayOfOlderEngines) {
  Start(true);
  Live(0);
  Live(2);
  EXPECT_TRUE(feed_->OnReplayed({"", net::BigEndian64(1), Payload(1)}));
  EXPECT_FALSE(feed_->OnReplayed({"", net::BigEndian64(net::kReplayEnd), ""}));
  EXPECT_EQ(Got(), "0 1 2");
}

TEST_F(KvEventFeedTest, AsksForThePastWhenItConnects) {
  Start(true);
  feed_->OnConnected();
  EXPECT_EQ(asked_, std::vector<uint64_t>{0});
  Live(6);
  Replayed(4);  // what is older was no longer kept
  Replayed(5);
  Replayed(6);
  ReplayEnds();
  Live(7);
  EXPECT_EQ(Got(), "4 5 6 7");
  EXPECT_EQ(feed_->generation(), 0u);
}

TEST_F(KvEventFeedTest, AHoleThatReplayNoLongerHasClears) {
  Start(true);
  Live(0);
  Live(9);
  Replayed(5);
  Replayed(6);
  Replayed(7);
  Replayed(8);
  ReplayEnds();
  EXPECT_EQ(Got(), "0 C1 5 6 7 8 9");
}

TEST_F(KvEventFeedTest, AGapWithinWhatWaitedIsAskedForAsLongAsItHelps) {
  Start(true);
  Live(0);
  Live(2);
  Live(5);  // 3 and 4 are lost, too
  Replayed(1);
  Replayed(2);
  EXPECT_TRUE(ReplayEnds());
  EXPECT_EQ(asked_, (std::vector<uint64_t>{1, 3}));
  EXPECT_FALSE(ReplayEnds());  // it has neither
  EXPECT_EQ(Got(), "0 1 2 C1 5");
}

TEST_F(KvEventFeedTest, AReplayThatFailsClearsAndIsLeftAloneForAWhile) {
  Start(true);
  Live(0);
  Live(2);
  feed_->OnReplayFailed();
  EXPECT_EQ(Got(), "0 C1 2");
  Live(4);
  EXPECT_EQ(Got(), "0 C1 2 C2 4");
  EXPECT_EQ(asked_.size(), 1u);
  clock_.AdvanceMs(limits::kKvReplayCooldownMs);
  Live(6);
  EXPECT_EQ(asked_.size(), 2u);
  EXPECT_EQ(feed_->stats().replays_failed, 1u);
}

TEST_F(KvEventFeedTest, NumbersThatGoBackAreARestart) {
  Start(false);
  Live(0);
  Live(1);
  epoch_s_ += 100;
  Live(0);
  Live(1);
  EXPECT_EQ(Got(), "0 1 C1 0 1");
  EXPECT_EQ(got_.back().generation, 1u);
  EXPECT_EQ(feed_->stats().restarts, 1u);
}

TEST_F(KvEventFeedTest, ARestartIsReplayedFromItsBeginning) {
  Start(true);
  for (uint64_t i = 0; i < 5; ++i) {
    Live(i);
  }
  epoch_s_ += 100;
  Live(2);
  EXPECT_EQ(asked_, std::vector<uint64_t>{0});
  Replayed(0);
  Replayed(1);
  Replayed(2);
  ReplayEnds();
  EXPECT_EQ(Got(), "0 1 2 3 4 C1 0 1 2");
}

// A message that had waited in the socket while the replay brought it already.
TEST_F(KvEventFeedTest, WhatReplayBroughtBeforeIsARepetitionAndNoRestart) {
  Start(true);
  feed_->OnConnected();
  Replayed(0);
  Replayed(1);
  Replayed(2);
  ReplayEnds();
  Live(1);
  Live(2);
  Live(3);
  EXPECT_EQ(Got(), "0 1 2 3");
  EXPECT_EQ(feed_->stats().restarts, 0u);
  EXPECT_EQ(feed_->stats().duplicates, 2u);
}

TEST_F(KvEventFeedTest, ARestartBetweenReplayAndFirstMessageIsSeenByItsTime) {
  Start(true);
  feed_->OnConnected();
  Replayed(0);
  Replayed(1);
  Replayed(2);
  ReplayEnds();
  epoch_s_ += 100;
  Live(0);
  EXPECT_EQ(Got(), "0 1 2 C1 0");
}

TEST_F(KvEventFeedTest, AMessageThatComesTwiceCountsOnce) {
  Start(false);
  Live(0);
  Live(1);
  Live(1);
  Live(2);
  EXPECT_EQ(Got(), "0 1 2");
  EXPECT_EQ(feed_->stats().duplicates, 1u);
}

TEST_F(KvEventFeedTest, ALostConnectionVoidsWhatWasKnown) {
  Start(true);
  Live(0);
  Live(3);  // asks
  feed_->OnDisconnected();
  EXPECT_EQ(Got(), "0 C1");
  EXPECT_FALSE(Replayed(1)) << "an answer of the generation before";
  EXPECT_EQ(Got(), "0 C1");
  EXPECT_EQ(feed_->stats().late, 1u);
  feed_->OnConnected();
  EXPECT_EQ(asked_, (std::vector<uint64_t>{1, 0}));
  Replayed(0);
  ReplayEnds();
  EXPECT_EQ(Got(), "0 C1 0");
  EXPECT_EQ(got_.back().generation, 1u);
}

TEST_F(KvEventFeedTest, LateAnswersOfAReplayThatWasGivenUpAreDiscarded) {
  Start(true);
  Live(0);
  Live(2);
  feed_->OnReplayFailed();
  EXPECT_FALSE(Replayed(1));
  EXPECT_EQ(Got(), "0 C1 2");
  EXPECT_EQ(feed_->stats().late, 1u);
}

TEST_F(KvEventFeedTest, WhatWaitsForAReplayIsBounded) {
  Start(true);
  Live(0);
  const uint64_t last = limits::kKvEventPendingMax + 10;
  for (uint64_t i = 2; i <= last; ++i) {
    Live(i);
  }
  EXPECT_FALSE(feed_->replaying());
  EXPECT_EQ(got_.size(), 2 + last - 1);  // 0, Cleared, 2 to last
  EXPECT_EQ(feed_->generation(), 1u);
}

TEST_F(KvEventFeedTest, TheBytesThatWaitAreBounded) {
  Start(true);
  Live(0);
  KvEventBatch large;
  large.time_s = 2000;
  large.events.push_back({.block_hashes = {1}, .block_size = 1});
  large.events[0].tokens.resize(1, 7);
  large.events[0].cache_salt.assign(limits::kKvEventPendingBytesMax / 4, 's');
  const std::string payload = kv::EncodeKvEvents(large);
  for (uint64_t i = 2; i < 5; ++i) {
    feed_->OnMessage({"kv", net::BigEndian64(i), payload});
    EXPECT_TRUE(feed_->replaying()) << i;
  }
  feed_->OnMessage({"kv", net::BigEndian64(5), payload});
  EXPECT_FALSE(feed_->replaying());
}

TEST_F(KvEventFeedTest, RanksAreKeptApart) {
  Start(false, 1);
  feed_->OnMessage({"kv", net::BigEndian64(0), Payload(0, 1000, 1)});
  feed_->OnMessage({"kv", net::BigEndian64(7), Payload(7, 1001, 0)});  // another rank's
  feed_->OnMessage({"kv", net::BigEndian64(1), Payload(1, 1002, 1)});
  EXPECT_EQ(Got(), "0 1");
  EXPECT_EQ(got_[0].rank, 1);
  EXPECT_EQ(feed_->stats().foreign, 1u);
}

TEST_F(KvEventFeedTest, TheFirstRankHoldsWhereNoneIsSaid) {
  Start(false);
  feed_->OnMessage({"kv", net::BigEndian64(0), Payload(0, 1000, 3)});
  feed_->OnMessage({"kv", net::BigEndian64(0), Payload(0, 2000, 2)});
  EXPECT_EQ(Got(), "0");
  EXPECT_EQ(got_[0].rank, 3);
}

TEST_F(KvEventFeedTest, AnEmptyTopicIsOneToo) {
  Start(false);
  feed_->OnMessage({"", net::BigEndian64(0), Payload(0)});
  EXPECT_EQ(Got(), "0");
}

TEST_F(KvEventFeedTest, MessagesOfAnotherShapeAreCountedAndDropped) {
  Start(true);
  Live(0);
  feed_->OnMessage({});
  feed_->OnMessage({"kv", "short", Payload(1)});
  feed_->OnMessage({"kv", net::BigEndian64(net::kReplayEnd), Payload(1)});
  // Dynamo's native plane: topic, publisher, number, payload.
  feed_->OnMessage({"kv-events", net::BigEndian64(9), net::BigEndian64(1), Payload(1)});
  EXPECT_EQ(feed_->stats().malformed, 4u);
  Live(2);
  EXPECT_TRUE(feed_->OnReplayed({"", "x"}));
  EXPECT_TRUE(feed_->OnReplayed({}));
  EXPECT_EQ(feed_->stats().malformed, 6u);
  Replayed(1);
  ReplayEnds();
  EXPECT_EQ(Got(), "0 1 2");
}

TEST_F(KvEventFeedTest, ABatchThatCannotBeReadClears) {
  Start(true);
  Live(0);
  feed_->OnMessage({"kv", net::BigEndian64(1), "\xc1"});
  Live(2);
  EXPECT_EQ(Got(), "0 C1 2");
  EXPECT_TRUE(asked_.empty()) << "a replay would bring the same bytes";
  EXPECT_EQ(feed_->stats().corrupt, 1u);
}

// An engine whose messages are lost, repeated and replayed at random, and who reads them.
class Simulation {
 public:
  Simulation(uint32_t seed, const Clock& clock)
      : random_(seed),
        feed_(
            {.rank = {}, .can_replay = random_() % 2 != 0}, clock,
            [this](const KvEventBatch& batch) { Believe(batch); },
            [this](uint64_t first) { asked_ = first; }) {}

  void Step() {
    const auto kind = random_() % 20;
    bool arrives = kind > 3;  // else it is lost
    if (kind == 0) {
      arrives = !Restart();
    }
    kept_.emplace_back(number_, kv::EncodeKvEvents(Change()));
    if (kept_.size() > 8) {
      kept_.erase(kept_.begin());
    }
    if (arrives) {
      Send();
      if (kind == 4) {
        Send();
      }
      if (asked_ && kind % 2 == 0) {
        Replay();
      } else if (asked_ && kind == 7) {
        asked_.reset();
        feed_.OnReplayFailed();
      }
      settled_ = !feed_.replaying();
    }
    ++number_;
  }
  // Whether all that is believed is so; only asked once the feed has seen the last message.
  bool Right() const {
    return !settled_ ||
           std::includes(engine_.begin(), engine_.end(), believed_.begin(), believed_.end());
  }
  const KvEventFeedStats& stats() const { return feed_.stats(); }

 private:
  // A new process with a new cache: the connection shows it, or its first message. Which?
  bool Restart() {
    engine_.clear();
    kept_.clear();
    number_ = 0;
    const bool shown = random_() % 2 != 0;
    if (shown) {
      feed_.OnDisconnected();
      asked_.reset();
    }
    return shown;
  }
  KvEventBatch Change() {
    settled_ = false;
    KvEventBatch batch;
    batch.time_s = time_s_ += 0.5;
    KvEvent& event = batch.events.emplace_back();
    if (engine_.empty() || random_() % 3 != 0) {
      event = {.block_hashes = {++block_}, .tokens = {1}, .block_size = 1};
      engine_.insert(block_);
    } else {
      event.kind = KvEvent::Kind::kRemoved;
      event.block_hashes = {*engine_.begin()};
      engine_.erase(engine_.begin());
    }
    return batch;
  }
  void Send() { feed_.OnMessage({"", net::BigEndian64(number_), kept_.back().second}); }
  void Replay() {
    const uint64_t first = *std::exchange(asked_, std::nullopt);
    for (const auto& [number, payload] : kept_) {
      if (number >= first) {
        feed_.OnReplayed({"", "", net::BigEndian64(number), payload});
      }
    }
    feed_.OnReplayed({"", "", net::BigEndian64(net::kReplayEnd), ""});
  }
  void Believe(const KvEventBatch& batch) {
    EXPECT_GE(batch.generation, generation_);
    generation_ = batch.generation;
    for (const KvEvent& event : batch.events) {
      for (const uint64_t hash : event.block_hashes) {
        if (event.kind == KvEvent::Kind::kStored) {
          believed_.insert(hash);
        } else {
          believed_.erase(hash);
        }
      }
      if (event.kind == KvEvent::Kind::kCleared) {
        believed_.clear();
      }
    }
  }

  std::mt19937 random_;
  std::set<uint64_t> engine_;
  std::set<uint64_t> believed_;
  std::vector<std::pair<uint64_t, std::string>> kept_;
  uint64_t number_ = 0;
  uint64_t block_ = 0;
  double time_s_ = 1000;
  std::optional<uint64_t> asked_;
  uint64_t generation_ = 0;
  bool settled_ = true;
  KvEventFeed feed_;
};

TEST_F(KvEventFeedTest, NeverMakesAConsumerBelieveInABlockThatIsGone) {
  KvEventFeedStats all;
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    Simulation simulation(seed, clock_);
    for (int step = 0; step < 300; ++step) {
      simulation.Step();
      ASSERT_TRUE(simulation.Right()) << "seed " << seed << " step " << step;
    }
    all += simulation.stats();
  }
  // Each of them was met.
  EXPECT_GT(std::min({all.gaps, all.replays, all.replays_failed, all.restarts, all.cleared,
                      all.duplicates, all.late}),
            0u);
}

}  // namespace
}  // namespace fak::ride
