// bench: links fak_tensor
//
// Products of tensor/cpu/matmul.h, one thread: Decode is one row against a matrix that caches do
// not hold, in GB/s of packed weights; Prefill is many rows, in GOPS (2 · outputs · cols · rows).
// Read and Peak are what the machine gives: run them beside, in the same minutes.
#include <benchmark/benchmark.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <cstring>
#include <memory>
#include <random>
#include <string>

#include "tensor/cpu/arena.h"
#include "tensor/cpu/matmul.h"
#include "tensor/spec/convert.h"

namespace {

using fak::tensor::CpuIsas;
using fak::tensor::DType;
using fak::tensor::DTypeInfo;
using fak::tensor::DTypeName;
using fak::tensor::DTypeSupport;
using fak::tensor::Isa;
using fak::tensor::IsaName;
using namespace fak::tensor::cpu;

Arena MakeArena(uint64_t bytes) {
  auto arena = Arena::Make(bytes, "benchmark");
  CHECK(arena.has_value()) << arena.error().detail;
  return std::move(*arena);
}

// Speed depends on no value but denormals and the like: one panel of plain numbers, repeated.
struct Weights {
  Weights(DType type, uint32_t outputs_in, uint32_t cols_in)
      : outputs(outputs_in), cols(cols_in), arena(MakeArena(PackedBytes(type, outputs, cols))) {
    std::vector<std::byte> rows(static_cast<size_t>(RowBytes(type, cols)) * kPanelRows);
    std::mt19937 random(1);
    for (size_t i = 0; i + 2 <= rows.size(); i += 2) {
      // Read as f16 or as the high half of an f32: small normal numbers, either sign.
      const auto value = static_cast<uint16_t>(0x2c00 | (random() & 0x83ff));
      std::memcpy(&rows[i], &value, 2);
    }
    std::vector<std::byte> panel(PanelBytes(type, cols));
    PackPanel(type, kPanelRows, cols, rows.data(), panel.data());
    for (uint64_t at = 0; at + panel.size() <= arena.bytes(); at += panel.size()) {
      std::memcpy(arena.data() + at, panel.data(), panel.size());
    }
  }
  uint32_t panels() const { return (outputs + kPanelRows - 1) / kPanelRows; }

  uint32_t outputs;
  uint32_t cols;
  Arena arena;
};

void RunProduct(benchmark::State& state, Isa isa, DType type, uint32_t outputs, uint32_t cols,
                uint32_t rows) {
  const Weights weights(type, outputs, cols);
  const MatmulKernels& kernels = MatmulKernelsFor(isa);
  const ActivationClass activation_class = ClassOf(type);
  const Arena memory = MakeArena(ActivationBytes(activation_class, rows, cols));
  const Activations x = {
      .type = activation_class, .rows = rows, .cols = cols, .data = memory.data()};
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> row(cols);
  for (uint32_t r = 0; r < rows; ++r) {
    for (float& value : row) {
      value = normal(random);
    }
    kernels.quantise(row.data(), x, r);
  }
  std::vector<float> out(size_t{rows} * outputs);
  const Product product = {.weights = weights.arena.data(),
                           .outputs = outputs,
                           .x = x,
                           .row_end = rows,
                           .out = out.data(),
                           .out_stride = outputs};
  for (auto _ : state) {
    kernels.MultiplyOf(type)(product, 0, weights.panels());
    benchmark::ClobberMemory();
  }
  const auto runs = static_cast<double>(state.iterations());
  state.counters["GB/s"] =
      benchmark::Counter(static_cast<double>(PackedBytes(type, outputs, cols)) * runs * 1e-9,
                         benchmark::Counter::kIsRate);
  state.counters["GOPS"] =
      benchmark::Counter(2e-9 * outputs * cols * rows * runs, benchmark::Counter::kIsRate);
}

void Quantise(benchmark::State& state, Isa isa, ActivationClass type) {
  constexpr uint32_t kCols = 2048;
  const Arena memory = MakeArena(ActivationBytes(type, 1, kCols));
  const Activations x = {.type = type, .rows = 1, .cols = kCols, .data = memory.data()};
  std::vector<float> row(kCols);
  for (uint32_t i = 0; i < kCols; ++i) {
    row[i] = static_cast<float>(i % 37) - 18.0f;
  }
  for (auto _ : state) {
    MatmulKernelsFor(isa).quantise(row.data(), x, 0);
    benchmark::ClobberMemory();
  }
  state.counters["values/s"] =
      benchmark::Counter(static_cast<double>(kCols) * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}

// What loading costs, in GB/s of the file.
void Pack(benchmark::State& state, DType type) {
  constexpr uint32_t kCols = 2048;
  const size_t bytes = static_cast<size_t>(RowBytes(type, kCols)) * kPanelRows;
  constexpr size_t kPanels = 64;
  const std::vector<std::byte> file(bytes * kPanels, std::byte{1});
  const Arena out = MakeArena(PanelBytes(type, kCols) * kPanels);
  for (auto _ : state) {
    for (size_t p = 0; p < kPanels; ++p) {
      PackPanel(type, kPanelRows, kCols, file.data() + p * bytes,
                out.data() + p * PanelBytes(type, kCols));
    }
  }
  state.counters["GB/s"] = benchmark::Counter(
      static_cast<double>(file.size()) * static_cast<double>(state.iterations()) * 1e-9,
      benchmark::Counter::kIsRate);
}

void Embed(benchmark::State& state, DType type) {
  constexpr uint32_t kCols = 1024;
  const Weights weights(type, 16, kCols);
  std::vector<float> out(kCols);
  for (auto _ : state) {
    EmbedRow(type, kCols, weights.arena.data(), 5, 1.0f, out.data());
    benchmark::ClobberMemory();
  }
}

#ifdef __x86_64__
// 4 streams with prefetch, as facts of the machine: the most that one thread reads.
__attribute__((target("avx2"))) void Read(benchmark::State& state) {
  constexpr size_t kBytes = 256u << 20;
  const Arena memory = MakeArena(kBytes);
  std::memset(memory.data(), 1, kBytes);
  for (auto _ : state) {
    __m256i sum = _mm256_setzero_si256();
    const auto* base = reinterpret_cast<const __m256i*>(memory.data());
    constexpr size_t kStream = kBytes / 4 / sizeof(__m256i);
    for (size_t i = 0; i < kStream; i += 2) {
      for (size_t s = 0; s < 4; ++s) {
        const __m256i* p = base + s * kStream + i;
        _mm_prefetch(reinterpret_cast<const char*>(p + 32), _MM_HINT_T0);
        sum = _mm256_add_epi64(sum, _mm256_add_epi64(p[0], p[1]));
      }
    }
    benchmark::DoNotOptimize(sum);
  }
  state.counters["GB/s"] = benchmark::Counter(
      static_cast<double>(kBytes) * static_cast<double>(state.iterations()) * 1e-9,
      benchmark::Counter::kIsRate);
}

__attribute__((target("avx512f,avx512bw,avx512vnni"))) void PeakInt8(benchmark::State& state) {
  __m512i sum[12];
  for (auto& s : sum) {
    s = _mm512_setzero_si512();
  }
  const __m512i a = _mm512_set1_epi8(3);
  for (auto _ : state) {
    for (int i = 0; i < 1000; ++i) {
      for (auto& s : sum) {
        s = _mm512_dpbusd_epi32(s, a, a);
      }
    }
    for (auto& s : sum) {
      benchmark::DoNotOptimize(s);
    }
  }
  state.counters["GOPS"] = benchmark::Counter(
      128e-9 * 12000 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
#endif

void RegisterProducts(Isa isa, DType type) {
  const std::string name = std::string(DTypeName(type)) + "/" + std::string(IsaName(isa));
  benchmark::RegisterBenchmark(("Decode/" + name).c_str(), [=](benchmark::State& state) {
    RunProduct(state, isa, type, 64 * 1024, 2048, 1);
  })->Unit(benchmark::kMillisecond);
  for (const uint32_t rows : {1u, 2u, 4u, 8u, 16u, 64u, 512u}) {
    benchmark::RegisterBenchmark(
        ("Rows/" + name + "/" + std::to_string(rows)).c_str(),
        [=](benchmark::State& state) { RunProduct(state, isa, type, 1024, 2048, rows); })
        ->Unit(benchmark::kMicrosecond);
  }
}

void RegisterAll() {
#ifdef __x86_64__
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) {
    benchmark::RegisterBenchmark("Read", Read)->Unit(benchmark::kMillisecond);
  }
  if (__builtin_cpu_supports("avx512vnni")) {
    benchmark::RegisterBenchmark("PeakInt8", PeakInt8);
  }
#endif
  for (const DTypeInfo& info : fak::tensor::AllDTypes()) {
    if (info.support == DTypeSupport::kComputed) {
      for (const Isa isa : CpuIsas()) {
        RegisterProducts(isa, info.type);
      }
      const std::string name(info.name);
      benchmark::RegisterBenchmark(("Pack/" + name).c_str(), Pack, info.type);
      benchmark::RegisterBenchmark(("Embed/" + name).c_str(), Embed, info.type);
    }
  }
  for (const Isa isa : CpuIsas()) {
    const std::string name(IsaName(isa));
    benchmark::RegisterBenchmark(("Quantise32/" + name).c_str(), Quantise, isa,
                                 ActivationClass::kInt8x32);
    benchmark::RegisterBenchmark(("Quantise256/" + name).c_str(), Quantise, isa,
                                 ActivationClass::kInt8x256);
  }
}

const bool registered = [] {
  RegisterAll();
  return true;
}();

}  // namespace
