#pragma once

#include <cstdint>

#include "tensor/blocks.h"
#include "tensor/spec/convert.h"
#include "tensor/spec/dot.h"

// Numerics rule 5 for a lane: 32 consecutive elements of a row of quantised weights, as packed
// integers. What spec/unpack.h says a block at a time, this says a lane at a time.
namespace fak::tensor::cuda {

// Element i is byte i % 4 of w[i / 4], signed. Blocks of 32: d · w (+ m, in `low`). Blocks of 256:
// d · scale · w − low · min, one scale for 16 elements each.
struct Lane32 {
  int w[8];
  int scale[2];
  int min;
  float d;
  float low;
};

constexpr int kLow4 = 0x0f0f0f0f;
constexpr int kOnes = 0x01010101;

// Four bytes at an even address.
__device__ inline int Load4(const void* at) {
  const auto* const half = static_cast<const uint16_t*>(at);
  return static_cast<int>(half[0] | (static_cast<uint32_t>(half[1]) << 16));
}

// Bits 0 to 3 of `bits` as bit 4 of a byte each. The products of the multiplication don't overlap.
__device__ inline int FifthBits(uint32_t bits) {
  return static_cast<int>((((bits & 15u) * 0x00204081u) & 0x01010101u) << 4);
}

__device__ inline void Nibbles32(const uint8_t* qs, Lane32& out) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int four = Load4(qs + 4 * i);
    out.w[i] = four & kLow4;
    out.w[i + 4] = (four >> 4) & kLow4;
  }
}

__device__ inline void AddFifths32(const uint8_t* qh, Lane32& out) {
  const auto bits = static_cast<uint32_t>(Load4(qh));
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    out.w[i] |= FifthBits(bits >> (4 * i));
  }
}

__device__ inline void Subtract(int byte, Lane32& out) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    out.w[i] = static_cast<int>(
        __vsub4(static_cast<unsigned>(out.w[i]), static_cast<unsigned>(byte * kOnes)));
  }
}

__device__ inline void Load(const BlockQ4_0& block, int, Lane32& out) {
  out.d = spec::F16ToF32(block.d);
  Nibbles32(block.qs, out);
  Subtract(8, out);
}

__device__ inline void Load(const BlockQ4_1& block, int, Lane32& out) {
  out.d = spec::F16ToF32(block.d);
  out.low = spec::F16ToF32(block.m);
  Nibbles32(block.qs, out);
}

__device__ inline void Load(const BlockQ5_0& block, int, Lane32& out) {
  out.d = spec::F16ToF32(block.d);
  Nibbles32(block.qs, out);
  AddFifths32(block.qh, out);
  Subtract(16, out);
}

__device__ inline void Load(const BlockQ5_1& block, int, Lane32& out) {
  out.d = spec::F16ToF32(block.d);
  out.low = spec::F16ToF32(block.m);
  Nibbles32(block.qs, out);
  AddFifths32(block.qh, out);
}

__device__ inline void Load(const BlockQ8_0& block, int, Lane32& out) {
  out.d = spec::F16ToF32(block.d);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    out.w[i] = Load4(block.qs + 4 * i);
  }
}

// The 6-bit scale and minimum j of Q4_K and Q5_K.
__device__ inline void Scale6(const uint8_t* s, int j, Lane32& out) {
  const int scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | ((s[j - 4] >> 6) << 4);
  out.scale[0] = out.scale[1] = scale;
  out.min = j < 4 ? s[j + 4] & 63 : (s[j + 4] >> 4) | ((s[j] >> 6) << 4);
}

// 32 bytes at an address that 16 divides.
__device__ inline void Load32(const uint8_t* at, int* out) {
  const int4 low = reinterpret_cast<const int4*>(at)[0];
  const int4 high = reinterpret_cast<const int4*>(at)[1];
  out[0] = low.x, out[1] = low.y, out[2] = low.z, out[3] = low.w;
  out[4] = high.x, out[5] = high.y, out[6] = high.z, out[7] = high.w;
}

// Blocks of Q4_K and Q5_K are whole multiples of 16 bytes, and so are the places in them.
__device__ inline void Nibbles256(const uint8_t* qs, int j, Lane32& out) {
  Load32(qs + 32 * (j / 2), out.w);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    out.w[i] = (out.w[i] >> (4 * (j % 2))) & kLow4;
  }
}

__device__ inline void Load(const BlockQ4K& block, int j, Lane32& out) {
  out.d = spec::F16ToF32(block.d);
  out.low = spec::F16ToF32(block.dmin);
  Scale6(block.scales, j, out);
  Nibbles256(block.qs, j, out);
}

__device__ inline void Load(const BlockQ5K& block, int j, Lane32& out) {
  out.d = spec::F16ToF32(block.d);
  out.low = spec::F16ToF32(block.dmin);
  Scale6(block.scales, j, out);
  Nibbles256(block.qs, j, out);
  int fifths[8];
  Load32(block.qh, fifths);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    out.w[i] |= ((fifths[i] >> j) & kOnes) << 4;
  }
}

__device__ inline void Load(const BlockQ6K& block, int j, Lane32& out) {
  const int half = j / 4;
  const int quarter = j % 4;
  out.d = spec::F16ToF32(block.d);
  out.scale[0] = block.scales[2 * j];
  out.scale[1] = block.scales[2 * j + 1];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int low = Load4(block.ql + 64 * half + 32 * (quarter % 2) + 4 * i);
    const int high = Load4(block.qh + 32 * half + 4 * i) >> (2 * quarter);
    out.w[i] = ((low >> (4 * (quarter / 2))) & kLow4) | ((high & 0x03030303) << 4);
  }
  Subtract(32, out);
}

// Row of `Block`s: the 32 elements from 32 · index on; zeros beyond the row's `count` of them.
template <class Block>
__device__ inline Lane32 LoadLane(const void* row, uint32_t index, uint32_t count) {
  Lane32 out = {};
  if (index < count) {
    constexpr uint32_t kLanes = spec::ActivationBlock(Block::kType) / 32;
    Load(static_cast<const Block*>(row)[index / kLanes], static_cast<int>(index % kLanes), out);
  }
  return out;
}

}  // namespace fak::tensor::cuda
