// bench: links fak_tensor
// One look at a row of logits and a draw from it, by ISA, vocabulary and what the request asks for.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensor/cpu/sample.h"
#include "tensor/spec/random.h"

namespace fak::tensor::cpu {
namespace {

// Roughly bell-shaped, with a standard deviation of 2.3 nats.
std::vector<float> Logits(uint32_t n) {
  std::vector<float> logits(n);
  for (uint32_t i = 0; i < n; ++i) {
    float x = 0.0f;
    for (uint32_t k = 0; k < 4; ++k) {
      x += static_cast<float>(spec::SampleBits(1, k, i) >> 40) * 0x1p-24f - 0.5f;
    }
    logits[i] = x * 4.0f;
  }
  return logits;
}

constexpr uint32_t kTaskLogits = 128;  // that a task of the head product looks at

struct Case {
  const char* name;
  SampleSpec spec;
};

const Case kCases[] = {
    {"greedy", {.temperature = 0.0f}},
    {"plain", {}},
    {"top_p", {.top_p = 0.95f}},
    {"top_k_top_p", {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f}},
    {"min_p", {.min_p = 0.05f}},
    {"logprobs", {.top_logprobs = 20}},
};

void BM_Sample(benchmark::State& state, Isa isa, SampleSpec spec) {
  const std::vector<float> logits = Logits(static_cast<uint32_t>(state.range(0)));
  Sampler sampler(KernelsFor(isa));
  SampleResult result;
  for (auto _ : state) {
    ++spec.position;
    LogitPeak peak;
    for (uint32_t first = 0; first < logits.size(); first += kTaskLogits) {
      peak.Add(KernelsFor(isa), std::span(logits).subspan(first, kTaskLogits), first);
    }
    sampler.Sample(logits, peak, spec, result);
    benchmark::DoNotOptimize(result.token);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

const bool kRegistered = [] {
  for (const Isa isa : CpuIsas()) {
    for (const Case& c : kCases) {
      benchmark::RegisterBenchmark(
          ("sample/" + std::string(IsaName(isa)) + "/" + c.name).c_str(),
          [isa, spec = c.spec](benchmark::State& state) { BM_Sample(state, isa, spec); })
          ->Arg(49152)
          ->Arg(262144);
    }
  }
  return true;
}();

}  // namespace
}  // namespace fak::tensor::cpu
