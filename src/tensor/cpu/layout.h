#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

// Where packed weights and activations have their bytes. Shared by pack.cc and the kernels, which
// may not call inline functions of other headers: constants and constexpr functions only.
//
// A panel is 16 rows; a chunk of it is their next 256 columns (the last chunk of a row may be
// shorter). A block of a row, as the file has it, is some 16-bit values (scales) and some 32-bit
// words (all else), which a chunk of n blocks holds so:
//
//   halves   for each 16-bit field, for each block: 16 values, row by row       (32 bytes each)
//            padded with zeros to 64 bytes
//   words    for each block, for each word of it: 16 values, row by row         (64 bytes each)
//
// Bytes keep their value, except the fifth bits of Q5_0 and Q5_1: bit 8 i + g of the word is that
// of element 4 g + i, so that one shift brings the bits of 4 consecutive elements to their bytes.
// Elements of F32 are words, of F16 and BF16 halves, all blocks of one element.
//
// Lanes of a vector of 16 words are rows, and the 4 bytes of a lane are (for 4-bit types, in each
// half of the byte) 4 consecutive elements: what a dot product instruction takes.
namespace fak::tensor::cpu {

// A run of consecutive words in a file's block.
struct WordRun {
  uint8_t offset = 0;  // bytes
  uint8_t count = 0;
};

struct BlockLayout {
  uint8_t halves = 0;
  uint8_t half_offset[2] = {};  // in the file's block
  WordRun runs[3] = {};         // in packed order
  bool fifth_bits = false;      // run 0 is Q5_0's qh

  constexpr uint32_t words() const {
    return uint32_t{runs[0].count} + runs[1].count + runs[2].count;
  }
  // Bytes of a chunk of n blocks before its words, and in all.
  constexpr uint32_t HeadBytes(uint32_t n) const { return (halves * n * 32 + 63) / 64 * 64; }
  constexpr uint32_t ChunkBytes(uint32_t n) const { return HeadBytes(n) + n * words() * 64; }
};

constexpr BlockLayout LayoutOf(DType type) {
  switch (type) {
    case DType::kF32: return {.runs = {{0, 1}}};
    case DType::kF16:
    case DType::kBf16: return {.halves = 1};
    case DType::kQ4_0:
    case DType::kIq4Nl: return {.halves = 1, .half_offset = {0}, .runs = {{2, 4}}};
    case DType::kQ4_1: return {.halves = 2, .half_offset = {0, 2}, .runs = {{4, 4}}};
    case DType::kQ5_0:
      return {.halves = 1, .half_offset = {0}, .runs = {{2, 1}, {6, 4}}, .fifth_bits = true};
    case DType::kQ5_1:
      return {.halves = 2, .half_offset = {0, 2}, .runs = {{4, 1}, {8, 4}}, .fifth_bits = true};
    case DType::kQ8_0: return {.halves = 1, .half_offset = {0}, .runs = {{2, 8}}};
    case DType::kQ2K:  // scales, qs
      return {.halves = 2, .half_offset = {80, 82}, .runs = {{0, 4}, {16, 16}}};
    case DType::kQ3K:  // scales, hmask, qs
      return {.halves = 1, .half_offset = {108}, .runs = {{96, 3}, {0, 8}, {32, 16}}};
    case DType::kQ4K:  // scales, qs
      return {.halves = 2, .half_offset = {0, 2}, .runs = {{4, 3}, {16, 32}}};
    case DType::kQ5K:  // scales, qh, qs
      return {.halves = 2, .half_offset = {0, 2}, .runs = {{4, 3}, {16, 8}, {48, 32}}};
    case DType::kQ6K:  // scales, ql, qh
      return {.halves = 1, .half_offset = {208}, .runs = {{192, 4}, {0, 32}, {128, 16}}};
    case DType::kIq4Xs:  // d, scales_h; scales_l, qs
      return {.halves = 2, .half_offset = {0, 2}, .runs = {{4, 1}, {8, 32}}};
  }
  return {};
}

// Activations: chunk after chunk, in each the rows' records one after the other.
//
// A record of 256 int8 activations under scales of 32 (integers below are 32 bits wide):
struct Record32 {
  int8_t q[256];
  float scale[8];
  float sum[8];  // Σ q of each 32, as a float
  // Σ q times minus what was added to weights to make them unsigned.
  int32_t sum_by_128[8];
  int32_t sum_by_16[8];
  int32_t sum_by_8[8];
  int32_t unused[8];  // to whole cache lines
};

// The same under one scale.
struct Record256 {
  int8_t q[256];
  float scale;
  int32_t unused[3];
  int16_t sum32[8];         // Σ q of each 32
  int16_t sum16[16];        // Σ q of each 16
  int32_t sum16_by_32[16];  // -32 Σ q of each 16
  int32_t sum32_by_128[8];  // -128 Σ q of each 32
  int32_t unused_end[8];
};

struct RecordFloat {
  float x[256];
};

static_assert(sizeof(Record32) == 448 && sizeof(Record256) == 448 && sizeof(RecordFloat) == 1024);

}  // namespace fak::tensor::cpu
