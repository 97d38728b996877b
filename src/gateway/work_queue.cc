#include "gateway/work_queue.h"

#ifdef __linux__
#include <sys/resource.h>
#include <unistd.h>
#endif

namespace fak::gateway {
namespace {

// Linux gives each thread a niceness of its own; a thread may always be nicer. As nice as can be: a
// loop that shares the core sleeps often enough, and takes its turn at once (net/loop_thread.cc).
void StandBehind() {
#ifdef __linux__
  constexpr int kNiceness = 19;
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNiceness);
#endif
}

}  // namespace

// By delegation, so that the destructor stops the threads that did start when one doesn't.
WorkQueue::WorkQueue(size_t threads, size_t tasks_max, Priority priority) : WorkQueue(tasks_max) {
  for (size_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this, priority] {
      if (priority == Priority::kBehind) {
        StandBehind();
      }
      Run();
    });
  }
}

WorkQueue::~WorkQueue() {
  Stop();
}

bool WorkQueue::Push(UniqueFunction<void()> task) {
  const std::lock_guard lock(mutex_);
  if (stopping_ || tasks_.size() >= tasks_max_) {
    return false;
  }
  tasks_.push_back(std::move(task));
  wake_.notify_one();
  return true;
}

void WorkQueue::Stop() {
  std::deque<UniqueFunction<void()>> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(tasks_);
    wake_.notify_all();
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) {
      thread.join();
    }
  }
}

void WorkQueue::Run() {
  while (true) {
    UniqueFunction<void()> task;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (stopping_) {
        return;
      }
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace fak::gateway
