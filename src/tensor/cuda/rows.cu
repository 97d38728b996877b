#include "tensor/cuda/quants.cuh"
#include "tensor/cuda/rows.h"
#include "tensor/cuda/warp.cuh"
#include "tensor/spec/functions.h"
#include "tensor/spec/quantise.h"
#include "tensor/spec/reduce.h"

namespace fak::tensor::cuda {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kSlice = 2048;  // of a row, for one block; whole blocks of all classes

// The factor 1 / sqrt(mean of squares + eps) of a row in shared memory. A half warp has the lanes
// of a chunk; one thread adds the chunks. sums: a float a chunk, and 1.
__device__ float NormFactor(const float* x, uint32_t width, float eps, float* sums) {
  const uint32_t chunks = (width + spec::kChunk - 1) / spec::kChunk;
  const uint32_t lane = threadIdx.x % spec::kLanes;
  for (uint32_t first = threadIdx.x / 32 * 2; first < chunks; first += kThreads / 32 * 2) {
    const uint32_t chunk = first + threadIdx.x % 32 / spec::kLanes;
    const uint32_t end = min(width, (chunk + 1) * spec::kChunk);
    float sum = 0.0f;
    for (uint32_t i = chunk * spec::kChunk + lane; i < end; i += spec::kLanes) {
      sum = spec::Fma(x[i], x[i], sum);
    }
    sum = Tree16(sum);
    if (lane == 0 && chunk < chunks) {
      sums[chunk] = sum;
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0.0f;
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
      total = total + sums[chunk];
    }
    const float mean = total / static_cast<float>(width);
    sums[chunks] = 1.0f / spec::Sqrt(mean + eps);
  }
  __syncthreads();
  return sums[chunks];
}

// Rule 4 of one block by one warp. The maximum of bits is the same in any order.
__device__ void QuantiseBlock(const float* x, uint32_t n, int8_t* q, float* scale) {
  const uint32_t lane = threadIdx.x % 32;
  uint32_t amax_bits = 0;
  for (uint32_t i = lane; i < n; i += 32) {
    amax_bits = max(amax_bits, spec::MagnitudeBits(x[i]));
  }
  amax_bits = WarpMax(amax_bits);
  const bool tiny = amax_bits < 0x0d800000u;
  const bool usable = !tiny && amax_bits < spec::kExponentBits;
  const float amax = spec::FloatOf(amax_bits);
  const float inverse = 127.0f / amax;
  for (uint32_t i = lane; i < n; i += 32) {
    q[i] = usable ? static_cast<int8_t>(spec::BitsOf(spec::Fma(x[i], inverse, spec::kMagic)) & 0xff)
                  : int8_t{0};
  }
  if (lane == 0) {
    *scale = usable ? amax / 127.0f : tiny ? 0.0f : spec::FloatOf(spec::kQuietNanBits);
  }
}

// Elements [first, end) of a row, which begin at y; a warp a block.
__device__ void QuantiseSlice(const float* y, uint32_t first, uint32_t end, uint32_t block,
                              int8_t* q, float* scales) {
  for (uint32_t at = first + threadIdx.x / 32 * block; at < end; at += kThreads / 32 * block) {
    QuantiseBlock(y + (at - first), min(block, end - at), q + at, scales + at / block);
  }
}

__device__ void QuantiseClasses(const Preparation& p, const float* y, uint32_t first,
                                uint32_t end) {
  const uint64_t row = blockIdx.x;
  if ((p.classes >> static_cast<int>(InputClass::kInt8x32) & 1) != 0) {
    QuantiseSlice(y, first, end, 32, p.int8x32 + row * p.width,
                  p.scales32 + row * ((p.width + 31) / 32));
  }
  if ((p.classes >> static_cast<int>(InputClass::kInt8x256) & 1) != 0) {
    QuantiseSlice(y, first, end, 256, p.int8x256 + row * p.width,
                  p.scales256 + row * ((p.width + 255) / 256));
  }
}

__device__ const float* SourceRow(const Preparation& p) {
  const uint64_t row = p.maybe_rows == nullptr ? blockIdx.x : p.maybe_rows[blockIdx.x];
  return p.x + row * p.width;
}

// Grid: a row; block: 256 threads; shared: the row, a float a chunk of 512, and 1. Bound by
// latency: rows are short.
__global__ void __launch_bounds__(kThreads) NormKernel(Preparation p) {
  extern __shared__ float shared[];
  const float* const x = SourceRow(p);
  for (uint32_t i = threadIdx.x; i < p.width; i += kThreads) {
    shared[i] = x[i];
  }
  __syncthreads();
  const float r = NormFactor(shared, p.width, p.eps, shared + p.width);
  float* const y = p.floats + uint64_t{blockIdx.x} * p.width;
  for (uint32_t i = threadIdx.x; i < p.width; i += kThreads) {
    shared[i] = (shared[i] * r) * p.maybe_weight[i];
    y[i] = shared[i];
  }
  __syncthreads();
  QuantiseClasses(p, shared, 0, p.width);
}

// Grid: (a row, slices of 2048 elements); block: 256 threads. Bound by latency for few rows.
__global__ void __launch_bounds__(kThreads) PlainKernel(Preparation p) {
  const uint32_t first = blockIdx.y * kSlice;
  const uint32_t end = min(p.width, first + kSlice);
  const float* const x = SourceRow(p);
  float* const y = p.floats + uint64_t{blockIdx.x} * p.width;
  for (uint32_t i = first + threadIdx.x; i < end; i += kThreads) {
    y[i] = x[i];
  }
  QuantiseClasses(p, x + first, first, end);
}

// Grid: (values / 256); block: 256 threads, a value each. Bound by bandwidth.
__global__ void GateKernel(Activation activation, const float* gate, const float* up, uint64_t n,
                           float* out) {
  const uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) {
    out[i] = activation == Activation::kSilu ? spec::SiluGate(gate[i], up[i])
                                             : spec::GeluGate(gate[i], up[i]);
  }
}

// As GateKernel.
__global__ void AddKernel(const float* y, uint64_t n, float* x) {
  const uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) {
    x[i] = spec::AddResidual(x[i], y[i]);
  }
}

// Grid: (a row, slices of 2048 elements); block: 256 threads. Bound by bandwidth.
__global__ void FiniteKernel(const float* x, uint32_t width, const uint32_t* maybe_rows,
                             uint8_t* finite) {
  const uint32_t row = blockIdx.x;
  const uint32_t end = min(width, (blockIdx.y + 1) * kSlice);
  for (uint32_t i = blockIdx.y * kSlice + threadIdx.x; i < end; i += kThreads) {
    if (spec::IsNonFinite(x[uint64_t{row} * width + i])) {
      finite[maybe_rows == nullptr ? row : maybe_rows[row]] = 0;
    }
  }
}

uint32_t Slices(uint32_t width) {
  return (width + kSlice - 1) / kSlice;
}

uint32_t Blocks(uint64_t n) {
  return static_cast<uint32_t>((n + kThreads - 1) / kThreads);
}

}  // namespace

cudaError_t Prepare(const Preparation& p, cudaStream_t stream) {
  if (p.rows == 0) {
    return cudaSuccess;
  }
  if (p.maybe_weight == nullptr) {
    PlainKernel<<<dim3(p.rows, Slices(p.width)), kThreads, 0, stream>>>(p);
    return cudaGetLastError();
  }
  const uint32_t chunks = (p.width + spec::kChunk - 1) / spec::kChunk;
  const size_t shared = (p.width + chunks + 1) * sizeof(float);
  constexpr size_t kSharedOfAll = 48 * 1024;  // more is to be asked for
  if (shared > kSharedOfAll) {
    const cudaError_t granted = cudaFuncSetAttribute(
        NormKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
    if (granted != cudaSuccess) {
      return granted;
    }
  }
  NormKernel<<<p.rows, kThreads, shared, stream>>>(p);
  return cudaGetLastError();
}

cudaError_t Gate(Activation activation, const float* gate, const float* up, uint64_t n, float* out,
                 cudaStream_t stream) {
  GateKernel<<<Blocks(n), kThreads, 0, stream>>>(activation, gate, up, n, out);
  return cudaGetLastError();
}

cudaError_t Add(const float* y, uint64_t n, float* x, cudaStream_t stream) {
  AddKernel<<<Blocks(n), kThreads, 0, stream>>>(y, n, x);
  return cudaGetLastError();
}

cudaError_t TestFinite(const float* x, uint32_t width, uint32_t rows, const uint32_t* maybe_rows,
                       uint8_t* finite, cudaStream_t stream) {
  if (rows == 0) {
    return cudaSuccess;
  }
  FiniteKernel<<<dim3(rows, Slices(width)), kThreads, 0, stream>>>(x, width, maybe_rows, finite);
  return cudaGetLastError();
}

}  // namespace fak::tensor::cuda
