#include "tensor/cuda/quants.cuh"
#include "tensor/cuda/rows.h"
#include "tensor/cuda/warp.cuh"
#include "tensor/spec/functions.h"
#include "tensor/spec/quantise.h"
#include "tensor/spec/reduce.h"

namespace fak::tensor::cuda {
namespace {

constexpr uint32_t kThreads = 256;

// The factor 1 / sqrt(mean of squares + eps) of a row. Each of 16 threads has a lane of a chunk;
// one thread adds the chunks. shared: 16 floats a chunk, then 1.
__device__ float NormFactor(const float* x, uint32_t width, float eps, float* shared) {
  const uint32_t chunks = (width + spec::kChunk - 1) / spec::kChunk;
  for (uint32_t task = threadIdx.x; task < chunks * spec::kLanes; task += kThreads) {
    const uint32_t chunk = task / spec::kLanes;
    const uint32_t end = min(width, (chunk + 1) * spec::kChunk);
    float lane = 0.0f;
    for (uint32_t i = chunk * spec::kChunk + task % spec::kLanes; i < end; i += spec::kLanes) {
      lane = spec::Fma(x[i], x[i], lane);
    }
    shared[task] = lane;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0.0f;
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
      total = total + spec::Tree16(shared + chunk * spec::kLanes);
    }
    const float mean = total / static_cast<float>(width);
    shared[chunks * spec::kLanes] = 1.0f / spec::Sqrt(mean + eps);
  }
  __syncthreads();
  return shared[chunks * spec::kLanes];
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

__device__ void QuantiseRow(const float* x, uint32_t width, uint32_t block, int8_t* q,
                            float* scales) {
  for (uint32_t first = threadIdx.x / 32 * block; first < width; first += kThreads / 32 * block) {
    QuantiseBlock(x + first, min(block, width - first), q + first, scales + first / block);
  }
}

// Grid: a row; block: 256 threads; shared: 16 floats a chunk of 512, and 1. Bound by latency: rows
// are short.
__global__ void __launch_bounds__(kThreads) PrepareKernel(Preparation p) {
  extern __shared__ float shared[];
  const uint64_t row = blockIdx.x;
  const float* const x = p.x + (p.maybe_rows == nullptr ? row : p.maybe_rows[row]) * p.width;
  float* const y = p.floats + row * p.width;
  if (p.maybe_weight != nullptr) {
    const float r = NormFactor(x, p.width, p.eps, shared);
    for (uint32_t i = threadIdx.x; i < p.width; i += kThreads) {
      y[i] = (x[i] * r) * p.maybe_weight[i];
    }
  } else {
    for (uint32_t i = threadIdx.x; i < p.width; i += kThreads) {
      y[i] = x[i];
    }
  }
  __syncthreads();
  if ((p.classes >> static_cast<int>(InputClass::kInt8x32) & 1) != 0) {
    QuantiseRow(y, p.width, 32, p.int8x32 + row * p.width,
                p.scales32 + row * ((p.width + 31) / 32));
  }
  if ((p.classes >> static_cast<int>(InputClass::kInt8x256) & 1) != 0) {
    QuantiseRow(y, p.width, 256, p.int8x256 + row * p.width,
                p.scales256 + row * ((p.width + 255) / 256));
  }
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

// Grid: a row; block: 256 threads. Bound by bandwidth.
__global__ void FiniteKernel(const float* x, uint32_t width, const uint32_t* maybe_rows,
                             uint8_t* finite) {
  const uint32_t row = blockIdx.x;
  for (uint32_t i = threadIdx.x; i < width; i += kThreads) {
    if (spec::IsNonFinite(x[uint64_t{row} * width + i])) {
      finite[maybe_rows == nullptr ? row : maybe_rows[row]] = 0;
    }
  }
}

uint32_t Blocks(uint64_t n) {
  return static_cast<uint32_t>((n + kThreads - 1) / kThreads);
}

}  // namespace

cudaError_t Prepare(const Preparation& p, cudaStream_t stream) {
  if (p.rows == 0) {
    return cudaSuccess;
  }
  const uint32_t chunks = (p.width + spec::kChunk - 1) / spec::kChunk;
  const size_t shared = (chunks * spec::kLanes + 1) * sizeof(float);
  PrepareKernel<<<p.rows, kThreads, shared, stream>>>(p);
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
  FiniteKernel<<<rows, kThreads, 0, stream>>>(x, width, maybe_rows, finite);
  return cudaGetLastError();
}

}  // namespace fak::tensor::cuda
