#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

namespace fak {
namespace {

TEST(ThreadPool, RunsEveryTaskExactlyOnce) {
  for (const int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const size_t n_tasks : {0u, 1u, 2u, 3u, 100u, 1000u}) {
      std::vector<int> calls(n_tasks, 0);
      pool.Run(n_tasks, [&](size_t i, int worker) {
        ++calls[i];
        EXPECT_GE(worker, 0);
        EXPECT_LT(worker, threads);
      });
      EXPECT_EQ(calls, std::vector<int>(n_tasks, 1)) << threads << " threads";
    }
  }
}

TEST(ThreadPool, JoinMakesPlainWritesVisibleOverManyShortJobs) {
  ThreadPool pool(3);
  std::vector<uint64_t> cells(5, 0);
  constexpr uint64_t kRounds = 20'000;
  for (uint64_t round = 0; round < kRounds; ++round) {
    pool.Run(cells.size(), [&](size_t i, int) { cells[i] += i + round; });
  }
  for (size_t i = 0; i < cells.size(); ++i) {
    EXPECT_EQ(cells[i], i * kRounds + kRounds * (kRounds - 1) / 2);
  }
}

TEST(ThreadPool, WakesSleepersAndJoinsSlowTasks) {
  ThreadPool pool(2);
  const auto idle = std::chrono::microseconds(4 * ThreadPool::kSpinUs);
  const auto burn = [idle] {
    const auto end = std::chrono::steady_clock::now() + idle;
    while (std::chrono::steady_clock::now() < end) {
    }
  };
  for (int round = 0; round < 50; ++round) {
    burn();  // long enough for the workers to fall asleep
    std::vector<int> calls(2, 0);
    // One task is longer than the caller's spin, so that joining has to sleep as well.
    pool.Run(2, [&](size_t i, int worker) {
      ++calls[i];
      if (worker != 0) {
        burn();
      }
    });
    EXPECT_EQ(std::accumulate(calls.begin(), calls.end(), 0), 2);
  }
}

TEST(ThreadPool, GivesWorkersDistinctNumbers) {
  ThreadPool pool(3);
  std::vector<int> busy(3, 0);
  pool.Run(3000, [&](size_t, int worker) {
    // A number used by two threads at once would be a data race on its counter.
    ++busy[static_cast<size_t>(worker)];
  });
  EXPECT_EQ(std::accumulate(busy.begin(), busy.end(), 0), 3000);
}

TEST(ThreadPool, CountsUsableCpus) {
  EXPECT_GE(ThreadPool::UsableCpus(), 1);
}

TEST(ThreadPoolDeath, RefusesRunInsideRun) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ThreadPool pool(1);
  EXPECT_DEATH(pool.Run(1, [&](size_t, int) { pool.Run(1, [](size_t, int) {}); }), "inside Run");
}

}  // namespace
}  // namespace fak
