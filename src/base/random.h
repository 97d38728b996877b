#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

namespace fak {

// Where unpredictable bytes come from: seeds nobody chose, request ids, salts. Not what sampling
// draws from (that is a counter-based generator keyed by the seed). Any thread.
class RandomSource {
 public:
  virtual ~RandomSource() = default;
  virtual void Fill(std::span<unsigned char> out) = 0;
  uint64_t Next64();

  // The kernel's generator; lives as long as the program. Fit for secrets. A syscall a call.
  static RandomSource& Real();
};

// The next number of splitmix64 (Steele, Lea and Flood 2014): quick, well mixed, easily foretold.
uint64_t SplitMix64(uint64_t& state);

// The same bytes for the same seed, for tests (splitmix64).
class FakeRandom : public RandomSource {
 public:
  explicit FakeRandom(uint64_t seed = 1) : state_(seed) {}
  void Fill(std::span<unsigned char> out) override;

 private:
  std::mutex mutex_;
  uint64_t state_;  // guarded by mutex_
};

// `prefix` and 32 random hex digits: "chatcmpl-5f2c…".
std::string RandomId(RandomSource& random, std::string_view prefix);

}  // namespace fak
