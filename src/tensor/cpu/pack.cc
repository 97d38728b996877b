// Hot path while a model loads: bench/micro/matmul_bench.cc.
#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "tensor/blocks.h"
#include "tensor/cpu/layout.h"
#include "tensor/cpu/matmul.h"
#include "tensor/spec/dequantise.h"

namespace fak::tensor::cpu {
namespace {

// Bit 4 g + i to bit 8 i + g.
constexpr uint32_t GatherFifthBits(uint32_t qh) {
  uint32_t out = 0;
  for (uint32_t g = 0; g < 8; ++g) {
    // Four bits, each to the lowest of its byte.
    const uint32_t four = (qh >> (4 * g)) & 15;
    out |= ((four * 0x00204081u) & 0x01010101u) << g;
  }
  return out;
}
constexpr uint32_t ScatterFifthBits(uint32_t packed) {
  uint32_t out = 0;
  for (uint32_t bit = 0; bit < 32; ++bit) {
    out |= ((packed >> (8 * (bit % 4) + bit / 4)) & 1) << bit;
  }
  return out;
}
static_assert(ScatterFifthBits(GatherFifthBits(0x9e3779b1u)) == 0x9e3779b1u);

// The chunks of a panel: what moves between a row of the file and its lane.
struct Chunking {
  Chunking(DType type, uint32_t cols_in)
      : layout(LayoutOf(type)),
        block_bytes(InfoOf(type).block_bytes),
        chunk_blocks(std::max<uint32_t>(kChunk / InfoOf(type).block_elements, 1)),
        blocks(cols_in / InfoOf(type).block_elements) {}

  uint32_t chunks() const { return (blocks + chunk_blocks - 1) / chunk_blocks; }
  uint32_t BlocksOf(uint32_t chunk) const {
    return std::min(chunk_blocks, blocks - chunk * chunk_blocks);
  }
  uint64_t OffsetOf(uint32_t chunk) const {
    return uint64_t{chunk} * layout.ChunkBytes(chunk_blocks);
  }
  uint64_t bytes() const {
    const uint32_t last = chunks() - 1;
    return OffsetOf(last) + layout.ChunkBytes(BlocksOf(last));
  }

  BlockLayout layout;
  uint32_t block_bytes;
  uint32_t chunk_blocks;  // of all chunks but the last
  uint32_t blocks;        // of a row
};

// n blocks of one row into lane `lane` of a chunk.
void PackBlocks(const BlockLayout& layout, uint32_t block_bytes, uint32_t n, const std::byte* file,
                uint32_t lane, std::byte* chunk) {
  std::byte* halves = chunk + 2 * lane;
  std::byte* words = chunk + layout.HeadBytes(n) + 4 * lane;
  for (uint32_t b = 0; b < n; ++b, file += block_bytes) {
    for (uint32_t h = 0; h < layout.halves; ++h) {
      std::memcpy(halves + 32 * (h * n + b), file + layout.half_offset[h], 2);
    }
    for (const WordRun& run : layout.runs) {
      for (uint32_t i = 0; i < run.count; ++i, words += 64) {
        std::memcpy(words, file + run.offset + 4 * i, 4);
      }
    }
  }
  if (layout.fifth_bits) {
    for (uint32_t b = 0; b < n; ++b) {
      std::byte* at = chunk + layout.HeadBytes(n) + 4 * lane + b * layout.words() * 64;
      uint32_t word;
      std::memcpy(&word, at, 4);
      word = GatherFifthBits(word);
      std::memcpy(at, &word, 4);
    }
  }
}

void UnpackBlocks(const BlockLayout& layout, uint32_t block_bytes, uint32_t n,
                  const std::byte* chunk, uint32_t lane, std::byte* file) {
  const std::byte* halves = chunk + 2 * lane;
  const std::byte* words = chunk + layout.HeadBytes(n) + 4 * lane;
  for (uint32_t b = 0; b < n; ++b, file += block_bytes) {
    for (uint32_t h = 0; h < layout.halves; ++h) {
      std::memcpy(file + layout.half_offset[h], halves + 32 * (h * n + b), 2);
    }
    for (const WordRun& run : layout.runs) {
      for (uint32_t i = 0; i < run.count; ++i, words += 64) {
        std::memcpy(file + run.offset + 4 * i, words, 4);
      }
    }
    if (layout.fifth_bits) {
      uint32_t word;
      std::memcpy(&word, file + layout.runs[0].offset, 4);
      word = ScatterFifthBits(word);
      std::memcpy(file + layout.runs[0].offset, &word, 4);
    }
  }
}

// Rule 11 for n blocks of the file's layout.
template <class Block>
void EmbedBlocks(const std::byte* bytes, uint32_t n, float* out) {
  constexpr bool kOf32 = sizeof(Block) <= sizeof(BlockQ8_0);
  Block packed;
  std::conditional_t<kOf32, spec::Weights32, spec::Weights256> block;
  for (uint32_t b = 0; b < n; ++b) {
    std::memcpy(&packed, bytes + b * sizeof packed, sizeof packed);
    spec::Unpack(packed, block);
    for (size_t i = 0; i < std::size(block.w); ++i) {
      const float w = static_cast<float>(block.w[i]);
      if constexpr (kOf32) {
        *out++ = spec::HasMinimum(Block::kType) ? spec::Fma(block.d, w, block.m) : block.d * w;
      } else {
        const float scale = block.d * static_cast<float>(block.scale[i / 16]);
        const float min = block.dmin * static_cast<float>(block.min[i / 16]);
        *out++ = spec::HasMinimum(Block::kType) ? spec::Fma(scale, w, -min) : scale * w;
      }
    }
  }
}

void EmbedFloats(DType type, const std::byte* elements, uint32_t n, float* out) {
  for (uint32_t i = 0; i < n; ++i) {
    out[i] = spec::FloatElement(type, elements, i);
  }
}

void EmbedChunk(DType type, const std::byte* file, uint32_t n, float* out) {
  switch (type) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBf16: return EmbedFloats(type, file, n, out);
    case DType::kQ4_0: return EmbedBlocks<BlockQ4_0>(file, n, out);
    case DType::kQ4_1: return EmbedBlocks<BlockQ4_1>(file, n, out);
    case DType::kQ5_0: return EmbedBlocks<BlockQ5_0>(file, n, out);
    case DType::kQ5_1: return EmbedBlocks<BlockQ5_1>(file, n, out);
    case DType::kQ8_0: return EmbedBlocks<BlockQ8_0>(file, n, out);
    case DType::kIq4Nl: return EmbedBlocks<BlockIq4Nl>(file, n, out);
    case DType::kQ2K: return EmbedBlocks<BlockQ2K>(file, n, out);
    case DType::kQ3K: return EmbedBlocks<BlockQ3K>(file, n, out);
    case DType::kQ4K: return EmbedBlocks<BlockQ4K>(file, n, out);
    case DType::kQ5K: return EmbedBlocks<BlockQ5K>(file, n, out);
    case DType::kQ6K: return EmbedBlocks<BlockQ6K>(file, n, out);
    case DType::kIq4Xs: return EmbedBlocks<BlockIq4Xs>(file, n, out);
  }
}

}  // namespace

ActivationClass ClassOf(DType type) {
  if (!IsQuantised(type)) {
    return ActivationClass::kFloat;
  }
  return spec::ActivationBlock(type) == 256 ? ActivationClass::kInt8x256
                                            : ActivationClass::kInt8x32;
}

uint64_t PanelBytes(DType type, uint32_t cols) {
  return Chunking(type, cols).bytes();
}

uint64_t PackedBytes(DType type, uint32_t rows, uint32_t cols) {
  return (uint64_t{rows} + kPanelRows - 1) / kPanelRows * PanelBytes(type, cols);
}

void PackPanel(DType type, uint32_t rows, uint32_t cols, const std::byte* file_rows,
               std::byte* panel) {
  const Chunking chunking(type, cols);
  const auto row_bytes = static_cast<size_t>(RowBytes(type, cols));
  for (uint32_t c = 0; c < chunking.chunks(); ++c) {
    const uint32_t n = chunking.BlocksOf(c);
    std::byte* chunk = panel + chunking.OffsetOf(c);
    std::memset(chunk, 0, chunking.layout.ChunkBytes(n));
    const std::byte* from = file_rows + size_t{c} * chunking.chunk_blocks * chunking.block_bytes;
    for (uint32_t row = 0; row < rows; ++row) {
      PackBlocks(chunking.layout, chunking.block_bytes, n, from + row * row_bytes, row, chunk);
    }
  }
}

void UnpackRow(DType type, uint32_t cols, const std::byte* packed, uint32_t row, std::byte* out) {
  const Chunking chunking(type, cols);
  const std::byte* panel = packed + uint64_t{row / kPanelRows} * chunking.bytes();
  for (uint32_t c = 0; c < chunking.chunks(); ++c) {
    const uint32_t n = chunking.BlocksOf(c);
    UnpackBlocks(chunking.layout, chunking.block_bytes, n, panel + chunking.OffsetOf(c),
                 row % kPanelRows, out);
    out += size_t{n} * chunking.block_bytes;
  }
}

void EmbedRow(DType type, uint32_t cols, const std::byte* packed, uint32_t row, float scale,
              float* out) {
  const Chunking chunking(type, cols);
  const std::byte* panel = packed + uint64_t{row / kPanelRows} * chunking.bytes();
  std::array<std::byte, kChunk * 4> file;  // a chunk of a row, at most F32's
  for (uint32_t c = 0; c < chunking.chunks(); ++c) {
    const uint32_t n = chunking.BlocksOf(c);
    UnpackBlocks(chunking.layout, chunking.block_bytes, n, panel + chunking.OffsetOf(c),
                 row % kPanelRows, file.data());
    EmbedChunk(type, file.data(), n, out);
    const uint32_t elements = n * InfoOf(type).block_elements;
    if (scale != 1.0f) {
      for (uint32_t i = 0; i < elements; ++i) {
        out[i] = out[i] * scale;
      }
    }
    out += elements;
  }
}

namespace {
size_t RecordBytes(ActivationClass type) {
  switch (type) {
    case ActivationClass::kFloat: return sizeof(RecordFloat);
    case ActivationClass::kInt8x32: return sizeof(Record32);
    case ActivationClass::kInt8x256: return sizeof(Record256);
  }
  return 0;
}
}  // namespace

uint64_t ActivationBytes(ActivationClass type, uint32_t rows, uint32_t cols) {
  return (uint64_t{cols} + kChunk - 1) / kChunk * rows * RecordBytes(type);
}

void GatherRows(const Activations& from, std::span<const uint32_t> rows, const Activations& to) {
  const size_t record = RecordBytes(from.type);
  std::byte* out = to.data;
  for (uint32_t first = 0; first < from.cols; first += kChunk) {
    const std::byte* chunk = from.data + size_t{first / kChunk} * from.rows * record;
    for (size_t i = 0; i < rows.size(); ++i) {
      std::memcpy(out + i * record, chunk + rows[i] * record, record);
    }
    out += to.rows * record;
  }
}

}  // namespace fak::tensor::cpu
