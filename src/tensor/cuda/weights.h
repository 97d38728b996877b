#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/backend.h"
#include "tensor/cuda/memory.h"

namespace fak::tensor::cuda {

// kUnsupported, naming the type, for those that have no kernel on a GPU.
[[nodiscard]] Status CheckSupported(DType type);

// Rows of one tensor on the device, in the file's layout: kernels read its blocks as they are.
struct Part {
  DType type = DType::kF32;
  uint32_t rows = 0;
  uint32_t cols = 0;
  uint64_t row_bytes = 0;
  const std::byte* data = nullptr;
  const float* maybe_bias = nullptr;
};

struct Matrix {
  uint32_t rows = 0;
  uint32_t cols = 0;
  std::vector<Part> parts;
};

// Stacks, expert-major.
struct Experts {
  uint32_t ff = 0;     // rows of gate and up an expert
  uint32_t width = 0;  // rows of down an expert
  Part gate;
  Part up;
  Part down;
};

uint64_t PartBytes(DType type, uint32_t rows, uint32_t cols);

// Reads tensors slice by slice and uploads them: what the host holds is two slices. `memory` and
// `uploader` must outlive it.
class WeightLoader {
 public:
  WeightLoader(WeightMemory& memory, Uploader& uploader, cudaStream_t stream)
      : memory_(memory), uploader_(uploader), stream_(stream) {}

  [[nodiscard]] Result<Matrix> LoadMatrix(std::span<const MatrixPart> parts);
  [[nodiscard]] Result<Experts> LoadExperts(const ExpertsSpec& spec);
  // All values of a tensor of a float type, as f32 on the device.
  [[nodiscard]] Result<const float*> LoadVector(const WeightReader& weight);

 private:
  [[nodiscard]] Result<Part> LoadPart(const WeightReader& weight);

  WeightMemory& memory_;
  Uploader& uploader_;
  cudaStream_t stream_;
};

}  // namespace fak::tensor::cuda
