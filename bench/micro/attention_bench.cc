// bench: links fak_tensor
// Attention of one KV head over a context, as a task of the CPU back end runs it: decode (one row)
// and prefill (a tile of rows), by ISA. Items are query-position pairs; "flop" counts q·k and p·v.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/cpu/kernels.h"

namespace fak::tensor::cpu {
namespace {

struct Context {
  Context(uint32_t positions, uint32_t dim, uint32_t n_queries)
      : splits(positions / kSplitPositions),
        head_dim(dim),
        keys(size_t{positions} * dim, 0x2e66),  // 0.1 in f16
        values(size_t{positions} * dim, 0x2e66),
        q(size_t{n_queries} * dim, 0.5f),
        partials(size_t{n_queries} * splits * (dim + 2)),
        scores(size_t{n_queries} * kSplitPositions + 16),
        out(dim) {}

  void Run(const Kernels& kernels, uint32_t n) {
    AttentionSplit split;
    std::vector<AttentionQuery>& all = queries;
    all.resize(n);
    split.head_dim = head_dim;
    split.value_stride = head_dim;
    split.scale = 0.18f;
    split.queries = all.data();
    split.n_queries = n;
    split.scores = scores.data();
    const size_t o_floats = size_t{n} * splits * head_dim;
    for (uint32_t s = 0; s < splits; ++s) {
      for (uint32_t t = 0; t < 16; ++t) {
        const size_t at = (size_t{s} * 16 + t) * 16 * head_dim;
        split.keys[t] = reinterpret_cast<const std::byte*>(keys.data() + at);
        split.values[t] = reinterpret_cast<const std::byte*>(values.data() + at);
      }
      for (uint32_t i = 0; i < n; ++i) {
        const size_t partial = size_t{i} * splits + s;
        all[i] = {.q = q.data() + size_t{i} * head_dim,
                  .begin = 0,
                  .end = kSplitPositions,
                  .maximum = partials.data() + o_floats + partial,
                  .sum = partials.data() + o_floats + size_t{n} * splits + partial,
                  .o = partials.data() + partial * head_dim};
      }
      kernels.attend(KvType::kF16, split);
    }
    for (uint32_t i = 0; i < n; ++i) {
      const size_t first = size_t{i} * splits;
      kernels.combine(partials.data() + o_floats + first,
                      partials.data() + o_floats + size_t{n} * splits + first,
                      partials.data() + first * head_dim, splits, head_dim, head_dim, out.data());
    }
  }

  uint32_t splits;
  uint32_t head_dim;
  std::vector<uint16_t> keys;
  std::vector<uint16_t> values;
  std::vector<float> q;
  std::vector<float> partials;
  std::vector<float> scores;
  std::vector<float> out;
  std::vector<AttentionQuery> queries;
};

void BM_Attention(benchmark::State& state, Isa isa) {
  const auto positions = static_cast<uint32_t>(state.range(0));
  const auto dim = static_cast<uint32_t>(state.range(1));
  const auto queries = static_cast<uint32_t>(state.range(2));
  Context context(positions, dim, queries);
  const Kernels& kernels = KernelsFor(isa);
  for (auto _ : state) {
    context.Run(kernels, queries);
    benchmark::DoNotOptimize(context.out.data());
  }
  const double pairs = static_cast<double>(state.iterations()) * positions * queries;
  state.counters["flop"] = benchmark::Counter(pairs * 4 * dim, benchmark::Counter::kIsRate);
  state.counters["kv_bytes"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * positions * dim * 4, benchmark::Counter::kIsRate);
}

const bool kRegistered = [] {
  for (const Isa isa : CpuIsas()) {
    auto* const bench =
        benchmark::RegisterBenchmark(("attention/" + std::string(IsaName(isa))).c_str(),
                                     [isa](benchmark::State& state) { BM_Attention(state, isa); });
    bench->ArgNames({"positions", "dim", "queries"});
    for (const int64_t dim : {64, 128, 256}) {
      for (const int64_t queries : {1, 3, 4, 7, 32}) {
        bench->Args({1024, dim, queries});
      }
    }
    bench->Args({16384, 64, 3});
  }
  return true;
}();

}  // namespace
}  // namespace fak::tensor::cpu
