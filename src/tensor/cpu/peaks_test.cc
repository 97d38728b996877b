#include "tensor/cpu/peaks.h"

#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include "tensor/cpu_peaks.h"

namespace fak::tensor {
namespace {

TEST(CpuPeaks, EveryLoopOfThisMachineGivesARate) {
  const auto peaks = CpuPeaks::Make({1, 2}, 2 * CpuPeaks::kBytesMin);
  ASSERT_TRUE(peaks);
  EXPECT_LE((*peaks)->huge_page_bytes(), (*peaks)->bytes());
  for (const Isa isa : CpuIsas()) {
    for (const Peak peak : {Peak::kRead, Peak::kInt8Dot, Peak::kF32Fma}) {
      const double rate = (*peaks)->Measure({.isa = isa, .threads = 2, .peak = peak});
      // A loop that was left out would pass what any processor can: 2^63 in 50 ms.
      EXPECT_GT(rate, 1e6) << IsaName(isa) << " " << PeakName(peak);
      EXPECT_LT(rate, 1e15) << IsaName(isa) << " " << PeakName(peak);
    }
  }
}

TEST(CpuPeaks, RefusesWhatItCannotMeasure) {
  EXPECT_EQ(CpuPeaks::Make({0}, CpuPeaks::kBytesMin).error().code, Code::kInvalidArgument);
  EXPECT_EQ(CpuPeaks::Make({100000}, uint64_t{1} << 40).error().code, Code::kInvalidArgument);
  EXPECT_EQ(CpuPeaks::Make({2}, CpuPeaks::kBytesMin).error().code, Code::kInvalidArgument);
}

// A loop that reads all of it gives the xor of its words, however it walks.
TEST(PeakLoops, ReadEveryByte) {
  constexpr uint64_t kBytes = 128 << 10;
  std::vector<uint32_t> words(kBytes / 4);
  uint32_t all = 0;
  for (size_t i = 0; i < kBytes / 4; ++i) {
    words[i] = static_cast<uint32_t>(i * 2654435761u);
    all ^= words[i];
  }
  for (const Isa isa : CpuIsas()) {
    for (const auto read : cpu::PeakLoopsFor(isa).read) {
      EXPECT_EQ(read(reinterpret_cast<const std::byte*>(words.data()), kBytes), all)
          << IsaName(isa);
    }
  }
}

TEST(PeakLoops, MoreRoundsGiveOtherSums) {
  for (const Isa isa : CpuIsas()) {
    const cpu::PeakLoops& loops = cpu::PeakLoopsFor(isa);
    EXPECT_NE(loops.dot(1), loops.dot(2)) << IsaName(isa);
    EXPECT_NE(loops.fma(1), loops.fma(2)) << IsaName(isa);
  }
}

}  // namespace
}  // namespace fak::tensor
