#pragma once

#include <deque>
#include <mutex>

#include "net/asio.h"
#include "net/event_loop.h"
#include "net/loop_thread.h"

namespace fak::net {

struct EventLoop::Impl {
  Impl();
  ~Impl();

  // Sets the system timer to what the wheel waits for next.
  void ScheduleWheel();
  void Post(UniqueFunction<void()> task);
  void RunPosted();

  // Declared in the order in which they depend on each other: callbacks that the context drops
  // when it goes may own timers.
  TimerWheel wheel;
  // One thread runs it and has all of its sockets to itself, so theirs need no lock.
  asio::io_context context{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE_IO};
  asio::executor_work_guard<asio::io_context::executor_type> guard;
  asio::steady_timer system_timer;
  // Asio lets what other threads post overtake what this one's callback has posted so far.
  std::mutex posted_mutex;  // guards `posted`
  std::deque<UniqueFunction<void()>> posted;
  LoopThread thread;
};

}  // namespace fak::net
