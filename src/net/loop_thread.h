#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "base/function_ref.h"
#include "base/unique_function.h"

namespace fak::net {

// The one thread that runs a loop. Start() and Join() are for the loop's owner; IsCurrent() for any
// thread.
class LoopThread {
 public:
  // Returns once `run` is about to be called on the new thread, named so (15 characters of it).
  void Start(const std::string& name, UniqueFunction<void()> run);
  // Waits until `run` has returned; it was told to. Not from inside it.
  void Join();
  bool started() const { return thread_.joinable(); }
  // True on the thread, and on any while there is none: then nobody else touches the loop.
  bool IsCurrent() const;

 private:
  std::thread thread_;
  std::atomic<std::thread::id> runs_on_{};  // no thread: not running
};

// Runs the task on the loop (Post(), InLoop()) and waits for it; at once where the caller is there.
template <class Loop>
void InvokeOn(Loop& loop, FunctionRef<void()> task) {
  if (loop.InLoop()) {
    task();
    return;
  }
  std::mutex mutex;
  std::condition_variable done;
  bool ran = false;
  loop.Post([&] {
    task();
    const std::lock_guard lock(mutex);
    ran = true;
    done.notify_one();
  });
  std::unique_lock lock(mutex);
  done.wait(lock, [&ran] { return ran; });
}

}  // namespace fak::net
