#pragma once

#include <cstdint>

#include "tensor/blocks.h"
#include "tensor/spec/convert.h"
#include "tensor/spec/scalar.h"

// Inputs and digests of the numerics test vectors: everything is a function of (stream, index), so
// that a CPU loop, a GPU thread and another language make the same values in any order.
// Keeps the big steps of the small model from being copied into every place that calls them.
#ifdef __CUDACC__
#define FAK_NOINLINE __noinline__
#else
#define FAK_NOINLINE __attribute__((noinline))
#endif

namespace fak::vectors {

using namespace tensor;        // NOLINT(google-build-using-namespace): a test program's vocabulary
using namespace tensor::spec;  // NOLINT(google-build-using-namespace)

FAK_HD inline uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

FAK_HD inline uint64_t Draw(uint64_t stream, uint64_t index) {
  return Mix(Mix(stream + 0x9e3779b97f4a7c15u) + index);
}

// What a case puts is hashed with its place and added, so the order of items doesn't matter.
class Sink {
 public:
  FAK_HD explicit Sink(uint64_t item) : place_(item << 20) {}

  FAK_HD void Put(uint64_t value) { sum_ += Mix(value ^ Mix(++place_)); }
  FAK_HD void Put(float x) { Put(uint64_t{x != x ? kQuietNanBits : BitsOf(x)}); }
  FAK_HD void Put(double x) { Put(x != x ? uint64_t{0x7ff8000000000000u} : BitsOf(x)); }
  FAK_HD void PutInt(int32_t x) { Put(uint64_t{static_cast<uint32_t>(x)}); }
  FAK_HD void PutF16(uint16_t h) { Put(uint64_t{(h & 0x7fffu) > 0x7c00u ? kF16QuietNan : h}); }
  FAK_HD void PutBf16(uint16_t h) { Put(uint64_t{(h & 0x7fffu) > 0x7f80u ? kBf16QuietNan : h}); }
  FAK_HD void Put(const float* x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      Put(x[i]);
    }
  }

  FAK_HD uint64_t sum() const { return sum_; }

 private:
  uint64_t place_;
  uint64_t sum_ = 0;
};

enum Kind : int {
  kOrdinary,  // multiples of 2^-21 in [-4, 4)
  kMixed,     // zeros of both signs, outliers, tiny and denormal values among ordinary ones
  kTiny,      // around 2^-100, where quantisation gives up
  kSmall,     // 2^-68: squares are denormal
  kDenormal,  // all denormal
  kHuge,      // 2^60: sums of squares overflow
  kAnyBits,   // infinities among them; in even streams NaN too
  kMostlyNegativeZero,
  kOnes,
  kKinds
};

FAK_HD inline float Ordinary(uint64_t u) {
  return static_cast<float>(static_cast<int32_t>(u >> 40) - 0x800000) * 0x1p-21f;
}

FAK_HD inline float Denormal(uint64_t u) {
  return FloatOf(static_cast<uint32_t>(u >> 32) & 0x807fffffu);
}

FAK_HD inline float AnyBits(bool with_nan, uint64_t u) {
  const uint32_t bits = static_cast<uint32_t>(u >> 32);
  const bool infinite = (u & 63) == 0 || (!with_nan && (bits & kExponentBits) == kExponentBits);
  return FloatOf(infinite ? (bits & kSignBit) | kExponentBits : bits);
}

FAK_HD inline float Value(int kind, uint64_t stream, uint64_t index) {
  const uint64_t u = Draw(stream, index);
  const float x = Ordinary(u);
  switch (kind) {
    case kMixed:
      switch (u & 15) {
        case 0: return 0.0f;
        case 1: return -0.0f;
        case 2: return x * 0x1p11f;
        case 3: return x * 0x1p-60f;
        case 4: return Denormal(u);
        default: return x;
      }
    case kTiny: return x * ((stream & 1) != 0 ? 0x1p-101f : 0x1p-103f);
    case kSmall: return x * 0x1p-70f;
    case kDenormal: return Denormal(u);
    case kHuge: return x * 0x1p58f;
    case kAnyBits: return AnyBits((stream & 1) == 0, u);
    case kMostlyNegativeZero: return (u & 7) == 0 ? x : -0.0f;
    case kOnes: return 1.0f;
    default: return x;
  }
}

FAK_HD inline void Fill(int kind, uint64_t stream, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = Value(kind, stream, static_cast<uint64_t>(i));
  }
}

// Item i of 2^17 covers the whole space of f32 bits evenly.
inline constexpr int kSweep = 1 << 17;
FAK_HD inline float Sweep(uint64_t stream, uint64_t item) {
  return FloatOf(static_cast<uint32_t>((item << 15) | (Draw(stream, item) & 0x7fffu)));
}

inline constexpr int kLengthCount = 12;
FAK_HD inline int Length(int i) {
  constexpr int kLengths[kLengthCount] = {1, 15, 16, 17, 255, 256, 257, 511, 512, 513, 1000, 1500};
  return kLengths[i];
}
inline constexpr int kLengthMax = 1500;

// How the bytes of a weight block are made.
enum Variant : int {
  kRandomBytes,
  kAllOnes,  // 0xff: largest quants, scales 63
  kTopBits,  // 0x80: w = -128, scale = -128
  kZeroBytes,
  kLowQuants,  // 0x00, then 0x80 in the last 18 bytes: Q6_K with w = -32, scale = -128
  kModel,      // random, with scales of about 2^-9 as in a real model
  kVariants
};

FAK_HD inline uint8_t WeightByte(int variant, uint64_t u, int at, int block_bytes) {
  switch (variant) {
    case kAllOnes: return 0xff;
    case kTopBits: return 0x80;
    case kZeroBytes: return 0;
    case kLowQuants: return at < block_bytes - 18 ? 0 : 0x80;
    default: return static_cast<uint8_t>(u & 0xff);
  }
}

// A finite f16: any sign, exponent and mantissa, denormals too; or about 2^-9.
FAK_HD inline uint16_t WeightScale(int variant, uint64_t u) {
  const uint16_t bits = static_cast<uint16_t>(u >> 16);
  if (variant == kModel) {
    return static_cast<uint16_t>((bits & 0x83ffu) | 0x1800u);
  }
  return (bits & 0x7c00u) == 0x7c00u ? static_cast<uint16_t>(bits & ~0x4000u) : bits;
}

// Where the f16 fields of a block are; second -1: only one.
struct ScaleFields {
  int first;
  int second;
};
FAK_HD constexpr ScaleFields FieldsOf(DType type) {
  switch (type) {
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4K:
    case DType::kQ5K: return {0, 2};
    case DType::kQ2K: return {80, 82};
    case DType::kQ3K: return {108, -1};
    case DType::kQ6K: return {208, -1};
    default: return {0, -1};
  }
}

FAK_HD inline void PutScale(uint8_t* block, int at, uint16_t bits) {
  block[at] = static_cast<uint8_t>(bits & 0xff);
  block[at + 1] = static_cast<uint8_t>(bits >> 8);
}

// `blocks` blocks; byte i of the row comes from Draw(stream, i), its scales from the byte they
// begin at.
template <class Block>
FAK_HD inline void FillWeights(int variant, uint64_t stream, int blocks, Block* out) {
  constexpr int kBytes = static_cast<int>(sizeof(Block));
  constexpr ScaleFields kFields = FieldsOf(Block::kType);
  uint8_t bytes[kBytes];
  for (int b = 0; b < blocks; ++b) {
    const uint64_t base = static_cast<uint64_t>(b) * kBytes;
    for (int i = 0; i < kBytes; ++i) {
      bytes[i] = WeightByte(variant, Draw(stream, base + static_cast<uint64_t>(i)), i, kBytes);
    }
    PutScale(bytes, kFields.first,
             WeightScale(variant, Draw(stream, base + static_cast<uint64_t>(kFields.first))));
    if (kFields.second >= 0) {
      PutScale(bytes, kFields.second,
               WeightScale(variant, Draw(stream, base + static_cast<uint64_t>(kFields.second))));
    }
    memcpy(out + b, bytes, sizeof bytes);
  }
}

}  // namespace fak::vectors
