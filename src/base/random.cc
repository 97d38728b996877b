#include "base/random.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/hex.h"
#include "base/result.h"

#ifdef __linux__
#include <sys/random.h>
#endif

namespace fak {
namespace {

constexpr size_t kEntropyCallMax = 256;  // getentropy's own bound

// Little is asked for at a time, two ids a request: taken from the kernel for many, and each byte
// is given out once and forgotten.
class Stock {
 public:
  static constexpr size_t kTakenMax = 32;  // at a time
  void Take(std::span<unsigned char> out) {
    if (bytes_.size() - at_ < out.size()) {
      CHECK(getentropy(bytes_.data(), bytes_.size()) == 0) << "the kernel gives no random bytes";
      at_ = 0;
    }
    unsigned char* const from = bytes_.data() + at_;
    std::memcpy(out.data(), from, out.size());
    std::memset(from, 0, out.size());
    at_ += out.size();
  }

 private:
  std::array<unsigned char, kEntropyCallMax> bytes_;
  size_t at_ = kEntropyCallMax;
};

class KernelRandom : public RandomSource {
 public:
  void Fill(std::span<unsigned char> out) override {
    if (out.size() <= Stock::kTakenMax) {
      thread_local Stock stock;
      stock.Take(out);
      return;
    }
    while (!out.empty()) {
      const size_t part = std::min(out.size(), kEntropyCallMax);
      CHECK(getentropy(out.data(), part) == 0) << "the kernel gives no random bytes";
      out = out.subspan(part);
    }
  }
};

}  // namespace

uint64_t RandomSource::Next64() {
  unsigned char bytes[8];
  Fill(bytes);
  uint64_t value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

RandomSource& RandomSource::Real() {
  static KernelRandom random;
  return random;
}

uint64_t SplitMix64(uint64_t& state) {
  state += 0x9E3779B97F4A7C15u;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

void FakeRandom::Fill(std::span<unsigned char> out) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < out.size(); i += 8) {
    const uint64_t z = SplitMix64(state_);
    std::memcpy(out.data() + i, &z, std::min<size_t>(8, out.size() - i));
  }
}

std::string RandomId(RandomSource& random, std::string_view prefix) {
  unsigned char bytes[16];
  random.Fill(bytes);
  return std::string(prefix) + ToHex(bytes);
}

}  // namespace fak
