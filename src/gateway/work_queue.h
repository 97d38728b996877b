#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_function.h"

namespace fak::gateway {

// Threads that do what would hold up an event loop: rendering and tokenising prompts. The queue is
// bounded; a task that doesn't fit is refused, and its caller answers 503. Any thread may push.
class WorkQueue {
 public:
  // How willingly the threads run: kBehind is for work that takes long, beside which what waits on
  // an event loop comes first, also where they share a core (Linux; elsewhere the same).
  enum class Priority : uint8_t { kNormal, kBehind };

  // Throws std::system_error when the system starts no more threads.
  WorkQueue(size_t threads, size_t tasks_max, Priority priority = Priority::kNormal);
  ~WorkQueue();  // Stop()s
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // False, and nothing happens, when tasks_max wait already or the queue was stopped.
  [[nodiscard]] bool Push(UniqueFunction<void()> task);
  // Drops what waits, finishes what runs. Idempotent.
  void Stop();

 private:
  explicit WorkQueue(size_t tasks_max) : tasks_max_(tasks_max) {}
  void Run();

  const size_t tasks_max_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable wake_;
  std::deque<UniqueFunction<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace fak::gateway
