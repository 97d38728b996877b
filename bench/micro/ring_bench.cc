// bench: links fak_base
// What one value costs through a ring, both ends on one thread: no waiting, only the code.
#include <benchmark/benchmark.h>

#include <cstdint>

#include "base/ring.h"

namespace fak {
namespace {

template <class Ring>
void PushAndPop(benchmark::State& state) {
  constexpr uint64_t kBatch = 512;
  Ring ring(1024);
  for (auto _ : state) {
    for (uint64_t i = 0; i < kBatch; ++i) {
      uint64_t value = i;
      benchmark::DoNotOptimize(ring.TryPush(std::move(value)));
    }
    for (uint64_t i = 0; i < kBatch; ++i) {
      benchmark::DoNotOptimize(ring.TryPop());
    }
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kBatch));
}
BENCHMARK(PushAndPop<SpscRing<uint64_t>>)->Name("PushAndPop/spsc");
BENCHMARK(PushAndPop<MpscRing<uint64_t>>)->Name("PushAndPop/mpsc");

}  // namespace
}  // namespace fak
