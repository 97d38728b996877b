#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "tensor/cpu_backend.h"

// What the machine gives to a program that does nothing but one thing: the bounds that kernels are
// measured against (`fak bench roofline`).
namespace fak::tensor {

namespace cpu {
class Arena;
}  // namespace cpu

enum class Peak : uint8_t {
  kRead,     // bytes a second that arrive from memory
  kInt8Dot,  // multiplications and additions a second, of bytes into 32-bit sums
  kF32Fma,   // the same of floats
};
std::string_view PeakName(Peak peak);  // "read", "int8 dot", "fp32 FMA"

// How memory is walked: `streams` places at once in each thread, asking bytes_ahead of each.
struct ReadPattern {
  uint32_t streams = 1;
  uint32_t bytes_ahead = 0;
};
inline constexpr ReadPattern kReadPatterns[] = {{1, 0}, {1, 1024}, {2, 1024},
                                                {4, 0}, {4, 1024}, {8, 1024}};

// One loop: what runs, of which instruction set, on how many threads.
struct PeakLoop {
  Isa isa = Isa::kScalar;  // one of CpuIsas()
  uint32_t threads = 1;    // one of those that Make() was given
  Peak peak = Peak::kRead;
  size_t pattern = 0;  // of kReadPatterns, where memory is read
};

// Owns the threads and the memory of the loops. Not thread-safe.
class CpuPeaks {
 public:
  // bytes: the memory that is read, which should be many times the last cache: at least
  // kBytesMin a thread. kResourceExhausted when the system gives fewer threads or has less memory
  // available, kInvalidArgument for more than kThreadsMax threads or less than the least memory.
  [[nodiscard]] static Result<std::unique_ptr<CpuPeaks>> Make(std::vector<uint32_t> threads,
                                                              uint64_t bytes);
  ~CpuPeaks();
  CpuPeaks(const CpuPeaks&) = delete;
  CpuPeaks& operator=(const CpuPeaks&) = delete;

  static constexpr uint64_t kBytesMin = uint64_t{4} << 20;

  uint64_t bytes() const;
  // Of the memory that is read, in bytes; 0 where the system doesn't say.
  uint64_t huge_page_bytes() const { return huge_page_bytes_; }

  // Runs the loop for about 50 ms. Bytes or operations a second: the sum over the threads of what
  // each did in its own time, so that one that was pushed off its core takes nothing from others.
  double Measure(const PeakLoop& loop);

 private:
  CpuPeaks() = default;
  double RunThread(const PeakLoop& loop, size_t index);

  std::unique_ptr<cpu::Arena> memory_;
  uint64_t huge_page_bytes_ = 0;
  std::vector<std::unique_ptr<ThreadPool>> pools_;
  std::vector<uint64_t> cursors_;  // of a thread in its part of the memory
  std::atomic<uint32_t> results_{0};
};

// Memory that is enough to read: 512 MiB, or four times the largest cache that the system names,
// and never over a quarter of what is available.
uint64_t EnoughToRead();

}  // namespace fak::tensor
