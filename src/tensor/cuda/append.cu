#include "base/limits.h"
#include "tensor/cuda/attention.h"
#include "tensor/cuda/warp.cuh"
#include "tensor/spec/convert.h"
#include "tensor/spec/reduce.h"

namespace fak::tensor::cuda {
namespace {

// Norm of one head in place; dim is at most one chunk of 512.
__device__ void NormHead(float* head, uint32_t dim, const float* weight, float eps) {
  static_assert(limits::kHeadDimMax <= spec::kChunk);
  const uint32_t lane = threadIdx.x;
  float sum = 0.0f;
  for (uint32_t i = lane; lane < spec::kLanes && i < dim; i += spec::kLanes) {
    sum = spec::Fma(head[i], head[i], sum);
  }
  sum = __shfl_sync(0xffffffffu, 0.0f + Tree16(sum), 0);
  const float r = 1.0f / spec::Sqrt(sum / static_cast<float>(dim) + eps);
  __syncwarp();
  for (uint32_t i = lane; i < dim; i += 32) {
    head[i] = (head[i] * r) * weight[i];
  }
  __syncwarp();
}

__device__ void RotateHead(const Append& a, uint32_t row, float* head) {
  const float* const cos = a.cos + uint64_t{row} * a.rope_stride;
  const float* const sin = a.sin + uint64_t{row} * a.rope_stride;
  const uint32_t pairs = a.rotated / 2;
  for (uint32_t i = threadIdx.x; i < pairs; i += 32) {
    const uint32_t first = a.adjacent ? 2 * i : i;
    const uint32_t second = a.adjacent ? 2 * i + 1 : i + pairs;
    const float x = head[first];
    const float y = head[second];
    head[first] = spec::Fma(x, cos[i], -(y * sin[i]));
    head[second] = spec::Fma(x, sin[i], y * cos[i]);
  }
  __syncwarp();
}

__device__ void StoreHead(const Append& a, uint32_t row, uint32_t kv_head, bool is_key,
                          const float* head) {
  const PagedRows& p = a.paged;
  const uint32_t position = p.positions[row];
  const uint32_t block = p.blocks[p.tables[row] + position / p.block_size];
  const uint64_t first =
      (uint64_t{position % p.block_size} * a.heads.kv_heads + kv_head) * a.heads.dim;
  std::byte* const to = p.kv + block * p.block_bytes + (is_key ? p.keys : p.values);
  unsigned long long clamped = 0;
  for (uint32_t i = threadIdx.x; i < a.heads.dim; i += 32) {
    if (p.type == KvType::kF32) {
      reinterpret_cast<float*>(to)[first + i] = head[i];
      continue;
    }
    const spec::StoredKv stored =
        p.type == KvType::kF16 ? spec::StoreKvF16(head[i]) : spec::StoreKvBf16(head[i]);
    reinterpret_cast<uint16_t*>(to)[first + i] = stored.bits;
    clamped += stored.clamped ? 1 : 0;
  }
  if (clamped > 0) {
    atomicAdd(a.clamped, clamped);
  }
}

// Grid: (heads of q, k and v, rows); block: a warp; shared: a head. Bound by latency.
__global__ void __launch_bounds__(32) AppendKernel(Append a) {
  __shared__ float head[limits::kHeadDimMax];
  const uint32_t row = blockIdx.y;
  const uint32_t index = blockIdx.x;
  const bool is_query = index < a.heads.q_heads;
  const bool is_value = index >= a.heads.q_heads + a.heads.kv_heads;
  float* const x = a.qkv + uint64_t{row} * a.width + uint64_t{index} * a.heads.dim;
  for (uint32_t i = threadIdx.x; i < a.heads.dim; i += 32) {
    head[i] = x[i];
  }
  __syncwarp();
  if (!is_value) {
    const float* const weight = is_query ? a.maybe_q_norm : a.maybe_k_norm;
    if (weight != nullptr) {
      NormHead(head, a.heads.dim, weight, is_query ? a.q_eps : a.k_eps);
    }
    RotateHead(a, row, head);
  }
  for (uint32_t i = threadIdx.x; i < a.heads.dim; i += 32) {
    if (spec::IsNonFinite(head[i])) {
      a.finite[row] = 0;
    }
    x[i] = head[i];
  }
  if (!is_query) {
    const uint32_t of_k = index - a.heads.q_heads;
    StoreHead(a, row, is_value ? of_k - a.heads.kv_heads : of_k, !is_value, head);
  }
}

}  // namespace

cudaError_t RopeAppend(const Append& a, cudaStream_t stream) {
  AppendKernel<<<dim3(a.heads.q_heads + 2 * a.heads.kv_heads, a.rows), 32, 0, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace fak::tensor::cuda
