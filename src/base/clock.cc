#include "base/clock.h"

#include <chrono>

namespace fak {
namespace {

class RealClock : public Clock {
 public:
  int64_t NowNs() const override { return SinceEpochNs<std::chrono::steady_clock>(); }
  int64_t WallNs() const override { return SinceEpochNs<std::chrono::system_clock>(); }

 private:
  template <class StdClock>
  static int64_t SinceEpochNs() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(StdClock::now().time_since_epoch())
        .count();
  }
};

}  // namespace

const Clock& Clock::Real() {
  static const RealClock kClock;
  return kClock;
}

}  // namespace fak
