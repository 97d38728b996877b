#pragma once

#include <cstdint>

#include "tensor/cuda/product.h"
#include "tensor/cuda/quants.cuh"

// Products of quantised weights. Grid: (outputs / 4, rows / R); block: 4 warps, one output each;
// no shared memory. A lane has 32 elements, 8 lanes are a group of 256, so a warp takes 4 groups at
// a time and adds them to y in order: the integer sums are exact in any order, the rest is the
// specification's chain. Aims at the weights' bandwidth for few rows; R rows share a load.
namespace fak::tensor::cuda {

constexpr uint32_t kFull = 0xffffffffu;
constexpr int kWarpsABlock = 4;

__device__ inline int Sum8(int x, int lanes) {
  for (int distance = 1; distance < lanes; distance *= 2) {
    x += __shfl_xor_sync(kFull, x, distance);
  }
  return x;
}

__device__ inline int Dot16(const int* w, const int* q) {
  int sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum = __dp4a(w[i], q[i], sum);
  }
  return sum;
}

__device__ inline int Sum32(const int* q) {
  int sum = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    sum = __dp4a(q[i], kOnes, sum);
  }
  return sum;
}

// The value b of this lane's group of one block of 256.
template <class Block>
__device__ inline float GroupValue256(const Lane32& w, const int* q, int lane) {
  constexpr int kPartLanes = spec::PartElements(Block::kType) / 32;
  const int mine = w.scale[0] * Dot16(w.w, q) + w.scale[1] * Dot16(w.w + 4, q + 4);
  const int part = Sum8(mine, kPartLanes);
  float b = 0.0f;
#pragma unroll
  for (int first = 0; first < 8; first += kPartLanes) {
    const int isum = __shfl_sync(kFull, part, (lane & 24) + first);
    b = spec::Fma(w.d, static_cast<float>(isum), b);
  }
  if constexpr (spec::HasMinimum(Block::kType)) {
    b = spec::Fma(-w.low, static_cast<float>(Sum8(w.min * Sum32(q), 8)), b);
  }
  return b;
}

// The value b of this lane's group of up to 8 blocks of 32; `blocks` of them are in the row.
template <class Block>
__device__ inline float GroupValue32(const Lane32& w, const int* q, float scale, int lane,
                                     uint32_t blocks) {
  const float d = w.d * scale;
  const float isum = static_cast<float>(Dot16(w.w, q) + Dot16(w.w + 4, q + 4));
  const float m = w.low * scale;
  const float xsum = spec::HasMinimum(Block::kType) ? static_cast<float>(Sum32(q)) : 0.0f;
  float b = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int from = (lane & 24) + i;
    const float d_i = __shfl_sync(kFull, d, from);
    const float isum_i = __shfl_sync(kFull, isum, from);
    const float next = spec::Fma(d_i, isum_i, b);
    b = static_cast<uint32_t>(i) < blocks ? next : b;
    if constexpr (spec::HasMinimum(Block::kType)) {
      const float m_i = __shfl_sync(kFull, m, from);
      const float xsum_i = __shfl_sync(kFull, xsum, from);
      const float with_minimum = spec::Fma(m_i, xsum_i, b);
      b = static_cast<uint32_t>(i) < blocks ? with_minimum : b;
    }
  }
  return b;
}

__device__ inline void LoadInput(const int8_t* row, uint32_t index, uint32_t count, int* q) {
  if (index < count) {
    Load32(reinterpret_cast<const uint8_t*>(row) + 32 * static_cast<uint64_t>(index), q);
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    q[i] = 0;
  }
}

// Adds the warp's 4 groups from `base` on to y.
template <class Block>
__device__ inline float AddGroups(const Product& p, const Lane32& w, uint32_t base,
                                  uint64_t input_row, float y) {
  constexpr bool kWide = spec::ActivationBlock(Block::kType) == 256;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const uint32_t count = p.cols / 32;
  const uint32_t groups = (count + 7) / 8;
  const uint32_t index = 8 * base + static_cast<uint32_t>(lane);
  const float* const scales = p.inputs.scales + input_row * (kWide ? groups : count);
  int q[8];
  LoadInput(static_cast<const int8_t*>(p.inputs.values) + input_row * p.cols, index, count, q);
  float b;
  if constexpr (kWide) {
    b = GroupValue256<Block>(w, q, lane);
  } else {
    const uint32_t first = index - static_cast<uint32_t>(lane % 8);
    b = GroupValue32<Block>(w, q, index < count ? scales[index] : 0.0f, lane,
                            first < count ? count - first : 0);
  }
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k) {
    const float b_k = __shfl_sync(kFull, b, static_cast<int>(8 * k));
    if (base + k < groups) {
      y = kWide ? spec::Fma(scales[base + k], b_k, y) : y + b_k;
    }
  }
  return y;
}

template <class Block, int R>
__global__ void __launch_bounds__(32 * kWarpsABlock) QuantisedKernel(Product p) {
  const uint32_t output = blockIdx.x * kWarpsABlock + threadIdx.x / 32;
  if (output >= p.outputs) {
    return;
  }
  const uint32_t first_row = blockIdx.y * R;
  uint64_t weight_row = output;
  if (R == 1 && p.maybe_experts != nullptr) {
    weight_row += static_cast<uint64_t>(p.maybe_experts[first_row]) * p.outputs;
  }
  const std::byte* const weights = p.weights + weight_row * p.row_bytes;
  const uint32_t count = p.cols / 32;
  float y[R] = {};
  for (uint32_t base = 0; base < (count + 7) / 8; base += 4) {
    const Lane32 w = LoadLane<Block>(weights, 8 * base + threadIdx.x % 32, count);
#pragma unroll
    for (uint32_t r = 0; r < R; ++r) {
      if (first_row + r < p.rows) {
        y[r] = AddGroups<Block>(p, w, base, (first_row + r) / p.choices_a_row, y[r]);
      }
    }
  }
  if (threadIdx.x % 32 != 0) {
    return;
  }
  for (uint32_t r = 0; r < R && first_row + r < p.rows; ++r) {
    float value = y[r];
    if (p.maybe_bias != nullptr) {
      value = spec::AddBias(value, p.maybe_bias[output]);
    }
    float* const out = p.out + static_cast<uint64_t>(first_row + r) * p.out_stride + output;
    *out = p.residual ? spec::AddResidual(*out, value) : value;
  }
}

template <class Block>
cudaError_t MultiplyQuantised(const Product& p, cudaStream_t stream) {
  constexpr uint32_t kRows = 8;
  const uint32_t blocks = (p.outputs + kWarpsABlock - 1) / kWarpsABlock;
  if (p.rows == 1 || p.maybe_experts != nullptr) {
    QuantisedKernel<Block, 1><<<dim3(blocks, p.rows), 32 * kWarpsABlock, 0, stream>>>(p);
  } else {
    QuantisedKernel<Block, kRows>
        <<<dim3(blocks, (p.rows + kRows - 1) / kRows), 32 * kWarpsABlock, 0, stream>>>(p);
  }
  return cudaGetLastError();
}

}  // namespace fak::tensor::cuda
