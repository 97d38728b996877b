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
  asio::io_context context{1};  // 1: one thread runs it
  asio::executor_work_guard<asio::io_context::executor_type> guard;
  asio::steady_timer system_timer;
  LoopThread thread;
};

}  // namespace fak::net
