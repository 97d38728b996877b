#pragma once

#include <cstdint>

#include "tensor/blocks.h"
#include "tensor/spec/convert.h"
#include "tensor/spec/quantise.h"
#include "tensor/spec/reduce.h"
#include "tensor/spec/unpack.h"

// Rules 5, 6 and 7: one output = one weight row times one activation row.
namespace fak::tensor::spec {

// An activation row after rule 4, quantised with ActivationBlock(weight type).
struct QuantisedRow {
  const int8_t* q;
  const float* scales;
};

// On a device: hides what the compiler knows of a value's range. nvcc 13.0's optimiser (not ptxas:
// -Xptxas -O0 is no different) takes weights that it knows to be 0 to 15 for the unsigned operand
// of a product whose other operand it then takes for unsigned too: Q4_1's sums came out wrong in 63
// of 108 test vectors on an H200.
FAK_HD inline int32_t OfAnyRange(int32_t value) {
#ifdef __CUDA_ARCH__
  asm("" : "+r"(value));
#endif
  return value;
}

// Rule 5: exact integer sums.
FAK_HD inline int32_t IntegerDot(const int8_t* w, const int8_t* q, int n) {
  int32_t sum = 0;
  for (int i = 0; i < n; ++i) {
    sum += OfAnyRange(w[i]) * q[i];
  }
  return sum;
}

FAK_HD inline int32_t IntegerSum(const int8_t* q, int n) {
  int32_t sum = 0;
  for (int i = 0; i < n; ++i) {
    sum += q[i];
  }
  return sum;
}

// Σ scale · w · q over elements [first, first + n) of a block; n is a multiple of 16.
FAK_HD inline int32_t ScaledIntegerDot(const Weights256& block, const int8_t* q, int first, int n) {
  int32_t sum = 0;
  for (int j = first / 16; j < (first + n) / 16; ++j) {
    sum += block.scale[j] * IntegerDot(block.w + 16 * j, q + 16 * j, 16);
  }
  return sum;
}

// Σ min · q over a block.
FAK_HD inline int32_t MinimumSum(const Weights256& block, const int8_t* q) {
  int32_t sum = 0;
  for (int j = 0; j < 16; ++j) {
    sum += block.min[j] * IntegerSum(q + 16 * j, 16);
  }
  return sum;
}

// Elements whose integer sum is converted to float at once.
FAK_HD constexpr int PartElements(DType type) {
  switch (type) {
    case DType::kQ4K: return 128;
    case DType::kQ5K: return 64;
    default: return 256;
  }
}

FAK_HD constexpr bool HasMinimum(DType type) {
  return type == DType::kQ4_1 || type == DType::kQ5_1 || type == DType::kQ2K ||
         type == DType::kQ4K || type == DType::kQ5K;
}

// Rule 6, blocks of 256: the value b of one block. The activation scale is not yet applied.
template <class Block>
FAK_HD inline float BlockValue256(const Block& packed, const int8_t* q) {
  Weights256 block;
  Unpack(packed, block);
  constexpr int kPart = PartElements(Block::kType);
  float b = 0.0f;
  for (int first = 0; first < 256; first += kPart) {
    b = Fma(block.d, static_cast<float>(ScaledIntegerDot(block, q, first, kPart)), b);
  }
  if (HasMinimum(Block::kType)) {
    b = Fma(-block.dmin, static_cast<float>(MinimumSum(block, q)), b);
  }
  return b;
}

template <class Block>
FAK_HD inline float DotRow256(const Block* row, int64_t n, QuantisedRow x) {
  float y = 0.0f;
  for (int64_t i = 0; i < n / 256; ++i) {
    y = Fma(x.scales[i], BlockValue256(row[i], x.q + 256 * i), y);
  }
  return y;
}

// Rule 6, blocks of 32: the value b of up to 8 blocks, the activation scales applied.
template <class Block>
FAK_HD inline float GroupValue32(const Block* packed, int64_t blocks, QuantisedRow x) {
  float b = 0.0f;
  for (int64_t i = 0; i < blocks; ++i) {
    Weights32 block;
    Unpack(packed[i], block);
    const int8_t* q = x.q + 32 * i;
    b = Fma(block.d * x.scales[i], static_cast<float>(IntegerDot(block.w, q, 32)), b);
    if (HasMinimum(Block::kType)) {
      b = Fma(block.m * x.scales[i], static_cast<float>(IntegerSum(q, 32)), b);
    }
  }
  return b;
}

template <class Block>
FAK_HD inline float DotRow32(const Block* row, int64_t n, QuantisedRow x) {
  const int64_t blocks = n / 32;
  float y = 0.0f;
  for (int64_t first = 0; first < blocks; first += 8) {
    const int64_t count = blocks - first < 8 ? blocks - first : 8;
    y = y + GroupValue32(row + first, count, {x.q + 32 * first, x.scales + first});
  }
  return y;
}

// A quantised weight row of n elements (whole blocks, in the file's layout) times a row.
FAK_HD inline float DotRow(DType type, const void* row, int64_t n, QuantisedRow x) {
  switch (type) {
    case DType::kQ4_0: return DotRow32(static_cast<const BlockQ4_0*>(row), n, x);
    case DType::kQ4_1: return DotRow32(static_cast<const BlockQ4_1*>(row), n, x);
    case DType::kQ5_0: return DotRow32(static_cast<const BlockQ5_0*>(row), n, x);
    case DType::kQ5_1: return DotRow32(static_cast<const BlockQ5_1*>(row), n, x);
    case DType::kQ8_0: return DotRow32(static_cast<const BlockQ8_0*>(row), n, x);
    case DType::kIq4Nl: return DotRow32(static_cast<const BlockIq4Nl*>(row), n, x);
    case DType::kQ2K: return DotRow256(static_cast<const BlockQ2K*>(row), n, x);
    case DType::kQ3K: return DotRow256(static_cast<const BlockQ3K*>(row), n, x);
    case DType::kQ4K: return DotRow256(static_cast<const BlockQ4K*>(row), n, x);
    case DType::kQ5K: return DotRow256(static_cast<const BlockQ5K*>(row), n, x);
    case DType::kQ6K: return DotRow256(static_cast<const BlockQ6K*>(row), n, x);
    case DType::kIq4Xs: return DotRow256(static_cast<const BlockIq4Xs*>(row), n, x);
    default: return FloatOf(kQuietNanBits);  // not a quantised type
  }
}

// One element of an F32, F16 or BF16 row, exactly.
FAK_HD inline float FloatElement(DType type, const void* row, int64_t i) {
  switch (type) {
    case DType::kF16: return F16ToF32(static_cast<const uint16_t*>(row)[i]);
    case DType::kBf16: return Bf16ToF32(static_cast<const uint16_t*>(row)[i]);
    default: return static_cast<const float*>(row)[i];
  }
}

// Rule 7: F32, F16 and BF16 weights times f32 activations.
FAK_HD inline float DotRowFloat(DType type, const void* row, int64_t n, const float* x) {
  float y = 0.0f;
  for (int64_t first = 0; first < n; first += kChunk) {
    const int64_t end = n - first < kChunk ? n : first + kChunk;
    float chunk = 0.0f;
    for (int64_t k = first; k < end; ++k) {
      chunk = Fma(FloatElement(type, row, k), x[k], chunk);
    }
    y = y + chunk;
  }
  return y;
}

// Rule 6, the end of every product: bias first, then residual, both where there is one.
FAK_HD inline float AddBias(float y, float bias) {
  return y + bias;
}
FAK_HD inline float AddResidual(float residual, float y) {
  return residual + y;
}

}  // namespace fak::tensor::spec
