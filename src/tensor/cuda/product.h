#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

// Numerics rules 6 and 7 on the device.
namespace fak::tensor::cuda {

// How weights want their activations (rule 4): floats, or int8 under a scale for 32 or 256.
enum class InputClass : uint8_t { kFloat, kInt8x32, kInt8x256 };
inline constexpr size_t kInputClassCount = 3;
InputClass InputClassOf(DType type);

// Rows of activations on the device: `values` is [rows][cols] of float or int8, `scales`
// [rows][ceil(cols / 32 or 256)].
struct Inputs {
  const void* values = nullptr;
  const float* scales = nullptr;
};

// out[r][o] (+)= input row r · weight row o + bias[o]. Pointers are the device's.
struct Product {
  DType type = DType::kF32;
  const std::byte* weights = nullptr;  // rows as files hold them
  uint64_t row_bytes = 0;
  uint32_t outputs = 0;
  uint32_t cols = 0;
  const float* maybe_bias = nullptr;
  Inputs inputs;
  uint32_t rows = 0;
  float* out = nullptr;
  uint32_t out_stride = 0;
  bool residual = false;  // out = out + the product
  // Experts: output row r is a choice. It takes weight rows from maybe_experts[r] · outputs on, and
  // input row r / choices_a_row.
  const int32_t* maybe_experts = nullptr;
  uint32_t choices_a_row = 1;
};

// cudaErrorInvalidValue for a type that has no kernel.
cudaError_t Multiply(const Product& product, cudaStream_t stream);

// By classes of types; Multiply() chooses.
cudaError_t MultiplyFloat(const Product& product, cudaStream_t stream);
cudaError_t MultiplyBlocks32(const Product& product, cudaStream_t stream);
cudaError_t MultiplyBlocks256(const Product& product, cudaStream_t stream);

}  // namespace fak::tensor::cuda
