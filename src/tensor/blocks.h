#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

// The blocks of quantised rows, byte for byte as GGUF files hold them (little-endian). A row is
// whole blocks, one after the other. What the bits mean: docs/formats/numerics.md "Blocks"; read
// them with spec/unpack.h. `d`, `m` and `dmin` are the bits of an f16.
namespace fak::tensor {

inline constexpr int kBlock32 = 32;    // elements of a Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL block
inline constexpr int kBlock256 = 256;  // elements of a Q2_K ... Q6_K, IQ4_XS block

struct BlockQ4_0 {
  static constexpr DType kType = DType::kQ4_0;
  uint16_t d;
  uint8_t qs[16];  // element j in the low half of byte j, element j + 16 in its high half
};

struct BlockQ4_1 {
  static constexpr DType kType = DType::kQ4_1;
  uint16_t d;
  uint16_t m;
  uint8_t qs[16];
};

struct BlockQ5_0 {
  static constexpr DType kType = DType::kQ5_0;
  uint16_t d;
  uint8_t qh[4];  // bit j of the 32, least significant first: bit 4 of element j
  uint8_t qs[16];
};

struct BlockQ5_1 {
  static constexpr DType kType = DType::kQ5_1;
  uint16_t d;
  uint16_t m;
  uint8_t qh[4];
  uint8_t qs[16];
};

struct BlockQ8_0 {
  static constexpr DType kType = DType::kQ8_0;
  uint16_t d;
  int8_t qs[32];
};

struct BlockIq4Nl {
  static constexpr DType kType = DType::kIq4Nl;
  uint16_t d;
  uint8_t qs[16];  // indices of the code book, in Q4_0's order
};

struct BlockQ2K {
  static constexpr DType kType = DType::kQ2K;
  uint8_t scales[16];  // low half: scale, high half: minimum, of 16 elements
  uint8_t qs[64];
  uint16_t d;
  uint16_t dmin;
};

struct BlockQ3K {
  static constexpr DType kType = DType::kQ3K;
  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t scales[12];  // 16 of 6 bits
  uint16_t d;
};

struct BlockQ4K {
  static constexpr DType kType = DType::kQ4K;
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];  // 8 scales and 8 minima of 6 bits
  uint8_t qs[128];
};

struct BlockQ5K {
  static constexpr DType kType = DType::kQ5K;
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qh[32];
  uint8_t qs[128];
};

struct BlockQ6K {
  static constexpr DType kType = DType::kQ6K;
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  uint16_t d;
};

struct BlockIq4Xs {
  static constexpr DType kType = DType::kIq4Xs;
  uint16_t d;
  uint16_t scales_h;
  uint8_t scales_l[4];
  uint8_t qs[128];
};

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22);
static_assert(sizeof(BlockQ5_1) == 24 && sizeof(BlockQ8_0) == 34 && sizeof(BlockIq4Nl) == 18);
static_assert(sizeof(BlockQ2K) == 84 && sizeof(BlockQ3K) == 110 && sizeof(BlockQ4K) == 144);
static_assert(sizeof(BlockQ5K) == 176 && sizeof(BlockQ6K) == 210 && sizeof(BlockIq4Xs) == 136);

}  // namespace fak::tensor
