#include "fleet/admission_queue.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/random.h"

namespace fak::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

bool Any(AdmissionQueue::Id) {
  return true;
}

TEST(AdmissionQueue, KeepsTheOrderOfOneTenant) {
  AdmissionQueue queue(10);
  const auto first = *queue.Push({}, 0);
  const auto second = *queue.Push({}, 0);
  EXPECT_EQ(queue.Pop(Any), first);
  EXPECT_EQ(queue.Pop(Any), second);
  EXPECT_FALSE(queue.Pop(Any));
}

TEST(AdmissionQueue, LeavesTimeForTheAnswerItself) {
  AdmissionQueue queue(9);
  for (int i = 0; i < 100; ++i) {
    queue.NoteEnd(i * kNsPerSecond / 10);  // ten a second
    queue.NoteService((i < 95 ? 2 : 60) * kNsPerSecond);
  }
  const int64_t now_ns = 10 * kNsPerSecond;
  const auto push = [&](int64_t ms) {
    return queue.Push({.deadline_ns = now_ns + ms * kNsPerMs}, now_ns);
  };
  EXPECT_EQ(queue.ServiceNs(0.5), 2 * kNsPerSecond);
  EXPECT_TRUE(push(2'500));
  EXPECT_FALSE(push(150)) << "half of it may pass, and it would be 200 ms";
  EXPECT_TRUE(push(1'000)) << "nobody is kept out for what an answer takes alone";
}

TEST(AdmissionQueue, DropsWhoWillBeTooLateForWhoWont) {
  AdmissionQueue queue(9);
  for (int i = 0; i < 100; ++i) {
    queue.NoteService(2 * kNsPerSecond);
  }
  const auto late = *queue.Push({.deadline_ns = 10 * kNsPerSecond}, 0);
  const auto later = *queue.Push({.deadline_ns = 10 * kNsPerSecond}, 0);
  EXPECT_THAT(queue.TakeHopeless(9 * kNsPerSecond), IsEmpty()) << "nobody is better off";
  const auto in_time = *queue.Push({.deadline_ns = 20 * kNsPerSecond}, 0);
  EXPECT_THAT(queue.TakeHopeless(8 * kNsPerSecond), IsEmpty());
  EXPECT_THAT(queue.TakeHopeless(8 * kNsPerSecond + 1), ElementsAre(late, later));
  EXPECT_EQ(queue.Pop(Any), in_time);
}

TEST(AdmissionQueue, KeepsNoWholeAnswersTimeForTheRestOfOne) {
  AdmissionQueue queue(9);
  for (int i = 0; i < 100; ++i) {
    queue.NoteEnd(i * kNsPerSecond / 10);
    queue.NoteService(2 * kNsPerSecond);
  }
  const int64_t now_ns = 10 * kNsPerSecond;
  const auto push = [&](int64_t ms, bool begun) {
    return queue.Push({.deadline_ns = now_ns + ms * kNsPerMs, .begun = begun}, now_ns);
  };
  EXPECT_FALSE(push(150, false));
  const auto rest = *push(150, true);
  const auto late = *push(3'000, false);
  const auto in_time = *push(9'000, false);
  EXPECT_THAT(queue.TakeHopeless(now_ns + 2'000 * kNsPerMs), ElementsAre(late));
  EXPECT_EQ(queue.Pop(Any), rest);
  EXPECT_EQ(queue.Pop(Any), in_time);
}

// Somebody else was faster, and took the room that it was popped for.
TEST(AdmissionQueue, OneThatIsPutBackHasItsPlace) {
  AdmissionQueue queue(3);
  const AdmissionQueue::Entry entry{.tenant = "alice", .cost = 100};
  const auto first = *queue.Push(entry, 0);
  const auto second = *queue.Push(entry, 0);
  ASSERT_EQ(queue.Pop(Any), first);
  EXPECT_FALSE(queue.PutBack(second));
  ASSERT_TRUE(queue.Push(entry, 0));
  ASSERT_TRUE(queue.Push(entry, 0));  // all places are taken
  ASSERT_TRUE(queue.PutBack(first));
  EXPECT_FALSE(queue.PutBack(first)) << "once";
  EXPECT_EQ(queue.size(), 4u);
  EXPECT_EQ(queue.Pop(Any), first);
  EXPECT_EQ(queue.Pop(Any), second);
}

TEST(AdmissionQueue, OneThatIsPutBackAloneHasItsPlaceAndOwesWhatItOwed) {
  AdmissionQueue queue(9);
  const auto before = *queue.Push({.tenant = "alice", .cost = 100}, 0);
  const auto first = *queue.Push({.tenant = "alice", .cost = 100}, 0);
  ASSERT_EQ(queue.Pop(Any), before);
  ASSERT_EQ(queue.Pop(Any), first);  // nobody waits: the queue forgets who had how much
  ASSERT_TRUE(queue.PutBack(first));
  const auto alices = *queue.Push({.tenant = "alice", .cost = 100}, 0);
  const auto bobs = *queue.Push({.tenant = "bob", .cost = 100}, 0);
  EXPECT_EQ(queue.Pop(Any), first);
  EXPECT_EQ(queue.Pop(Any), bobs);
  EXPECT_EQ(queue.Pop(Any), alices);
}

TEST(AdmissionQueue, TakesLowerPrioritiesFirst) {
  AdmissionQueue queue(10);
  const auto later = *queue.Push({.priority = 1}, 0);
  const auto sooner = *queue.Push({.priority = -1}, 0);
  EXPECT_EQ(queue.Pop(Any), sooner);
  EXPECT_EQ(queue.Pop(Any), later);
}

TEST(AdmissionQueue, NobodyFillsItForAll) {
  AdmissionQueue queue(4);
  std::vector<AdmissionQueue::Id> ids;
  for (int i = 0; i < 4; ++i) {
    ids.push_back(*queue.Push({.tenant = "alice", .priority = -1}, 0));
  }
  EXPECT_FALSE(queue.Push({.tenant = "alice", .priority = -9}, 0)) << "it has the most itself";
  EXPECT_FALSE(queue.TakeDisplaced());
  ASSERT_TRUE(queue.Push({.tenant = "bob"}, 0));
  EXPECT_EQ(queue.TakeDisplaced(), ids[3]);
  EXPECT_FALSE(queue.TakeDisplaced());
  ASSERT_TRUE(queue.Push({.tenant = "alice", .model = "other"}, 0)) << "so do models";
  EXPECT_EQ(queue.TakeDisplaced(), ids[2]);
  EXPECT_FALSE(queue.Push({.tenant = "bob"}, 0)) << "two each, and none";
  EXPECT_EQ(queue.size(), 4u);
}

TEST(AdmissionQueue, WeightsCountWhereItIsFull) {
  AdmissionQueue queue(4);
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(queue.Push({.tenant = "heavy", .weight = 4}, 0));
  }
  EXPECT_FALSE(queue.Push({.tenant = "light", .weight = 1}, 0)) << "4 of weight 4 is its share";
  EXPECT_TRUE(queue.Push({.tenant = "light", .weight = 2}, 0));
}

TEST(AdmissionQueue, PassesOverWhatDoesNotFit) {
  AdmissionQueue queue(10);
  const auto first = *queue.Push({}, 0);
  const auto second = *queue.Push({}, 0);
  EXPECT_EQ(queue.Pop([first](AdmissionQueue::Id id) { return id != first; }), second);
  EXPECT_EQ(queue.size(), 1u);
}

// Whoever asks more often gets no more than its share while others wait.
TEST(AdmissionQueue, GivesTenantsTheirShares) {
  AdmissionQueue queue(10'000);
  std::unordered_map<AdmissionQueue::Id, std::string> owners;
  const std::pair<const char*, double> kTenants[] = {{"light", 1}, {"heavy", 3}};
  for (int i = 0; i < 1'000; ++i) {
    for (const auto& [tenant, weight] : kTenants) {
      const int times = std::string(tenant) == "light" ? 4 : 1;
      for (int j = 0; j < times; ++j) {
        owners[*queue.Push({.tenant = tenant, .weight = weight}, 0)] = tenant;
      }
    }
  }
  std::unordered_map<std::string, int> served;
  for (int i = 0; i < 1'200; ++i) {
    ++served[owners[*queue.Pop(Any)]];
  }
  EXPECT_NEAR(served["heavy"], 900, 2);
  EXPECT_NEAR(served["light"], 300, 2);
}

TEST(AdmissionQueue, CountsWhatRequestsCost) {
  AdmissionQueue queue(10'000);
  std::unordered_map<AdmissionQueue::Id, double> costs;
  for (int i = 0; i < 500; ++i) {
    for (const double cost : {1.0, 4.0}) {
      costs[*queue.Push({.tenant = std::to_string(cost), .cost = cost}, 0)] = cost;
    }
  }
  double large = 0;
  double all = 0;
  for (int i = 0; i < 500; ++i) {
    const double cost = costs[*queue.Pop(Any)];
    all += cost;
    large += cost > 1 ? cost : 0;
  }
  EXPECT_NEAR(large / all, 0.5, 0.02);
}

TEST(AdmissionQueue, IsBounded) {
  AdmissionQueue queue(2);
  ASSERT_TRUE(queue.Push({}, 0));
  ASSERT_TRUE(queue.Push({}, 0));
  const auto refused = queue.Push({}, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_EQ(refused.error().retry_after_s, 1);
}

TEST(AdmissionQueue, RefusesWhatCanNotBeginBeforeItsDeadline) {
  FakeClock clock;
  AdmissionQueue queue(100);
  const auto with_time = [&](int64_t ms) {
    return queue.Push({.deadline_ns = clock.NowNs() + ms * kNsPerMs}, clock.NowNs());
  };
  ASSERT_TRUE(with_time(1));  // nothing is known of the rate
  for (int i = 0; i < 40; ++i) {
    clock.AdvanceMs(100);
    queue.NoteEnd(clock.NowNs());
  }
  EXPECT_NEAR(queue.RateAt(clock.NowNs()), 10, 0.5);
  for (int i = 0; i < 29; ++i) {
    ASSERT_TRUE(queue.Push({}, clock.NowNs()));
  }
  const auto late = with_time(2'000);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kResourceExhausted);
  EXPECT_NEAR(late.error().retry_after_s, 3, 1);
  EXPECT_TRUE(with_time(4'000));
}

TEST(AdmissionQueue, GivesUpWhatIsOverdue) {
  AdmissionQueue queue(10);
  const auto never = *queue.Push({}, 0);
  const auto soon = *queue.Push({.deadline_ns = 10}, 0);
  const auto later = *queue.Push({.deadline_ns = 20}, 0);
  EXPECT_THAT(queue.TakeOverdue(9), IsEmpty());
  EXPECT_THAT(queue.TakeOverdue(10), ElementsAre(soon));
  EXPECT_TRUE(queue.Remove(later));
  EXPECT_FALSE(queue.Remove(later));
  EXPECT_EQ(queue.Pop(Any), never);
}

// Whatever is pushed, taken and given up: each leaves once.
TEST(AdmissionQueue, LosesNothing) {
  FakeRandom random(3);
  AdmissionQueue queue(50);
  std::vector<AdmissionQueue::Id> waiting;
  const auto leave = [&waiting](AdmissionQueue::Id id) {
    const auto found = std::find(waiting.begin(), waiting.end(), id);
    ASSERT_NE(found, waiting.end());
    waiting.erase(found);
  };
  for (int64_t step = 0; step < 20'000; ++step) {
    const uint64_t draw = random.Next64();
    if (draw % 3 == 0) {
      AdmissionQueue::Entry entry{.tenant = std::to_string(draw / 8 % 5),
                                  .weight = static_cast<double>(draw / 64 % 4),
                                  .priority = static_cast<int32_t>(draw / 512 % 3)};
      if (draw / 4096 % 2 == 0) {
        entry.deadline_ns = step + 30;
      }
      const auto pushed = queue.Push(entry, step);
      EXPECT_EQ(pushed.has_value(), waiting.size() < 50);
      if (pushed) {
        waiting.push_back(*pushed);
      }
    } else if (draw % 3 == 1) {
      if (const auto popped = queue.Pop(Any)) {
        leave(*popped);
      }
    } else if (draw / 8 % 4 == 0 && !waiting.empty()) {
      const AdmissionQueue::Id id = waiting[draw / 64 % waiting.size()];
      EXPECT_TRUE(queue.Remove(id));
      leave(id);
    }
    for (const AdmissionQueue::Id id : queue.TakeOverdue(step)) {
      leave(id);
    }
    EXPECT_EQ(queue.size(), waiting.size());
  }
}

}  // namespace
}  // namespace fak::fleet
