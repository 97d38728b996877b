#include "perf/clock_guard.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/thread_pool.h"

namespace fak::perf {
namespace {

constexpr int64_t kSliceNs = 10 * kNsPerMs;
constexpr int kAloneSlices = 25;
constexpr int kTogetherSlices = 150;
constexpr int kAddsAtOnce = 1 << 18;  // under 0.1 ms between two looks at the clock

// Each waits for the one before it.
uint64_t Adds(uint64_t x, uint64_t y) {
  for (int i = 0; i < kAddsAtOnce / 16; ++i) {
#if defined(__clang__)
#pragma clang loop unroll(full)
#else
#pragma GCC unroll 16
#endif
    for (int j = 0; j < 16; ++j) {
      __asm__("" : "+r"(x));  // else the compiler multiplies
      x += y;
    }
  }
  return x;
}

struct Rates {
  double best = 0;   // of a slice
  double least = 0;  // of a slice
  double mean = 0;
};

Rates RunSlices(int slices) {
  const Clock& clock = Clock::Real();
  Rates rates;
  uint64_t x = 1;
  uint64_t done = 0;
  const int64_t started_ns = clock.NowNs();
  int64_t now_ns = started_ns;
  for (int slice = 0; slice < slices; ++slice) {
    const int64_t slice_ns = now_ns;
    uint64_t adds = 0;
    do {
      x = Adds(x, static_cast<uint64_t>(slice) | 1);
      __asm__ volatile("" : : "r"(x));  // somebody needs it
      adds += kAddsAtOnce;
      now_ns = clock.NowNs();
    } while (now_ns - slice_ns < kSliceNs && now_ns - started_ns < slices * kSliceNs);
    const double rate = static_cast<double>(adds) / static_cast<double>(now_ns - slice_ns);
    rates.best = std::max(rates.best, rate);
    rates.least = slice == 0 ? rate : std::min(rates.least, rate);
    done += adds;
    if (now_ns - started_ns >= slices * kSliceNs) {  // slices that somebody else took
      break;
    }
  }
  rates.mean = static_cast<double>(done) / static_cast<double>(now_ns - started_ns);
  return rates;
}

}  // namespace

Result<ClockGuard> RunClockGuard(uint32_t threads,
                                 const std::function<void(uint32_t part)>& on_part) {
  ThreadPool pool(static_cast<int>(threads));
  TRY(pool.started());
  ClockGuard guard;
  guard.threads = threads;
  on_part(0);
  guard.alone_ghz = RunSlices(kAloneSlices).best;
  on_part(1);
  std::vector<Rates> rates(threads);
  std::atomic<uint32_t> there{0};  // all start together
  pool.Run(threads, [&](size_t index, int) {
    there.fetch_add(1);
    while (there.load() < threads) {
      std::this_thread::yield();
    }
    rates[index] = RunSlices(kTogetherSlices);
  });
  guard.least_ghz = rates[0].least;
  for (const Rates& rate : rates) {
    guard.all_ghz += rate.mean;
    guard.least_ghz = std::min(guard.least_ghz, rate.least);
  }
  on_part(2);
  guard.after_ghz = RunSlices(kAloneSlices).best;
  return guard;
}

}  // namespace fak::perf
