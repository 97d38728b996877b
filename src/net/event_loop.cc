#include "net/event_loop.h"

#include <utility>

#include "base/clock.h"
#include "base/result.h"
#include "net/event_loop_impl.h"

namespace fak::net {

EventLoop::Impl::Impl()
    : wheel([] { return Clock::Real().NowNs(); }, [this] { ScheduleWheel(); }),
      guard(asio::make_work_guard(context)),
      system_timer(context) {}

EventLoop::Impl::~Impl() {
  while (!posted.empty()) {  // one that goes may post another
    const UniqueFunction<void()> dropped = std::move(posted.front());
    posted.pop_front();
  }
}

void EventLoop::Impl::Post(UniqueFunction<void()> task) {
  {
    const std::lock_guard lock(posted_mutex);
    posted.push_back(std::move(task));
  }
  asio::post(context, [this] { RunPosted(); });
}

void EventLoop::Impl::RunPosted() {
  UniqueFunction<void()> task;
  {
    const std::lock_guard lock(posted_mutex);
    task = std::move(posted.front());
    posted.pop_front();
  }
  task();
}

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
  CHECK(!impl_->context.stopped()) << "started twice";
  impl_->thread.Start(name, [this] { impl_->context.run(); });
}

void EventLoop::Stop() {
  if (impl_->thread.started()) {
    impl_->context.stop();
    impl_->thread.Join();
  }
}

bool EventLoop::InLoop() const {
  return impl_->thread.IsCurrent();
}

void EventLoop::Post(UniqueFunction<void()> task) {
  impl_->Post(std::move(task));
}

void EventLoop::Invoke(FunctionRef<void()> task) {
  InvokeOn(*this, task);
}

TimerWheel& EventLoop::timers() {
  return impl_->wheel;
}

int64_t EventLoop::NowNs() const {
  return Clock::Real().NowNs();
}

}  // namespace fak::net
