// bench: links fak_fleet fak_base
// Looking a prompt of 100,000 tokens (6,250 units) up for 64 replicas in an index of a million
// units, each time another prompt, so that nothing of it is in the caches; and adding it again.
// Every unit has a holder; the first 64 of each prompt have 64. Counters: of single lookups p50 and
// p99, and bytes a pair where every unit has one holder, which is where a pair takes most.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "base/clock.h"
#include "fleet/residency_index.h"

namespace fak::fleet {
namespace {

constexpr size_t kPrompts = 160;
constexpr size_t kUnits = 6250;
constexpr size_t kReplicas = 64;
constexpr size_t kSharedUnits = 64;

struct Filled {
  Filled() {
    std::iota(replicas.begin(), replicas.end(), ReplicaId{0});
    for (size_t p = 0; p < kPrompts; ++p) {
      for (uint64_t& key : prompts.emplace_back(kUnits)) {
        key = random.Next64();
      }
      index.Add(static_cast<ReplicaId>(p % kReplicas), prompts.back());
    }
    bytes_a_pair = static_cast<double>(index.bytes()) / static_cast<double>(index.pairs());
    for (const ReplicaId replica : replicas) {
      for (const std::vector<uint64_t>& prompt : prompts) {
        index.Add(replica, std::span(prompt).first(kSharedUnits));
      }
    }
  }
  FakeRandom random{7};
  ResidencyIndex index{4'000'000, random};
  std::vector<ReplicaId> replicas = std::vector<ReplicaId>(kReplicas);
  std::vector<std::vector<uint64_t>> prompts;
  double bytes_a_pair = 0;
};

Filled& TheIndex() {
  static Filled filled;
  return filled;
}

void Match(benchmark::State& state) {
  Filled& filled = TheIndex();
  std::vector<double> us;
  us.reserve(1'000'000);
  size_t prompt = 0;
  for (auto _ : state) {
    const int64_t begin_ns = Clock::Real().NowNs();
    benchmark::DoNotOptimize(filled.index.Match(filled.prompts[prompt], filled.replicas));
    us.push_back(static_cast<double>(Clock::Real().NowNs() - begin_ns) / kNsPerUs);
    prompt = (prompt + 37) % kPrompts;
  }
  std::sort(us.begin(), us.end());
  state.counters["p50_us"] = us[us.size() / 2];
  state.counters["p99_us"] = us[us.size() * 99 / 100];
  state.counters["bytes_a_pair"] = filled.bytes_a_pair;
}
BENCHMARK(Match)->Unit(benchmark::kMicrosecond);

void AddAgain(benchmark::State& state) {
  Filled& filled = TheIndex();
  size_t prompt = 0;
  for (auto _ : state) {
    filled.index.Add(static_cast<ReplicaId>(prompt % kReplicas), filled.prompts[prompt]);
    prompt = (prompt + 37) % kPrompts;
  }
}
BENCHMARK(AddAgain)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace fak::fleet
