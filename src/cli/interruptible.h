#pragma once

#include "base/signal.h"

namespace fak::cli {

// While it lives, Ctrl-C ends the program at once, with a line that says so and kInterrupted: for
// verbs that hold nothing others could see half done.
class Interruptible {
 public:
  Interruptible();

 private:
  const SignalWatcher watcher_;
};

}  // namespace fak::cli
