// Hot path: bench/micro/thread_pool_bench.cc.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"

namespace fak {

// A fixed set of threads that kernels fork onto and join from. The calling thread is one of them.
//
// Tasks are handed out one by one through an atomic counter, so a thread that a busy neighbour
// has pushed off its core delays the join by the one task it holds, never by a fixed share. Which
// thread runs which task is therefore chance: a task's result may depend on its index only
// (design: the same bits for any thread count).
//
// A thread with nothing to do spins for about kSpinUs (with pauses first, then yielding its
// core), then sleeps in the kernel. Fork and join of a hot pool costs 1 to 2 us; waking sleepers
// costs tens of us more. Nothing is allocated.
//
// Threads: Run() by one thread at a time (CHECKed), and not from inside a task.
class ThreadPool {
 public:
  static constexpr int kSpinUs = 60;

  // `threads` counts the caller too, so 1 starts none. At least 1 (CHECKed).
  explicit ThreadPool(int threads);
  // kResourceExhausted where the system started fewer than it was asked for; the pool works with
  // those.
  const Status& started() const { return started_; }
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(index, worker) once for every index in [0, n_tasks) and returns when all calls
  // have. `worker` in [0, threads()) is this thread's number (0 is the caller), for scratch memory.
  // What tasks wrote is visible to the caller afterwards. n_tasks <= 2^31. Tasks must not throw.
  void Run(size_t n_tasks, FunctionRef<void(size_t index, int worker)> task);

  // How many threads the machine lets this process use (affinity and cgroup quota considered).
  static int UsableCpus();

 private:
  void WorkerLoop(int worker);
  // Runs tasks of the current job until none is left to take.
  void TakePart(int worker);
  bool WorkWaits() const;
  void SleepUntilWork();
  void Join(uint32_t n_tasks);

  // What a task needs to know of its job. Written by Run() while no job is live, read by a thread
  // only while it holds a task of the live job.
  const FunctionRef<void(size_t, int)>* task_ = nullptr;
  uint32_t n_tasks_ = 0;

  // Tasks not handed out yet of the live job (low 32 bits) below a job number, which keeps a
  // thread that read an old value from taking a task of a newer job.
  alignas(64) std::atomic<uint64_t> tickets_{0};
  // Tasks finished of the live job.
  alignas(64) std::atomic<uint32_t> finished_{0};
  std::atomic<uint32_t> caller_sleeps_{0};
  // Futex that idle workers sleep on; bumped to wake them.
  alignas(64) std::atomic<uint32_t> wake_{0};
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::atomic<bool> running_{false};

  std::vector<std::thread> workers_;
  Status started_;
};

}  // namespace fak
