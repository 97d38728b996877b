#include "net/zmq_loop.h"

#include <fcntl.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>

#include "base/clock.h"
#include "base/result.h"
#include "net/zmq_loop_impl.h"

namespace fak::net {

ZmqLoop::Impl::Impl() : wheel([] { return Clock::Real().NowNs(); }, [] {}), context(zmq_ctx_new()) {
  CHECK(context != nullptr) << "out of memory";
  int ends[2];
  CHECK(pipe(ends) == 0) << "no file descriptors left";
  wake_read = ends[0];
  wake_write = ends[1];
  for (const int end : ends) {
    fcntl(end, F_SETFL, O_NONBLOCK);
    fcntl(end, F_SETFD, FD_CLOEXEC);
  }
}

ZmqLoop::Impl::~Impl() {
  CHECK(waiters.empty()) << "a socket outlives its loop";
  zmq_ctx_term(context);
  close(wake_read);
  close(wake_write);
}

// A full pipe wakes as well.
void ZmqLoop::Impl::Wake() {
  const char byte = 0;
  [[maybe_unused]] const ssize_t written = write(wake_write, &byte, 1);
}

void ZmqLoop::Impl::RunPosted() {
  std::vector<UniqueFunction<void()>> tasks;
  {
    const std::lock_guard lock(mutex);
    tasks.swap(posted);
  }
  for (UniqueFunction<void()>& task : tasks) {
    task();
  }
}

void ZmqLoop::Impl::WaitAndCall() {
  const std::vector<std::shared_ptr<ZmqWaiter>> waited = waiters;  // callbacks may change them
  std::vector<zmq_pollitem_t> items(waited.size() + 1);
  items[0] = {nullptr, wake_read, ZMQ_POLLIN, 0};
  for (size_t i = 0; i < waited.size(); ++i) {
    items[i + 1] = {waited[i]->socket, 0, ZMQ_POLLIN, 0};
  }
  const int64_t due_ns = wheel.NextDueNs();
  const int64_t left_ns = due_ns - Clock::Real().NowNs();
  const long timeout_ms =
      due_ns == INT64_MAX ? -1 : static_cast<long>(std::max<int64_t>(0, left_ns) / kNsPerMs + 1);
  if (zmq_poll(items.data(), static_cast<int>(items.size()), timeout_ms) > 0) {
    if (items[0].revents != 0) {
      char drained[64];
      while (read(wake_read, drained, sizeof drained) > 0) {
      }
    }
    for (size_t i = 0; i < waited.size(); ++i) {
      if (items[i + 1].revents != 0 && waited[i]->socket != nullptr) {
        waited[i]->on_readable(*waited[i]);
      }
    }
  }
  wheel.Advance();
}

void ZmqLoop::Impl::Run() {
  while (true) {
    RunPosted();
    {
      const std::lock_guard lock(mutex);
      if (stopping) {
        return;
      }
      if (!posted.empty()) {
        continue;
      }
    }
    WaitAndCall();
  }
}

ZmqLoop::ZmqLoop() : impl_(std::make_unique<Impl>()) {}

ZmqLoop::~ZmqLoop() {
  Stop();
}

void ZmqLoop::Start(const std::string& name) {
  impl_->thread.Start(name, [this] { impl_->Run(); });
}

void ZmqLoop::Stop() {
  if (!impl_->thread.started()) {
    return;
  }
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->Wake();
  impl_->thread.Join();
  impl_->posted.clear();
}

bool ZmqLoop::InLoop() const {
  return impl_->thread.IsCurrent();
}

void ZmqLoop::Post(UniqueFunction<void()> task) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->posted.push_back(std::move(task));
  }
  impl_->Wake();
}

void ZmqLoop::Invoke(FunctionRef<void()> task) {
  InvokeOn(*this, task);
}

TimerWheel& ZmqLoop::timers() {
  return impl_->wheel;
}

}  // namespace fak::net
