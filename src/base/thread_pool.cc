#include "base/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <system_error>

#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#endif

#include "base/control_group.h"
#include "base/result.h"

namespace fak {
namespace {

constexpr uint64_t kTicketsMask = 0xFFFFFFFFu;
constexpr uint64_t kOneJob = uint64_t{1} << 32;

void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Calls `done` until it is true or kSpinUs have passed; returns its last answer. The first tenth
// keeps the core; the rest offers it to whoever might hold what we wait for.
template <class Done>
bool SpinUntil(Done done) {
  if (done()) {
    return true;
  }
  using SteadyClock = std::chrono::steady_clock;
  constexpr int kPausesBetweenLooksAtTheClock = 32;
  const auto start = SteadyClock::now();
  while (true) {
    for (int i = 0; i < kPausesBetweenLooksAtTheClock; ++i) {
      if (done()) {
        return true;
      }
      CpuRelax();
    }
    const auto spent = SteadyClock::now() - start;
    if (spent > std::chrono::microseconds(ThreadPool::kSpinUs)) {
      return done();
    }
    if (spent > std::chrono::microseconds(ThreadPool::kSpinUs / 10)) {
      std::this_thread::yield();
    }
  }
}

void NameThisThread(int worker) {
#ifdef __linux__
  char name[16];
  std::snprintf(name, sizeof name, "fak-pool-%d", worker);
  pthread_setname_np(pthread_self(), name);
#else
  (void)worker;
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  CHECK(threads >= 1) << "a pool has at least the calling thread";
  workers_.reserve(static_cast<size_t>(threads) - 1);
  try {
    for (int worker = 1; worker < threads; ++worker) {
      workers_.emplace_back([this, worker] {
        NameThisThread(worker);
        WorkerLoop(worker);
      });
    }
  } catch (const std::system_error& error) {  // what the library has for "no more of them"
    started_ = Fail(Code::kResourceExhausted,
                    "the system started " + std::to_string(workers_.size() + 1) + " of " +
                        std::to_string(threads) + " threads: " + error.code().message());
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  wake_.fetch_add(1);
  wake_.notify_all();
  for (std::thread& worker : workers_) {
    worker.join();
  }
}

void ThreadPool::Run(size_t n_tasks, FunctionRef<void(size_t, int)> task) {
  CHECK(n_tasks <= (size_t{1} << 31)) << "too many tasks";
  CHECK(!running_.exchange(true, std::memory_order_acquire)) << "Run() inside Run()";
  if (workers_.empty() || n_tasks <= 1) {
    for (size_t i = 0; i < n_tasks; ++i) {
      task(i, 0);
    }
    running_.store(false, std::memory_order_release);
    return;
  }
  task_ = &task;
  n_tasks_ = static_cast<uint32_t>(n_tasks);
  finished_.store(0, std::memory_order_relaxed);
  const uint64_t job = (tickets_.load(std::memory_order_relaxed) & ~kTicketsMask) + kOneJob;
  // Sequentially consistent against a worker that announces its sleep and then looks for work:
  // one of the two sees the other.
  tickets_.store(job | n_tasks_);
  if (sleepers_.load() > 0) {
    wake_.fetch_add(1);
    wake_.notify_all();
  }
  TakePart(0);
  Join(n_tasks_);
  running_.store(false, std::memory_order_release);
}

void ThreadPool::TakePart(int worker) {
  uint32_t done = 0;
  uint64_t seen = tickets_.load(std::memory_order_acquire);
  while ((seen & kTicketsMask) != 0) {
    if (!tickets_.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
      continue;
    }
    // The job can't end before this task is counted, so its fields hold still.
    (*task_)(n_tasks_ - static_cast<uint32_t>(seen & kTicketsMask), worker);
    ++done;
    --seen;
    if ((seen & kTicketsMask) == 0) {
      break;
    }
    seen = tickets_.load(std::memory_order_acquire);
  }
  if (done == 0) {
    return;
  }
  const uint32_t n_tasks = n_tasks_;  // not ours to read once the last task is counted
  if (finished_.fetch_add(done) + done == n_tasks && caller_sleeps_.load() != 0) {
    finished_.notify_one();
  }
}

void ThreadPool::Join(uint32_t n_tasks) {
  const auto joined = [this, n_tasks] {
    return finished_.load(std::memory_order_acquire) == n_tasks;
  };
  if (SpinUntil(joined)) {
    return;
  }
  caller_sleeps_.store(1);
  for (uint32_t seen = finished_.load(); seen != n_tasks; seen = finished_.load()) {
    finished_.wait(seen);
  }
  caller_sleeps_.store(0);
}

void ThreadPool::WorkerLoop(int worker) {
  while (!stop_.load(std::memory_order_relaxed)) {
    if (SpinUntil([this] { return WorkWaits(); })) {
      TakePart(worker);
    } else {
      SleepUntilWork();
    }
  }
}

bool ThreadPool::WorkWaits() const {
  return (tickets_.load(std::memory_order_relaxed) & kTicketsMask) != 0 ||
         stop_.load(std::memory_order_relaxed);
}

void ThreadPool::SleepUntilWork() {
  const uint32_t seen = wake_.load();
  sleepers_.fetch_add(1);
  if ((tickets_.load() & kTicketsMask) == 0 && !stop_.load()) {
    wake_.wait(seen);
  }
  sleepers_.fetch_sub(1);
}

int ThreadPool::UsableCpus() {
  int cpus = static_cast<int>(std::thread::hardware_concurrency());
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    cpus = CPU_COUNT(&set);
  }
  if (const int quota = ReadGroupLimits().cpus; quota > 0) {
    cpus = std::min(cpus, quota);
  }
#endif
  return std::max(cpus, 1);
}

}  // namespace fak
