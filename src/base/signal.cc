#include "base/signal.h"

#include <pthread.h>
#include <signal.h>

#include "base/result.h"

namespace fak {

void IgnoreWriteSignals() {
  CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
  CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
}

SignalWatcher::SignalWatcher(std::initializer_list<int> signals, std::function<void(int)> on_signal)
    : signals_(signals), on_signal_(std::move(on_signal)) {
  CHECK(!signals_.empty()) << "no signals to watch";
  sigset_t set;
  sigemptyset(&set);
  for (const int number : signals_) {
    sigaddset(&set, number);
  }
  CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  thread_ = std::thread([this, set] {
    while (true) {
      int number = 0;
      CHECK(sigwait(&set, &number) == 0);
      if (stop_.load()) {
        return;
      }
      on_signal_(number);
    }
  });
}

SignalWatcher::~SignalWatcher() {
  stop_.store(true);
  // Sent to the thread itself, so nobody else can take it.
  pthread_kill(thread_.native_handle(), signals_.front());
  thread_.join();
}

}  // namespace fak
