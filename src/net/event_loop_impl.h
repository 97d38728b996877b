#pragma once

#include "net/asio.h"
#include "net/event_loop.h"
#include "net/loop_thread.h"

namespace fak::net {

struct EventLoop::Impl {
  Impl();

  // Sets the system timer to what the wheel waits for next.
  void ScheduleWheel();

  // Declared in the order in which they depend on each other: callbacks that the context drops
  // when it goes may own timers.
  TimerWheel wheel;
  // One thread runs it and has all of its sockets to itself, so theirs need no lock.
  asio::io_context context{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE_IO};
  asio::executor_work_guard<asio::io_context::executor_type> guard;
  asio::steady_timer system_timer;
  LoopThread thread;
};

}  // namespace fak::net
