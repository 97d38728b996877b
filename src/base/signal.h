#pragma once

#include <atomic>
#include <functional>
#include <initializer_list>
#include <thread>
#include <vector>

namespace fak {

// Writing to a closed pipe or socket, or more than a file may have, gives an error instead of
// ending the program. Once, in main().
void IgnoreWriteSignals();

// Delivers signals as ordinary calls on an ordinary thread, where anything may be done. Make one
// in main() before any other thread is started: the signals are blocked in the making thread, and
// threads inherit that. (Child processes start with nothing blocked, see ChildProcess.)
// Destroying it stops the delivery; the signals stay blocked.
class SignalWatcher {
 public:
  // `on_signal` gets the signal's number, one call at a time, on the watcher's thread.
  SignalWatcher(std::initializer_list<int> signals, std::function<void(int)> on_signal);
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

 private:
  const std::vector<int> signals_;
  const std::function<void(int)> on_signal_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace fak
