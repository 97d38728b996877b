#pragma once

#include <cstddef>

#include "tensor/cpu/vec_scalar.h"

// See matmul_kernels.inl: integer dot products, in operators of the compiler's vectors.
namespace fak::tensor::cpu::scalar {

// Native vectors of weights and rows of activations in a tile.
inline constexpr int kTileStreams = 1;
inline constexpr int kTileRows = 1;
// Up to so many rows are computed without unpacking weights into memory first.
inline constexpr uint32_t kFewRows = 1;
// Groups of 4 products that a sum takes before another row has its turn (DotRows).
inline constexpr int kGroupsAtOnce = 8;
// Panels that one row of activations meets at once: memory gives more to several streams.
inline constexpr uint32_t kPanelsAtOnce = 1;
// How far ahead of the weights in use a few rows ask for more.
inline constexpr int kBytesAhead = 2048;
// Panels and rows of a tile of float weights.
inline constexpr int kFloatPanels = 1;
inline constexpr int kFloatRows = 1;

struct Bytes {
  static FAK_VEC Bytes Load(const std::byte* p) {
    Bytes b;
    __builtin_memcpy(&b.v, p, sizeof b.v);
    return b;
  }
  static FAK_VEC Bytes Splat(int x) {
    const uint32_t four = static_cast<uint32_t>(x) * 0x01010101u;
    return {UintLanes{four, four, four, four}};
  }
  FAK_VEC void Store(std::byte* p) const { __builtin_memcpy(p, &v, sizeof v); }
  UintLanes v;
};
FAK_VEC Bytes And(Bytes a, Bytes b) {
  return {a.v & b.v};
}
FAK_VEC Bytes OrAnd(Bytes a, Bytes b, Bytes mask) {
  return {a.v | (b.v & mask.v)};
}
template <int kCount>
FAK_VEC Bytes Shift(Bytes a) {
  return {kCount > 0 ? a.v << (kCount & 31) : a.v >> (-kCount & 31)};
}

struct SignedBytes {
  static constexpr int kOffset = 0;
  static FAK_VEC SignedBytes Of(Bytes w) { return {w}; }
  static FAK_VEC SignedBytes Load(const std::byte* p) { return {Bytes::Load(p)}; }
  FAK_VEC void Store(std::byte* p) const { value.Store(p); }
  Bytes value;
};

FAK_VEC SignedBytes Lookup(const int8_t (&table)[16], Bytes index) {
  Bytes out = Bytes::Splat(0);
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const auto code = static_cast<uint8_t>(table[(index.v[lane] >> (8 * i)) & 15]);
      out.v[lane] |= uint32_t{code} << (8 * i);
    }
  }
  return {out};
}

// The four bytes of a lane as two pairs of 16 bits: bytes 0 and 2, and bytes 1 and 3.
typedef int16_t ShortLanes __attribute__((vector_size(16)));
FAK_VEC ShortLanes EvenBytes(Bytes w) {
  return reinterpret_cast<ShortLanes>(w.v) & 255;
}
FAK_VEC ShortLanes OddBytes(Bytes w) {
  return reinterpret_cast<ShortLanes>((w.v >> 8) & 0x00FF00FFu);
}
FAK_VEC ShortLanes EvenBytes(SignedBytes w) {
  return (reinterpret_cast<ShortLanes>(w.value.v) << 8) >> 8;
}
FAK_VEC ShortLanes OddBytes(SignedBytes w) {
  return reinterpret_cast<ShortLanes>(w.value.v) >> 8;
}
// Four activations in every lane.
FAK_VEC SignedBytes SplatFour(const int8_t* x) {
  uint32_t four = 0;
  __builtin_memcpy(&four, x, sizeof four);
  return {{UintLanes{four, four, four, four}}};
}
FAK_VEC IntLanes SumOfPairs(ShortLanes products) {
  const auto pairs = reinterpret_cast<IntLanes>(products);
  return ((pairs << 16) >> 16) + (pairs >> 16);
}

// Weights of at most kMax times activations of at most 127, four products a lane and group. A
// product fits 16 bits; so do the sums of kFit groups. Integers: any order gives the same sum.
template <int kGroups, int kMax, class W>
FAK_VEC I32 Dot(const W* w, const int8_t* x, I32 sum) {
  constexpr int kFit = 32767 / (2 * 127 * kMax);
  ShortLanes part{};
  FAK_UNROLL
  for (int g = 0; g < kGroups; ++g) {
    const SignedBytes four = SplatFour(x + 4 * g);
    const ShortLanes even = EvenBytes(w[g]) * EvenBytes(four);
    const ShortLanes odd = OddBytes(w[g]) * OddBytes(four);
    if constexpr (kFit == 0) {
      sum.v += SumOfPairs(even) + SumOfPairs(odd);
    } else {
      part += even + odd;
      if ((g + 1) % kFit == 0 || g + 1 == kGroups) {
        sum.v += SumOfPairs(part);
        part = ShortLanes{};
      }
    }
  }
  return sum;
}

FAK_VEC I32 DotPairs(I32 a, I32 b, I32 sum) {
  const auto low = reinterpret_cast<UintLanes>(a.v) << 16;
  const auto low_b = reinterpret_cast<UintLanes>(b.v) << 16;
  sum.v += (reinterpret_cast<IntLanes>(low) >> 16) * (reinterpret_cast<IntLanes>(low_b) >> 16);
  sum.v += (a.v >> 16) * (b.v >> 16);
  return sum;
}

}  // namespace fak::tensor::cpu::scalar
