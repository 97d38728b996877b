// bench: links fak_base
// What one fork and join costs: a decode step pays it several times a layer.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/thread_pool.h"

namespace fak {
namespace {

void ForkAndJoin(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  std::atomic<uint64_t> sum = 0;
  for (auto _ : state) {
    pool.Run(8, [&](size_t index, int) { sum.fetch_add(index, std::memory_order_relaxed); });
  }
  benchmark::DoNotOptimize(sum.load());
}
BENCHMARK(ForkAndJoin)
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(std::max(2, ThreadPool::UsableCpus()))
    ->UseRealTime();

}  // namespace
}  // namespace fak
