#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "tensor/backend.h"
#include "tensor/cpu/arena.h"
#include "tensor/cpu/matmul.h"

namespace fak::tensor::cpu {

// Where weights live: a few large arenas, so that huge pages are filled and not half empty. What
// is given out stays until the end. Not thread-safe.
class WeightMemory {
 public:
  // 64-byte aligned.
  [[nodiscard]] Result<std::byte*> Take(uint64_t bytes);
  uint64_t bytes() const { return bytes_; }  // given out

 private:
  std::vector<Arena> arenas_;
  uint64_t used_ = 0;  // of the last arena
  uint64_t bytes_ = 0;
};

// The packed rows of one tensor, or of one expert of it.
constexpr uint32_t PanelsOf(uint32_t rows) {
  return (rows + kPanelRows - 1) / kPanelRows;
}

struct PackedPart {
  DType type = DType::kF32;
  uint32_t rows = 0;
  const std::byte* data = nullptr;
  const float* maybe_bias = nullptr;

  uint32_t panels() const { return PanelsOf(rows); }
};

// Rows of one or more tensors, stacked. Each part has its own panels.
struct Matrix {
  uint32_t rows = 0;
  uint32_t cols = 0;
  std::vector<PackedPart> parts;

  // One row as floats, each multiplied by scale unless that is 1.
  void EmbedRow(uint32_t row, float scale, float* out) const;
};

struct Experts {
  uint32_t ff = 0;
  std::vector<Matrix> gate_up;  // by expert; [gate; up]
  std::vector<Matrix> down;
};

// Reads tensors slice by slice on all threads of the pool and packs them: what is held besides the
// packed weights is one slice (at most a few MB) a thread.
class WeightLoader {
 public:
  WeightLoader(ThreadPool& pool, WeightMemory& memory) : pool_(pool), memory_(memory) {}

  [[nodiscard]] Result<Matrix> LoadMatrix(std::span<const MatrixPart> parts);
  [[nodiscard]] Result<Experts> LoadExperts(const ExpertsSpec& spec);

 private:
  // Rows [first, first + rows) of a tensor.
  [[nodiscard]] Result<PackedPart> LoadPart(const WeightReader& weight, uint32_t first,
                                            uint32_t rows);

  ThreadPool& pool_;
  WeightMemory& memory_;
};

}  // namespace fak::tensor::cpu
