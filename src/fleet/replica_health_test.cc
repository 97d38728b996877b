#include "fleet/replica_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/random.h"

namespace fak::fleet {
namespace {

using ::testing::HasSubstr;

class ReplicaHealthTest : public ::testing::Test {
 protected:
  int64_t now() const { return clock_.NowNs(); }
  void Ready() { health_.Observe(now(), true, ""); }
  void NotReady() { health_.Observe(now(), false, "it sleeps"); }
  void Attempt(Verdict verdict) { health_.End(health_.Begin(now()), verdict, now(), "HTTP 500"); }
  void FailOften() {
    for (int i = 0; i < options_.breaker.failures_to_open; ++i) {
      Attempt(Verdict::kFailed);
    }
  }
  ReplicaState state() const { return health_.StateAt(now()); }
  Tier tier() const { return health_.TierAt(now()); }

  FakeClock clock_;
  ReplicaHealth::Options options_;
  ReplicaHealth health_{options_};
};

TEST_F(ReplicaHealthTest, JoinsWithTheFirstReadiness) {
  NotReady();
  clock_.AdvanceMs(60'000);
  EXPECT_EQ(state(), ReplicaState::kJoining);
  EXPECT_EQ(tier(), Tier::kLast);
  EXPECT_EQ(health_.WhyAt(now()), "it sleeps");
  Ready();
  EXPECT_EQ(state(), ReplicaState::kHealthy);
  EXPECT_EQ(tier(), Tier::kFirst);
}

TEST_F(ReplicaHealthTest, IsSuspectBeforeItIsDownAndBeforeItIsBack) {
  Ready();
  NotReady();
  EXPECT_EQ(state(), ReplicaState::kSuspect);
  EXPECT_EQ(tier(), Tier::kSecond);
  clock_.AdvanceMs(options_.down_after_ms);
  EXPECT_EQ(state(), ReplicaState::kDown);
  Ready();
  EXPECT_EQ(state(), ReplicaState::kSuspect);
  EXPECT_EQ(health_.WhyAt(now()), "just back");
  clock_.AdvanceMs(options_.up_after_ms);
  EXPECT_EQ(state(), ReplicaState::kHealthy);
  EXPECT_EQ(health_.WhyAt(now()), "");
}

// By a token that we asked for, which says more than its own health check.
TEST_F(ReplicaHealthTest, IsSuspectWhileItGivesNothing) {
  Ready();
  Attempt(Verdict::kFailed);
  health_.SetMute("nothing within 20 s");
  clock_.AdvanceMs(600'000);
  EXPECT_EQ(state(), ReplicaState::kSuspect);
  EXPECT_THAT(health_.WhyAt(now()), HasSubstr("nothing within 20 s"));
  EXPECT_FALSE(health_.GoneAt(now()));
  Attempt(Verdict::kNothing);
  Attempt(Verdict::kBusy);
  EXPECT_EQ(state(), ReplicaState::kSuspect);
  FailOften();
  EXPECT_TRUE(health_.GoneAt(now()));
  clock_.AdvanceMs(options_.breaker.open_ms);
  EXPECT_EQ(tier(), Tier::kFirst) << "on trial";
  health_.SetTriedByUs(true);
  EXPECT_EQ(tier(), Tier::kLast);
  Attempt(Verdict::kAnswered);
  EXPECT_EQ(health_.WhyAt(now()), "just back");
  clock_.AdvanceMs(options_.up_after_ms);
  EXPECT_EQ(state(), ReplicaState::kHealthy);
}

// An engine's health check fails during a long prompt, and its streams go on.
TEST_F(ReplicaHealthTest, IsNotDownWhileItMakesProgress) {
  Ready();
  NotReady();
  for (int i = 0; i < 10; ++i) {
    clock_.AdvanceMs(options_.down_after_ms);
    Attempt(Verdict::kAnswered);
    EXPECT_EQ(state(), ReplicaState::kSuspect);
  }
  clock_.AdvanceMs(options_.progress_ms);
  EXPECT_EQ(state(), ReplicaState::kDown);
}

TEST_F(ReplicaHealthTest, IsDownWhileItsBreakerIsOpenAndMeetsOneRequestThen) {
  Ready();
  FailOften();
  EXPECT_EQ(state(), ReplicaState::kDown);
  EXPECT_THAT(health_.WhyAt(now()), HasSubstr("failed 5 times in a row: HTTP 500"));
  clock_.AdvanceMs(options_.breaker.open_ms);
  EXPECT_EQ(state(), ReplicaState::kSuspect);
  EXPECT_EQ(tier(), Tier::kFirst);
  const BreakerTicket trial = health_.Begin(now());
  EXPECT_TRUE(trial.trial);
  EXPECT_EQ(tier(), Tier::kLast);
  clock_.AdvanceMs(1);
  health_.End(trial, Verdict::kAnswered, now());
  EXPECT_EQ(health_.BreakerAt(now()), BreakerState::kClosed);
  clock_.AdvanceMs(options_.up_after_ms);
  EXPECT_EQ(state(), ReplicaState::kHealthy);
}

TEST_F(ReplicaHealthTest, DrainsWhateverHappens) {
  Ready();
  health_.SetDraining(true);
  NotReady();
  EXPECT_EQ(state(), ReplicaState::kDraining);
  EXPECT_EQ(tier(), Tier::kNever);
  health_.SetDraining(false);
  EXPECT_EQ(state(), ReplicaState::kSuspect);
}

TEST_F(ReplicaHealthTest, IsPassedOverForAsLongAsItAskedFor) {
  Ready();
  health_.PassOver(now(), 7, "asked");
  health_.PassOver(now(), 0, "shorter");  // shortens nothing
  EXPECT_EQ(health_.WhyAt(now()), "asked");
  EXPECT_EQ(state(), ReplicaState::kHealthy);
  EXPECT_EQ(tier(), Tier::kThird);
  clock_.AdvanceMs(6'999);
  EXPECT_EQ(tier(), Tier::kThird);
  clock_.AdvanceMs(1);
  EXPECT_EQ(tier(), Tier::kFirst);
  health_.PassOver(now(), 1'000'000, "longer");
  EXPECT_EQ(health_.WhyAt(now()), "longer");
  clock_.AdvanceMs(options_.busy_ms_max);
  EXPECT_EQ(tier(), Tier::kFirst);
}

TEST_F(ReplicaHealthTest, IsSuspectWhileItIsEjected) {
  Ready();
  health_.Eject(now(), 500, "slow");
  EXPECT_EQ(state(), ReplicaState::kSuspect);
  EXPECT_EQ(health_.WhyAt(now()), "slow");
  clock_.AdvanceMs(500);
  EXPECT_EQ(state(), ReplicaState::kHealthy);
}

TEST(CircuitBreaker, IsNeitherOpenedNorClosedByWhatProvesNothing) {
  FakeClock clock;
  const CircuitBreaker::Options options;
  CircuitBreaker breaker(options);
  const auto attempt = [&](Verdict verdict) {
    breaker.End(breaker.Begin(clock.NowNs()), verdict, clock.NowNs());
  };
  for (int i = 0; i < 100; ++i) {
    attempt(i % 2 == 0 ? Verdict::kNothing : Verdict::kBusy);
  }
  EXPECT_EQ(breaker.StateAt(clock.NowNs()), BreakerState::kClosed);
  for (int i = 0; i < options.failures_to_open; ++i) {
    attempt(Verdict::kNothing);  // doesn't end a row either
    attempt(Verdict::kFailed);
  }
  EXPECT_EQ(breaker.StateAt(clock.NowNs()), BreakerState::kOpen);
  clock.AdvanceMs(options.open_ms);
  attempt(Verdict::kNothing);
  attempt(Verdict::kBusy);
  EXPECT_EQ(breaker.StateAt(clock.NowNs()), BreakerState::kHalfOpen);
  EXPECT_TRUE(breaker.LetsThrough(clock.NowNs()));
  attempt(Verdict::kAnswered);
  EXPECT_EQ(breaker.StateAt(clock.NowNs()), BreakerState::kClosed);
}

TEST(CircuitBreaker, StaysOpenLongerAfterEachTrialThatFails) {
  FakeClock clock;
  const CircuitBreaker::Options options;
  CircuitBreaker breaker(options);
  const auto fail = [&] {
    breaker.End(breaker.Begin(clock.NowNs()), Verdict::kFailed, clock.NowNs());
  };
  for (int i = 0; i < options.failures_to_open; ++i) {
    fail();
  }
  for (int64_t ms = options.open_ms; ms < 1'000'000; ms *= 2) {
    const int64_t bounded = std::min(ms, options.open_ms_max);
    clock.AdvanceMs(bounded - 1);
    fail();  // while it is open: nobody was to go there, and it isn't held against it
    EXPECT_EQ(breaker.StateAt(clock.NowNs()), BreakerState::kOpen);
    clock.AdvanceMs(1);
    EXPECT_EQ(breaker.StateAt(clock.NowNs()), BreakerState::kHalfOpen);
    fail();
    EXPECT_EQ(breaker.StateAt(clock.NowNs()), BreakerState::kOpen);
  }
}

TEST(CircuitBreaker, TakesNoOldAnswerForAProof) {
  FakeClock clock;
  const CircuitBreaker::Options options;
  CircuitBreaker breaker(options);
  const BreakerTicket old = breaker.Begin(clock.NowNs());
  for (int i = 0; i < options.failures_to_open; ++i) {
    breaker.End(breaker.Begin(clock.NowNs()), Verdict::kFailed, clock.NowNs());
  }
  breaker.End(old, Verdict::kAnswered, clock.NowNs());
  EXPECT_EQ(breaker.StateAt(clock.NowNs()), BreakerState::kOpen);
}

TEST(CircuitBreaker, GivesATrialUpThatSaysNothing) {
  FakeClock clock;
  const CircuitBreaker::Options options;
  CircuitBreaker breaker(options);
  for (int i = 0; i < options.failures_to_open; ++i) {
    breaker.End(breaker.Begin(clock.NowNs()), Verdict::kFailed, clock.NowNs());
  }
  clock.AdvanceMs(options.open_ms);
  EXPECT_TRUE(breaker.Begin(clock.NowNs()).trial);
  EXPECT_FALSE(breaker.LetsThrough(clock.NowNs()));
  clock.AdvanceMs(options.trial_ms);
  EXPECT_TRUE(breaker.LetsThrough(clock.NowNs()));
}

// Whatever happens in whatever order.
TEST(ReplicaHealth, KeepsItsPromises) {
  constexpr int kRuns = 200;
  constexpr int kSteps = 400;
  for (uint64_t seed = 1; seed <= kRuns; ++seed) {
    SCOPED_TRACE(seed);
    FakeRandom random(seed);
    FakeClock clock;
    const ReplicaHealth::Options options;
    ReplicaHealth health(options);
    std::vector<BreakerTicket> open;
    int64_t last_trouble_ns = -1;
    for (int step = 0; step < kSteps; ++step) {
      const ReplicaState before = health.StateAt(clock.NowNs());
      const BreakerState breaker_before = health.BreakerAt(clock.NowNs());
      const int64_t now_ns = clock.NowNs();
      const uint64_t draw = random.Next64();
      const auto verdict = static_cast<Verdict>(draw / 16 % 4);
      bool answered = false;
      switch (draw % 8) {
        case 0: health.Observe(now_ns, true, ""); break;
        case 1: {
          health.Observe(now_ns, false, "no");
          last_trouble_ns = now_ns;
          break;
        }
        case 2:
        case 3: open.push_back(health.Begin(now_ns)); break;
        case 4:
        case 5: {
          if (!open.empty()) {
            health.End(open.back(), verdict, now_ns, "failed");
            open.pop_back();
            answered = verdict == Verdict::kAnswered;
          }
          break;
        }
        case 6: health.SetDraining(draw / 64 % 4 == 0); break;
        default: break;
      }
      const ReplicaState after = health.StateAt(now_ns);
      const BreakerState breaker = health.BreakerAt(now_ns);
      // Only an answer closes a breaker.
      EXPECT_TRUE(breaker != BreakerState::kClosed || breaker_before == breaker || answered);
      // Down at once only by its breaker.
      EXPECT_FALSE(before == ReplicaState::kHealthy && after == ReplicaState::kDown &&
                   breaker != BreakerState::kOpen);
      // Never back as if nothing had been.
      EXPECT_FALSE(before == ReplicaState::kDown && after == ReplicaState::kHealthy);
      EXPECT_EQ(health.TierAt(now_ns) == Tier::kNever, after == ReplicaState::kDraining);
      EXPECT_EQ(after == ReplicaState::kHealthy && !health.ready(), false);
      const bool troubled = last_trouble_ns >= 0 &&
                            now_ns - last_trouble_ns < options.up_after_ms * kNsPerMs &&
                            before != ReplicaState::kJoining;
      EXPECT_FALSE(troubled && after == ReplicaState::kHealthy && before != after &&
                   before != ReplicaState::kDraining);
      clock.AdvanceMs(static_cast<int64_t>(random.Next64() % 1'500));
    }
  }
}

}  // namespace
}  // namespace fak::fleet
