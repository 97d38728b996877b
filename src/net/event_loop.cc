#include "net/event_loop.h"

#include <pthread.h>

#include <condition_variable>
#include <mutex>

#include "base/clock.h"
#include "base/result.h"
#include "net/event_loop_impl.h"

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

EventLoop::Impl::Impl()
    : wheel([] { return Clock::Real().NowNs(); }, [this] { ScheduleWheel(); }),
      guard(asio::make_work_guard(context)),
      system_timer(context) {}

void EventLoop::Impl::ScheduleWheel() {
  const int64_t due_ns = wheel.NextDueNs();
  if (due_ns == INT64_MAX) {
    return;
  }
  // Cancels an earlier wait, so there is one at a time. Clock::Real() is the steady clock.
  system_timer.expires_at(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(due_ns)));
  system_timer.async_wait([this](const error_code& error) {
    if (!error) {
      wheel.Advance();
      ScheduleWheel();
    }
  });
}

EventLoop::EventLoop() : impl_(std::make_unique<Impl>()) {}

EventLoop::~EventLoop() {
  Stop();
}

void EventLoop::Start(const std::string& name) {
  CHECK(!impl_->thread.joinable() && !impl_->context.stopped()) << "started twice";
  std::mutex mutex;
  std::condition_variable started;
  impl_->thread = std::thread([this, name, &mutex, &started] {
    NameThisThread(name.substr(0, 15));
    {
      const std::lock_guard lock(mutex);
      impl_->runs_on.store(std::this_thread::get_id());
      started.notify_one();
    }
    impl_->context.run();
  });
  std::unique_lock lock(mutex);
  started.wait(lock, [this] { return impl_->runs_on.load() != std::thread::id(); });
}

void EventLoop::Stop() {
  if (!impl_->thread.joinable()) {
    return;
  }
  CHECK(std::this_thread::get_id() != impl_->thread.get_id()) << "a loop can't wait for itself";
  impl_->context.stop();
  impl_->thread.join();
  impl_->runs_on.store(std::thread::id());
}

bool EventLoop::InLoop() const {
  const std::thread::id loop = impl_->runs_on.load(std::memory_order_relaxed);
  return loop == std::this_thread::get_id() || loop == std::thread::id();
}

void EventLoop::Post(UniqueFunction<void()> task) {
  asio::post(impl_->context, [task = std::move(task)]() mutable { task(); });
}

void EventLoop::Invoke(FunctionRef<void()> task) {
  if (InLoop()) {
    task();
    return;
  }
  std::mutex mutex;
  std::condition_variable done;
  bool ran = false;
  Post([&] {
    task();
    const std::lock_guard lock(mutex);
    ran = true;
    done.notify_one();
  });
  std::unique_lock lock(mutex);
  done.wait(lock, [&ran] { return ran; });
}

TimerWheel& EventLoop::timers() {
  return impl_->wheel;
}

int64_t EventLoop::NowNs() const {
  return Clock::Real().NowNs();
}

}  // namespace fak::net
