#include "base/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace fak {

size_t Histogram::BucketOf(uint64_t value) {
  if (value < 2 * kSubBuckets) {
    return static_cast<size_t>(value);
  }
  const int shift = std::bit_width(value) - 1 - kSubBits;  // at least 1
  return static_cast<size_t>(static_cast<uint64_t>(shift) * kSubBuckets + (value >> shift));
}

uint64_t Histogram::LastValueOf(size_t bucket) {
  if (bucket < 2 * kSubBuckets) {
    return bucket;
  }
  const uint64_t shift = bucket / kSubBuckets - 1;
  const uint64_t mantissa = kSubBuckets + bucket % kSubBuckets;
  return (mantissa << shift) + ((uint64_t{1} << shift) - 1);
}

void Histogram::Record(uint64_t value, uint64_t count) {
  if (count == 0) {
    return;
  }
  buckets_[BucketOf(value)] += count;
  count_ += count;
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
  sum_ += static_cast<long double>(value) * static_cast<long double>(count);
}

void Histogram::Merge(const Histogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) {
    buckets_[i] += other.buckets_[i];
  }
  count_ += other.count_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
}

double Histogram::Mean() const {
  return count_ == 0 ? 0 : static_cast<double>(sum_ / static_cast<long double>(count_));
}

uint64_t Histogram::Quantile(double q) const {
  if (count_ == 0) {
    return 0;
  }
  const double wanted = std::ceil(std::clamp(q, 0.0, 1.0) * static_cast<double>(count_));
  const uint64_t rank = std::max<uint64_t>(1, static_cast<uint64_t>(wanted));
  uint64_t seen = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen >= rank) {
      return std::clamp(LastValueOf(i), min_, max_);
    }
  }
  return max_;
}

}  // namespace fak
