#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace fak {

// Counts values of any size in log-linear buckets: 128 to an octave, so a quantile is at most
// 0.8 % above the value that was recorded. Fixed memory (about 58 kB), no allocation. Histograms
// merge without loss. Copyable plain value; not thread-safe.
class Histogram {
 public:
  void Record(uint64_t value, uint64_t count = 1);
  void Merge(const Histogram& other);
  void Reset() { *this = Histogram(); }

  uint64_t count() const { return count_; }
  uint64_t min() const { return count_ == 0 ? 0 : min_; }  // exact
  uint64_t max() const { return max_; }                    // exact
  double Mean() const;                                     // exact
  // The smallest recorded value (rounded up to its bucket, never above max()) that at least
  // q * count() values don't exceed. q in [0, 1]; 0 when nothing was recorded.
  uint64_t Quantile(double q) const;

 private:
  static constexpr int kSubBits = 7;
  static constexpr uint64_t kSubBuckets = uint64_t{1} << kSubBits;
  // Values below 2 * kSubBuckets have a bucket each; each later octave has kSubBuckets.
  static constexpr size_t kBuckets = (64 - kSubBits + 1) * kSubBuckets;

  static size_t BucketOf(uint64_t value);
  static uint64_t LastValueOf(size_t bucket);

  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t count_ = 0;
  uint64_t min_ = UINT64_MAX;
  uint64_t max_ = 0;
  long double sum_ = 0;
};

}  // namespace fak
