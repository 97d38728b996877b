#include "net/loop_thread.h"

#include <pthread.h>

#include "base/result.h"

namespace fak::net {
namespace {

void NameThisThread(const std::string& name) {
#ifdef __APPLE__
  pthread_setname_np(name.c_str());
#else
  pthread_setname_np(pthread_self(), name.c_str());
#endif
}

}  // namespace

void LoopThread::Start(const std::string& name, UniqueFunction<void()> run) {
  CHECK(!started()) << "started twice";
  std::mutex mutex;
  std::condition_variable runs;
  thread_ = std::thread([this, name, &mutex, &runs, body = std::move(run)]() mutable {
    NameThisThread(name.substr(0, 15));
    {
      const std::lock_guard lock(mutex);
      runs_on_.store(std::this_thread::get_id());
      runs.notify_one();
    }
    body();
  });
  std::unique_lock lock(mutex);
  runs.wait(lock, [this] { return runs_on_.load() != std::thread::id(); });
}

void LoopThread::Join() {
  CHECK(std::this_thread::get_id() != thread_.get_id()) << "a loop can't wait for itself";
  thread_.join();
  runs_on_.store(std::thread::id());
}

bool LoopThread::IsCurrent() const {
  const std::thread::id loop = runs_on_.load(std::memory_order_relaxed);
  return loop == std::this_thread::get_id() || loop == std::thread::id();
}

}  // namespace fak::net
