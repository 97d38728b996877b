#include "tensor/cuda/experts.h"

#include "tensor/spec/dot.h"
#include "tensor/spec/router.h"

namespace fak::tensor::cuda {
namespace {

// Grid: (rows / 32); block: 32 threads, a row each, as the specification says it. Bound by latency.
__global__ void RouteKernel(Routing r) {
  const uint32_t row = blockIdx.x * 32 + threadIdx.x;
  if (row >= r.rows) {
    return;
  }
  const float* const logits = r.logits + uint64_t{row} * r.experts;
  int32_t* const ids = r.ids + uint64_t{row} * r.top_k;
  float* const weights = r.weights + uint64_t{row} * r.top_k;
  if (spec::RowIsFinite(logits, r.experts)) {
    spec::Route(logits, r.experts, r.top_k, r.normalise, r.scale, ids, weights);
    return;
  }
  // The row is lost (rule 2); it only has to stay non-finite.
  for (uint32_t rank = 0; rank < r.top_k; ++rank) {
    ids[rank] = static_cast<int32_t>(rank);
    weights[rank] = spec::FloatOf(spec::kQuietNanBits);
  }
}

// Grid: (width / 128, rows); block: 128 threads, an element each. Bound by bandwidth.
__global__ void CombineKernel(const float* outputs, const float* weights, uint32_t top_k,
                              uint32_t width, float* x) {
  const uint32_t i = blockIdx.x * 128 + threadIdx.x;
  const uint64_t row = blockIdx.y;
  if (i >= width) {
    return;
  }
  float sum = 0.0f;
  for (uint32_t rank = 0; rank < top_k; ++rank) {
    const uint64_t choice = row * top_k + rank;
    sum = spec::AddExpert(sum, weights[choice], outputs[choice * width + i]);
  }
  x[row * width + i] = spec::AddResidual(x[row * width + i], sum);
}

}  // namespace

cudaError_t Route(const Routing& routing, cudaStream_t stream) {
  RouteKernel<<<(routing.rows + 31) / 32, 32, 0, stream>>>(routing);
  return cudaGetLastError();
}

cudaError_t CombineExperts(const float* outputs, const float* weights, uint32_t rows,
                           uint32_t top_k, uint32_t width, float* x, cudaStream_t stream) {
  CombineKernel<<<dim3((width + 127) / 128, rows), 128, 0, stream>>>(outputs, weights, top_k, width,
                                                                     x);
  return cudaGetLastError();
}

}  // namespace fak::tensor::cuda
