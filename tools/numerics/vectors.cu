// The same as vectors.cc with every item of a case in a GPU thread.
// usage: vectors_gpu [GOLDEN FILE]
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

#include "cases.h"
#include "golden.h"

namespace fak::vectors {
namespace {

void Must(cudaError_t status) {
  if (status != cudaSuccess) {
    fprintf(stderr, "vectors: %s\n", cudaGetErrorString(status));
    exit(2);
  }
}

template <class Case>
__global__ void RunItems(unsigned long long* digest) {
  const int item = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (item < Case::kItems) {
    Sink out(static_cast<uint64_t>(item));
    Case::Run(item, out);
    atomicAdd(digest, static_cast<unsigned long long>(out.sum()));  // integers: any order
  }
}

struct RunOnDevice {
  std::vector<Digest> digests;
  unsigned long long* digest = nullptr;

  template <class Case>
  void Do() {
    constexpr int kThreads = 32;
    Must(cudaMemset(digest, 0, sizeof *digest));
    RunItems<Case><<<(Case::kItems + kThreads - 1) / kThreads, kThreads>>>(digest);
    Must(cudaGetLastError());
    unsigned long long sum = 0;
    Must(cudaMemcpy(&sum, digest, sizeof sum, cudaMemcpyDeviceToHost));
    digests.push_back({NameOf<Case>(), Case::kItems, sum});
  }
};

}  // namespace
}  // namespace fak::vectors

int main(int argc, char** argv) {
  cudaDeviceProp device{};
  fak::vectors::Must(cudaGetDeviceProperties(&device, 0));
  fprintf(stderr, "vectors: on %s (sm_%d%d)\n", device.name, device.major, device.minor);
  fak::vectors::RunOnDevice gpu;
  fak::vectors::Must(cudaMalloc(&gpu.digest, sizeof *gpu.digest));
  fak::vectors::VisitAll(gpu);
  fak::vectors::Must(cudaFree(gpu.digest));
  return fak::vectors::Report(gpu.digests, argc > 1 ? argv[1] : nullptr);
}
