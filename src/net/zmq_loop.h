#pragma once

#include <memory>
#include <string>

#include "base/function_ref.h"
#include "base/unique_function.h"
#include "net/timer_wheel.h"

namespace fak::net {

// One thread that waits for ZeroMQ sockets and deadlines and calls back. A loop of its own beside
// EventLoop: libzmq hides its file descriptors behind an edge that is easily missed, and decoding
// what engines tell of their caches must not hold up requests. Sockets of one loop share a context,
// so that inproc endpoints join them.
// Everything made on a loop lives and dies on it, or while it doesn't run; other threads reach it
// by Post().
class ZmqLoop {
 public:
  ZmqLoop();
  ~ZmqLoop();  // Stop()s; every socket and timer must be gone by then
  ZmqLoop(const ZmqLoop&) = delete;
  ZmqLoop& operator=(const ZmqLoop&) = delete;

  // Starts the thread. Once. `name` is its name for debuggers, at most 15 characters.
  void Start(const std::string& name);
  // Ends the thread and waits for that; what was posted and hasn't run is dropped. Not from the
  // loop itself. Idempotent.
  void Stop();

  // Any thread. True on the loop's thread; when no thread runs, for everybody.
  bool InLoop() const;
  // Any thread. Runs the task on the loop, in order. Whoever posts bounds how much.
  void Post(UniqueFunction<void()> task);
  // Any thread. Runs the task on the loop and waits for it; at once when InLoop().
  void Invoke(FunctionRef<void()> task);

  // Loop thread.
  TimerWheel& timers();

  // libzmq's objects, for zmq_socket.cc only.
  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace fak::net
