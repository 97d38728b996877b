#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace fak::cli {

// A signal, waited for. Any thread; set for good.
class Latch {
 public:
  void Set() {
    const std::lock_guard lock(mutex_);
    set_ = true;
    wake_.notify_all();
  }
  // False when the time is over first.
  bool WaitFor(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return wake_.wait_for(lock, time, [this] { return set_; });
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool set_ = false;
};

}  // namespace fak::cli
