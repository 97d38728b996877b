#include "tensor/cuda/load4.cuh"
#include "tensor/cuda/product.h"
#include "tensor/spec/dot.h"

namespace fak::tensor::cuda {
namespace {

constexpr uint32_t kThreads = 128;

// Products of F32, F16 and BF16 weights. Grid: (outputs / those of a block, rows / R); block: 128
// threads, each the chain of one chunk of 512 elements of one output, for R rows; then one thread
// an output and row adds the chunks in order. Shared memory: R floats an output and chunk. Aims at
// the weights' bandwidth for few rows.
template <class Type, int R>
__global__ void __launch_bounds__(kThreads)
    FloatKernel(Product p, uint32_t chunks, uint32_t outputs_a_block) {
  extern __shared__ float parts[];  // [output][chunk][row]
  const uint32_t first_row = blockIdx.y * R;
  const uint32_t first_output = blockIdx.x * outputs_a_block;
  uint64_t weight_row = first_output;
  if (R == 1 && p.maybe_experts != nullptr) {
    weight_row += static_cast<uint64_t>(p.maybe_experts[first_row]) * p.outputs;
  }
  const auto* const weights =
      reinterpret_cast<const typename Type::Stored*>(p.weights + weight_row * p.row_bytes);
  const auto* const x = static_cast<const float*>(p.inputs.values);
  const bool four = p.cols % 4 == 0;
  for (uint32_t task = threadIdx.x; task < outputs_a_block * chunks; task += kThreads) {
    const uint32_t output = task / chunks;
    const uint32_t first = task % chunks * spec::kChunk;
    const uint32_t n = min(p.cols - first, static_cast<uint32_t>(spec::kChunk));
    if (first_output + output >= p.outputs) {
      continue;
    }
    const auto* const w = weights + static_cast<uint64_t>(output) * p.cols + first;
    for (uint32_t r = 0; r < R && first_row + r < p.rows; ++r) {
      const uint64_t row = (first_row + r) / p.choices_a_row;
      parts[task * R + r] = Chain<Type>(w, x + row * p.cols + first, n, four, 0.0f);
    }
  }
  __syncthreads();
  for (uint32_t task = threadIdx.x; task < outputs_a_block * R; task += kThreads) {
    const uint32_t output = task / R;
    const uint32_t r = task % R;
    if (first_output + output >= p.outputs || first_row + r >= p.rows) {
      continue;
    }
    float y = 0.0f;
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
      y = y + parts[(output * chunks + chunk) * R + r];
    }
    if (p.maybe_bias != nullptr) {
      y = spec::AddBias(y, p.maybe_bias[first_output + output]);
    }
    float* const out =
        p.out + static_cast<uint64_t>(first_row + r) * p.out_stride + first_output + output;
    *out = p.residual ? spec::AddResidual(*out, y) : y;
  }
}

template <class Type>
cudaError_t Launch(const Product& p, cudaStream_t stream) {
  constexpr uint32_t kRows = 4;
  const uint32_t chunks = (p.cols + spec::kChunk - 1) / spec::kChunk;
  const uint32_t outputs = chunks < kThreads ? kThreads / chunks : 1;
  const uint32_t blocks = (p.outputs + outputs - 1) / outputs;
  const size_t shared = static_cast<size_t>(outputs) * chunks * sizeof(float);
  if (p.rows == 1 || p.maybe_experts != nullptr) {
    FloatKernel<Type, 1><<<dim3(blocks, p.rows), kThreads, shared, stream>>>(p, chunks, outputs);
  } else {
    FloatKernel<Type, kRows>
        <<<dim3(blocks, (p.rows + kRows - 1) / kRows), kThreads, kRows * shared, stream>>>(
            p, chunks, outputs);
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t MultiplyFloat(const Product& product, cudaStream_t stream) {
  switch (product.type) {
    case DType::kF32: return Launch<F32>(product, stream);
    case DType::kF16: return Launch<F16>(product, stream);
    case DType::kBf16: return Launch<Bf16>(product, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace fak::tensor::cuda
