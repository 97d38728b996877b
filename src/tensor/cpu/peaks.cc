#include "tensor/cpu/peaks.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/strings.h"
#include "tensor/cpu/arena.h"
#include "tensor/cpu/machine.h"
#include "tensor/cpu/matmul.h"
#include "tensor/cpu_peaks.h"

namespace fak::tensor {
namespace cpu {

const PeakLoops& PeakLoopsFor(Isa isa) {
  switch (isa) {
#ifdef __x86_64__
    case Isa::kAvx2: return kPeaksAvx2;
    case Isa::kAvx512: return kPeaksAvx512;
#endif
#ifdef __aarch64__
    case Isa::kNeon:
      // What products use.
      return std::string_view(MatmulKernelsFor(isa).isa) == "neon_dotprod" ? kPeaksNeonDotprod
                                                                           : kPeaksNeon;
#endif
    default: CHECK(isa == Isa::kScalar) << "no loops for " << IsaName(isa); return kPeaksScalar;
  }
}

}  // namespace cpu

namespace {

constexpr int64_t kSampleNs = 50 * kNsPerMs;
// A thread looks at the clock after so much: less than 1 ms.
constexpr uint64_t kReadBytesAtOnce = uint64_t{1} << 20;
constexpr uint64_t kRoundsAtOnce = 4096;
constexpr size_t kProcBytesMax = 1 << 20;

// Huge pages of this process.
uint64_t HugePageBytes() {
  const Result<std::string> sums = ReadFile("/proc/self/smaps_rollup", kProcBytesMax);
  if (!sums) {
    return 0;
  }
  constexpr std::string_view kKey = "AnonHugePages:";
  const size_t at = sums->find(kKey);
  return at == std::string::npos
             ? 0
             : std::strtoull(sums->c_str() + at + kKey.size(), nullptr, 10) * 1024;
}

// That the system names, in bytes; 0 where it names none.
uint64_t LargestCache() {
  uint64_t most = 0;
  for (int index = 0; index < 8; ++index) {
    const Result<std::string> size =
        ReadFile("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size",
                 kProcBytesMax);
    if (size) {
      most = std::max(most, ParseBytes(Trim(*size)).value_or(0));
    }
  }
  return most;
}

}  // namespace

std::string_view PeakName(Peak peak) {
  switch (peak) {
    case Peak::kRead: return "read";
    case Peak::kInt8Dot: return "int8 dot";
    case Peak::kF32Fma: return "fp32 FMA";
  }
  return "";
}

Result<std::unique_ptr<CpuPeaks>> CpuPeaks::Make(std::vector<uint32_t> threads, uint64_t bytes) {
  CHECK(!threads.empty());
  const uint32_t most = *std::max_element(threads.begin(), threads.end());
  if (most > limits::kThreadsMax || *std::min_element(threads.begin(), threads.end()) == 0) {
    return Fail(Code::kInvalidArgument,
                "threads must be 1 to " + std::to_string(limits::kThreadsMax), "--threads");
  }
  if (bytes < most * kBytesMin) {
    return Fail(Code::kInvalidArgument,
                std::to_string(bytes) + " bytes are too little to read: " +
                    std::to_string(kBytesMin >> 20) + " MiB a thread are the least",
                "--memory");
  }
  const uint64_t available = cpu::ReadMachineMemory().available;
  if (available > 0 && bytes > available) {
    return Fail(Code::kResourceExhausted, FormatBytes(bytes) + " to read are more than the " +
                                              FormatBytes(available) + " that are available");
  }
  std::unique_ptr<CpuPeaks> peaks(new CpuPeaks());  // tidy: allow new: the constructor is private
  for (const uint32_t count : threads) {
    peaks->pools_.push_back(std::make_unique<ThreadPool>(static_cast<int>(count)));
    TRY(peaks->pools_.back()->started());
  }
  const uint64_t before = HugePageBytes();
  TRY_ASSIGN(cpu::Arena memory, cpu::Arena::Make(bytes, "the memory to read"));
  peaks->memory_ = std::make_unique<cpu::Arena>(std::move(memory));
  peaks->cursors_.resize(most);
  // Pages that were never written are all one page of zeros, which is in the cache.
  const uint64_t pieces = bytes / kReadBytesAtOnce;
  std::byte* const data = peaks->memory_->data();
  peaks->pools_.back()->Run(pieces, [&](size_t piece, int) {
    std::memset(data + piece * kReadBytesAtOnce, static_cast<int>(piece % 255 + 1),
                kReadBytesAtOnce);
  });
  const uint64_t after = HugePageBytes();
  peaks->huge_page_bytes_ = std::min(bytes, after - std::min(before, after));
  return peaks;
}

CpuPeaks::~CpuPeaks() = default;

uint64_t CpuPeaks::bytes() const {
  return memory_->bytes();
}

double CpuPeaks::RunThread(const PeakLoop& loop, size_t index) {
  const cpu::PeakLoops& loops = cpu::PeakLoopsFor(loop.isa);
  const uint64_t part = bytes() / loop.threads / kReadBytesAtOnce * kReadBytesAtOnce;
  const std::byte* const mine = memory_->data() + part * index;
  uint64_t& cursor = cursors_[index];
  uint32_t result = 0;
  uint64_t done = 0;
  const int64_t started_ns = Clock::Real().NowNs();
  int64_t ns = 0;
  do {
    switch (loop.peak) {
      case Peak::kRead:
        cursor = cursor + kReadBytesAtOnce <= part ? cursor : 0;
        result ^= loops.read[loop.pattern](mine + cursor, kReadBytesAtOnce);
        cursor += kReadBytesAtOnce;
        done += kReadBytesAtOnce;
        break;
      case Peak::kInt8Dot:
        result ^= loops.dot(kRoundsAtOnce);
        done += loops.dot_ops * kRoundsAtOnce;
        break;
      case Peak::kF32Fma:
        result ^= loops.fma(kRoundsAtOnce);
        done += loops.fma_ops * kRoundsAtOnce;
        break;
    }
    ns = Clock::Real().NowNs() - started_ns;
  } while (ns < kSampleNs);
  results_.fetch_xor(result, std::memory_order_relaxed);
  return 1e9 * static_cast<double>(done) / static_cast<double>(ns);
}

double CpuPeaks::Measure(const PeakLoop& loop) {
  const auto pool = std::find_if(pools_.begin(), pools_.end(), [&loop](const auto& it) {
    return static_cast<uint32_t>(it->threads()) == loop.threads;
  });
  CHECK(pool != pools_.end() && loop.pattern < std::size(kReadPatterns));
  std::vector<double> rates(loop.threads);
  // All start together, and none can take the part of one that is late.
  std::atomic<uint32_t> there{0};
  (*pool)->Run(loop.threads, [&](size_t index, int) {
    there.fetch_add(1);
    while (there.load() < loop.threads) {
      std::this_thread::yield();
    }
    rates[index] = RunThread(loop, index);
  });
  double sum = 0;
  for (const double rate : rates) {
    sum += rate;
  }
  return sum;
}

uint64_t EnoughToRead() {
  constexpr uint64_t kUsual = uint64_t{512} << 20;
  const uint64_t enough = std::max(kUsual, 4 * LargestCache());
  const uint64_t available = cpu::ReadMachineMemory().available;
  return available == 0 ? enough : std::min(enough, available / 4);
}

}  // namespace fak::tensor
