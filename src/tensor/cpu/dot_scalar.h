#pragma once

#include <cstddef>

#include "tensor/cpu/vec_scalar.h"

// See matmul_kernels.inl: integer dot products, product by product.
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

// The weights of each lane one after the other, from the lowest byte.
template <int kGroups, int kMax>
FAK_VEC I32 Dot(const Bytes* w, const int8_t* x, I32 sum) {
  for (int g = 0; g < kGroups; ++g) {
    const auto word = reinterpret_cast<IntLanes>(w[g].v);
    sum.v += (word & 255) * x[4 * g];
    sum.v += ((word >> 8) & 255) * x[4 * g + 1];
    sum.v += ((word >> 16) & 255) * x[4 * g + 2];
    sum.v += ((word >> 24) & 255) * x[4 * g + 3];
  }
  return sum;
}
template <int kGroups, int kMax>
FAK_VEC I32 Dot(const SignedBytes* w, const int8_t* x, I32 sum) {
  for (int g = 0; g < kGroups; ++g) {
    const UintLanes word = w[g].value.v;
    sum.v += (reinterpret_cast<IntLanes>(word << 24) >> 24) * x[4 * g];
    sum.v += (reinterpret_cast<IntLanes>(word << 16) >> 24) * x[4 * g + 1];
    sum.v += (reinterpret_cast<IntLanes>(word << 8) >> 24) * x[4 * g + 2];
    sum.v += (reinterpret_cast<IntLanes>(word) >> 24) * x[4 * g + 3];
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
