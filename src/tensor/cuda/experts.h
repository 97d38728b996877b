#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// A mixture-of-experts layer's choice and sum: numerics rule 11. All pointers are the device's.
namespace fak::tensor::cuda {

struct Routing {
  const float* logits = nullptr;  // [rows][experts]
  uint32_t rows = 0;
  uint32_t experts = 0;
  uint32_t top_k = 0;
  bool normalise = true;
  float scale = 1.0f;
  int32_t* ids = nullptr;    // [rows][top_k], in rank order
  float* weights = nullptr;  // [rows][top_k]; NaN in a row whose logits aren't finite
};
cudaError_t Route(const Routing& routing, cudaStream_t stream);

// x[row] = x[row] + the sum over ranks of weights[row][rank] · outputs[row · top_k + rank].
cudaError_t CombineExperts(const float* outputs, const float* weights, uint32_t rows,
                           uint32_t top_k, uint32_t width, float* x, cudaStream_t stream);

}  // namespace fak::tensor::cuda
