#include "tensor/cuda/attention.h"

#include "base/limits.h"
#include "tensor/cuda/load4.cuh"
#include "tensor/cuda/warp.cuh"
#include "tensor/spec/attention.h"

namespace fak::tensor::cuda {
namespace {

constexpr uint32_t kThreads = spec::kSplit;

struct Partials {
  float* o;
  float* maximum;
  float* sum;
};

__device__ Partials PartialsOf(const Attention& a, uint32_t row, uint32_t head, uint32_t split) {
  const uint64_t n = uint64_t{a.rows} * a.heads.q_heads * a.splits;
  const uint64_t i = (uint64_t{row} * a.heads.q_heads + head) * a.splits + split;
  float* const maxima = a.partials + n * a.heads.dim;
  return {a.partials + i * a.heads.dim, maxima + i, maxima + n + i};
}

__device__ float BlockMax(float x, float* shared) {
  for (int distance = 16; distance > 0; distance /= 2) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, distance));
  }
  if (threadIdx.x % 32 == 0) {
    shared[threadIdx.x / 32] = x;
  }
  __syncthreads();
  x = shared[0];
  for (uint32_t warp = 1; warp < kThreads / 32; ++warp) {
    x = fmaxf(x, shared[warp]);
  }
  return x;
}

// One query head of one row over one split of 256 positions. Grid: (splits, query heads, rows);
// block: 256 threads: first a position each (its dot product is one chain), then an element of V
// each. Shared memory: the query, weights, block ids. Aims at the KV cache's bandwidth where rows
// are few; queries that share a KV head meet in the L2.
template <class Type>
__global__ void __launch_bounds__(kThreads) SplitKernel(Attention a) {
  __shared__ float q[limits::kHeadDimMax];
  __shared__ float p[spec::kSplit];
  __shared__ uint32_t block_of[spec::kSplit];
  __shared__ float maxima[kThreads / 32];
  const uint32_t row = a.first_row + blockIdx.z;
  const uint32_t head = blockIdx.y;
  const uint32_t dim = a.heads.dim;
  const uint32_t position = a.paged.positions[row];
  const auto visible = static_cast<uint32_t>(spec::FirstVisible(position, a.window));
  const uint32_t start = blockIdx.x * spec::kSplit;
  const uint32_t begin = max(visible, start);
  const uint32_t end = min(position + 1, start + spec::kSplit);
  if (begin >= end) {
    return;
  }
  const float* const query = a.qkv + uint64_t{row} * a.width + uint64_t{head} * dim;
  for (uint32_t i = threadIdx.x; i < dim; i += kThreads) {
    q[i] = query[i];
  }
  const uint32_t mine = start + threadIdx.x;
  const bool sees = begin <= mine && mine < end;
  if (sees) {
    block_of[threadIdx.x] = a.paged.blocks[a.paged.tables[row] + mine / a.paged.block_size];
  }
  __syncthreads();

  const uint32_t kv_head = head / (a.heads.q_heads / a.heads.kv_heads);
  const auto at = [&](uint32_t local, uint64_t part) {
    const uint64_t in_block = (start + local) % a.paged.block_size;
    return reinterpret_cast<const typename Type::Stored*>(
               a.paged.kv + block_of[local] * a.paged.block_bytes + part) +
           (in_block * a.heads.kv_heads + kv_head) * dim;
  };
  float score = -spec::FloatOf(spec::kExponentBits);
  if (sees) {
    const float dot = Chain<Type>(at(threadIdx.x, a.paged.keys), q, dim, dim % 4 == 0, 0.0f);
    score = dot * a.scale;
  }
  const float maximum = BlockMax(score, maxima) + 0.0f;
  p[threadIdx.x] = spec::Exp2(score - maximum);
  __syncthreads();

  const Partials partials = PartialsOf(a, blockIdx.z, head, blockIdx.x);
  if (threadIdx.x < 32) {
    float lane = 0.0f;
    for (uint32_t t = start + threadIdx.x; threadIdx.x < spec::kLanes && t < end;
         t += spec::kLanes) {
      lane = t < begin ? lane : lane + p[t - start];
    }
    lane = Tree16(lane);
    if (threadIdx.x == 0) {
      *partials.maximum = maximum;
      *partials.sum = lane;
    }
  }
  for (uint32_t d = threadIdx.x; d < dim; d += kThreads) {
    float o = 0.0f;
    for (uint32_t t = begin - start; t < end - start; ++t) {
      o = spec::Fma(p[t], Type::Widen(at(t, a.paged.values)[d]), o);
    }
    partials.o[d] = o;
  }
}

// Grid: (query heads, rows); block: 128 threads, an element each. Bound by latency.
__global__ void CombineKernel(Attention a) {
  const uint32_t row = a.first_row + blockIdx.y;
  const uint32_t head = blockIdx.x;
  const uint32_t position = a.paged.positions[row];
  const auto visible = static_cast<uint32_t>(spec::FirstVisible(position, a.window));
  const uint32_t first = visible / spec::kSplit;
  const uint32_t last = position / spec::kSplit;
  const auto partials = [&](uint32_t split) { return PartialsOf(a, blockIdx.y, head, split); };
  float maximum = -spec::FloatOf(spec::kExponentBits);
  for (uint32_t split = first; split <= last; ++split) {
    maximum = fmaxf(maximum, *partials(split).maximum);
  }
  for (uint32_t d = threadIdx.x; d < a.heads.dim; d += blockDim.x) {
    float sum = 0.0f;
    float o = 0.0f;
    for (uint32_t split = first; split <= last; ++split) {
      const Partials part = partials(split);
      const float weight = spec::Exp2(*part.maximum - maximum);
      sum = spec::Fma(weight, *part.sum, sum);
      o = spec::Fma(weight, part.o[d], o);
    }
    a.out[uint64_t{row} * a.out_width + uint64_t{head} * a.heads.dim + d] = o / sum;
  }
}

}  // namespace

cudaError_t Attend(const Attention& a, cudaStream_t stream) {
  const dim3 grid(a.splits, a.heads.q_heads, a.rows);
  switch (a.paged.type) {
    case KvType::kF32: SplitKernel<F32><<<grid, kThreads, 0, stream>>>(a); break;
    case KvType::kF16: SplitKernel<F16><<<grid, kThreads, 0, stream>>>(a); break;
    case KvType::kBf16: SplitKernel<Bf16><<<grid, kThreads, 0, stream>>>(a); break;
  }
  CombineKernel<<<dim3(a.heads.q_heads, a.rows), 128, 0, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace fak::tensor::cuda
