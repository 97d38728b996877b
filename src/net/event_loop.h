#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/function_ref.h"
#include "base/unique_function.h"
#include "net/timer_wheel.h"

namespace fak::net {

// One thread that waits for sockets and deadlines and calls back. Everything made on a loop lives
// and dies on it; other threads reach it by Post(). Callbacks must be short: everything else on
// this loop waits for them.
class EventLoop {
 public:
  EventLoop();
  ~EventLoop();  // Stop()s
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Starts the thread. Once. `name` is its name for debuggers, at most 15 characters.
  void Start(const std::string& name);
  // Ends the thread and waits for that; what was posted and hasn't run is dropped. Not from the
  // loop itself. Idempotent.
  void Stop();

  // Any thread. True on the loop's thread; when no thread runs, for everybody.
  bool InLoop() const;
  // Any thread. Runs the task on the loop, after all that were posted before, by whatever thread.
  void Post(UniqueFunction<void()> task);
  // Any thread. Runs the task on the loop and waits for it; at once when InLoop(). Never while
  // holding something that the loop may wait for.
  void Invoke(FunctionRef<void()> task);

  // Loop thread. Timers of this loop: `Timer timer(loop.timers(), [..] {..});`
  TimerWheel& timers();
  // Monotonic; read from the clock at each call.
  int64_t NowNs() const;

  // Asio's objects, for this room only.
  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace fak::net
