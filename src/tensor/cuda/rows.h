#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "tensor/cuda/product.h"
#include "tensor/program.h"

// What is done to rows besides products and attention. All pointers are the device's.
namespace fak::tensor::cuda {

// Weight rows as token embeddings: rule 11, then times scale unless that is 1.
struct Embedding {
  DType type = DType::kF32;
  const std::byte* weights = nullptr;
  uint64_t row_bytes = 0;
  uint32_t width = 0;
  float scale = 1.0f;
  const int32_t* tokens = nullptr;
  uint32_t rows = 0;
  float* out = nullptr;
};
cudaError_t Embed(const Embedding& embedding, cudaStream_t stream);

// Makes a product's inputs of rows of floats: RMSNorm (rule 3), then rule 4 for each class asked
// for (a bit each).
struct Preparation {
  const float* x = nullptr;
  uint32_t width = 0;
  uint32_t rows = 0;
  const uint32_t* maybe_rows = nullptr;  // which rows of x, if not the first
  const float* maybe_weight = nullptr;   // of the norm; null: none
  float eps = 0.0f;
  uint32_t classes = 0;
  float* floats = nullptr;  // [rows][width]; written in any case
  int8_t* int8x32 = nullptr;
  float* scales32 = nullptr;
  int8_t* int8x256 = nullptr;
  float* scales256 = nullptr;
};
cudaError_t Prepare(const Preparation& preparation, cudaStream_t stream);

// out = activation(gate) · up, of n values.
cudaError_t Gate(Activation activation, const float* gate, const float* up, uint64_t n, float* out,
                 cudaStream_t stream);
// x = x + y.
cudaError_t Add(const float* y, uint64_t n, float* x, cudaStream_t stream);

// Clears finite[maybe_rows ? maybe_rows[r] : r] of every row that holds a non-finite value (rule
// 2).
cudaError_t TestFinite(const float* x, uint32_t width, uint32_t rows, const uint32_t* maybe_rows,
                       uint8_t* finite, cudaStream_t stream);

}  // namespace fak::tensor::cuda
