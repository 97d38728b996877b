#include "net/loop_thread.h"

#include <pthread.h>

#ifdef __linux__
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cstdint>

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

// A thread that works long beside a loop on one core keeps it for the slice it was given, some
// milliseconds, however nice it is, and also when the loop wakes up; but not from a thread that
// asks for a shorter slice than its own (EEVDF, Linux 6.12; earlier ones take the call and change
// nothing). Whoever gave the process another policy has decided about that.
void AskForShortSlices() {
#ifdef __linux__
  constexpr uint64_t kSliceNs = 100'000;  // the least that Linux gives
  struct {  // sched_attr of sched_setattr(2), which glibc 2.36 doesn't declare
    uint32_t size = sizeof(*this);
    uint32_t policy = SCHED_OTHER;
    uint64_t flags = 0;
    int32_t nice = 0;
    uint32_t priority = 0;
    uint64_t runtime_ns = kSliceNs;
    uint64_t deadline_ns = 0;
    uint64_t period_ns = 0;
  } attributes;
  if (sched_getscheduler(0) == SCHED_OTHER) {
    attributes.nice = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
    (void)syscall(SYS_sched_setattr, 0, &attributes, 0u);
  }
#endif
}

}  // namespace

void LoopThread::Start(const std::string& name, UniqueFunction<void()> run) {
  CHECK(!started()) << "started twice";
  std::mutex mutex;
  std::condition_variable runs;
  thread_ = std::thread([this, name, &mutex, &runs, body = std::move(run)]() mutable {
    NameThisThread(name.substr(0, 15));
    AskForShortSlices();
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
  // Whoever sees that there is none any more sees all that it did.
  const std::thread::id loop = runs_on_.load(std::memory_order_acquire);
  return loop == std::this_thread::get_id() || loop == std::thread::id();
}

}  // namespace fak::net
