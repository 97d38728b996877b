#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "net/loop_thread.h"
#include "net/zmq_loop.h"

// Only zmq_loop.cc and zmq_socket.cc include <zmq.h>; this header names its objects as void*.
namespace fak::net {

// A libzmq socket that the loop waits for. Shared, since a callback may close the socket whose
// message it was given.
struct ZmqWaiter {
  void* socket = nullptr;  // null: closed
  // Takes what has come, a bounded amount of it.
  void (*on_readable)(ZmqWaiter& waiter) = nullptr;
  void* owner = nullptr;
};

struct ZmqLoop::Impl {
  Impl();
  ~Impl();
  void Run();
  void WaitAndCall();
  void RunPosted();
  void Wake();

  TimerWheel wheel;
  void* const context;
  std::vector<std::shared_ptr<ZmqWaiter>> waiters;

  int wake_read = -1;
  int wake_write = -1;
  std::mutex mutex;  // guards the members below
  std::vector<UniqueFunction<void()>> posted;
  bool stopping = false;

  LoopThread thread;
};

}  // namespace fak::net
