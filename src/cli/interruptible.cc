#include "cli/interruptible.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "cli/verb.h"

namespace fak::cli {

Interruptible::Interruptible()
    : watcher_({SIGINT}, [](int) {
        std::fputs("\nfak: interrupted\n", stderr);
        std::_Exit(kInterrupted);
      }) {}

}  // namespace fak::cli
