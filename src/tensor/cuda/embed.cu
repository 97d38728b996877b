#include "tensor/cuda/load4.cuh"
#include "tensor/cuda/quants.cuh"
#include "tensor/cuda/rows.h"

namespace fak::tensor::cuda {
namespace {

constexpr uint32_t kThreads = 128;

// Grid: (elements / (32 · 128), rows); block: 128 threads, 32 elements each. Bound by latency.
template <class Block>
__global__ void QuantisedKernel(Embedding e) {
  const uint32_t index = blockIdx.x * kThreads + threadIdx.x;
  const uint64_t row = blockIdx.y;
  const uint32_t count = e.width / 32;
  if (index >= count) {
    return;
  }
  const std::byte* const weights = e.weights + static_cast<uint64_t>(e.tokens[row]) * e.row_bytes;
  const Lane32 w = LoadLane<Block>(weights, index, count);
  float* const out = e.out + row * e.width + 32 * index;
  for (int i = 0; i < 32; ++i) {
    const int byte = (w.w[i / 4] >> (8 * (i % 4))) & 0xff;
    const float value = static_cast<float>(static_cast<int8_t>(byte));
    float x;
    if constexpr (spec::ActivationBlock(Block::kType) == 32) {
      x = spec::HasMinimum(Block::kType) ? spec::Fma(w.d, value, w.low) : w.d * value;
    } else {
      const float scale = w.d * static_cast<float>(w.scale[i / 16]);
      x = spec::HasMinimum(Block::kType)
              ? spec::Fma(scale, value, -(w.low * static_cast<float>(w.min)))
              : scale * value;
    }
    out[i] = e.scale == 1.0f ? x : x * e.scale;
  }
}

// Grid: (elements / 128, rows); block: 128 threads, an element each. Bound by latency.
template <class Type>
__global__ void FloatKernel(Embedding e) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  const uint64_t row = blockIdx.y;
  if (i >= e.width) {
    return;
  }
  const auto* const weights = reinterpret_cast<const typename Type::Stored*>(
      e.weights + static_cast<uint64_t>(e.tokens[row]) * e.row_bytes);
  const float x = Type::Widen(weights[i]);
  e.out[row * e.width + i] = e.scale == 1.0f ? x : x * e.scale;
}

template <class Block>
cudaError_t LaunchQuantised(const Embedding& e, cudaStream_t stream) {
  const uint32_t blocks = (e.width / 32 + kThreads - 1) / kThreads;
  QuantisedKernel<Block><<<dim3(blocks, e.rows), kThreads, 0, stream>>>(e);
  return cudaGetLastError();
}

template <class Type>
cudaError_t LaunchFloat(const Embedding& e, cudaStream_t stream) {
  FloatKernel<Type><<<dim3((e.width + kThreads - 1) / kThreads, e.rows), kThreads, 0, stream>>>(e);
  return cudaGetLastError();
}

}  // namespace

cudaError_t Embed(const Embedding& e, cudaStream_t stream) {
  switch (e.type) {
    case DType::kF32: return LaunchFloat<F32>(e, stream);
    case DType::kF16: return LaunchFloat<F16>(e, stream);
    case DType::kBf16: return LaunchFloat<Bf16>(e, stream);
    case DType::kQ4_0: return LaunchQuantised<BlockQ4_0>(e, stream);
    case DType::kQ4_1: return LaunchQuantised<BlockQ4_1>(e, stream);
    case DType::kQ5_0: return LaunchQuantised<BlockQ5_0>(e, stream);
    case DType::kQ5_1: return LaunchQuantised<BlockQ5_1>(e, stream);
    case DType::kQ8_0: return LaunchQuantised<BlockQ8_0>(e, stream);
    case DType::kQ4K: return LaunchQuantised<BlockQ4K>(e, stream);
    case DType::kQ5K: return LaunchQuantised<BlockQ5K>(e, stream);
    case DType::kQ6K: return LaunchQuantised<BlockQ6K>(e, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace fak::tensor::cuda
