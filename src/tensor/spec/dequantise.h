#pragma once

#include <cstdint>

#include "tensor/blocks.h"
#include "tensor/spec/dot.h"
#include "tensor/spec/unpack.h"

// Rule 11: rows of an embedding table as floats.
namespace fak::tensor::spec {

template <class Block>
FAK_HD inline float BlockElement32(const Block& packed, int i) {
  Weights32 block;
  Unpack(packed, block);
  const float w = static_cast<float>(block.w[i]);
  return HasMinimum(Block::kType) ? Fma(block.d, w, block.m) : block.d * w;
}

template <class Block>
FAK_HD inline float BlockElement256(const Block& packed, int i) {
  Weights256 block;
  Unpack(packed, block);
  const float w = static_cast<float>(block.w[i]);
  const float scale = block.d * static_cast<float>(block.scale[i / 16]);
  if (!HasMinimum(Block::kType)) {
    return scale * w;
  }
  return Fma(scale, w, -(block.dmin * static_cast<float>(block.min[i / 16])));
}

// Element i of a row in the file's layout, of any computed type.
FAK_HD inline float DequantisedElement(DType type, const void* row, int64_t i) {
  const int64_t b32 = i / 32;
  const int64_t b256 = i / 256;
  const int i32 = static_cast<int>(i % 32);
  const int i256 = static_cast<int>(i % 256);
  switch (type) {
    case DType::kQ4_0: return BlockElement32(static_cast<const BlockQ4_0*>(row)[b32], i32);
    case DType::kQ4_1: return BlockElement32(static_cast<const BlockQ4_1*>(row)[b32], i32);
    case DType::kQ5_0: return BlockElement32(static_cast<const BlockQ5_0*>(row)[b32], i32);
    case DType::kQ5_1: return BlockElement32(static_cast<const BlockQ5_1*>(row)[b32], i32);
    case DType::kQ8_0: return BlockElement32(static_cast<const BlockQ8_0*>(row)[b32], i32);
    case DType::kIq4Nl: return BlockElement32(static_cast<const BlockIq4Nl*>(row)[b32], i32);
    case DType::kQ2K: return BlockElement256(static_cast<const BlockQ2K*>(row)[b256], i256);
    case DType::kQ3K: return BlockElement256(static_cast<const BlockQ3K*>(row)[b256], i256);
    case DType::kQ4K: return BlockElement256(static_cast<const BlockQ4K*>(row)[b256], i256);
    case DType::kQ5K: return BlockElement256(static_cast<const BlockQ5K*>(row)[b256], i256);
    case DType::kQ6K: return BlockElement256(static_cast<const BlockQ6K*>(row)[b256], i256);
    case DType::kIq4Xs: return BlockElement256(static_cast<const BlockIq4Xs*>(row)[b256], i256);
    default: return FloatElement(type, row, i);
  }
}

FAK_HD inline void DequantiseRow(DType type, const void* row, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = DequantisedElement(type, row, i);
  }
}

// What an embedding is multiplied by in gemma's families: one f32 product an element.
FAK_HD inline float EmbeddingScale(int64_t width) {
  return Sqrt(static_cast<float>(width));
}

}  // namespace fak::tensor::spec
