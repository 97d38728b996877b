#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/kv_memory.h"
#include "tensor/cpu/matmul.h"
#include "tensor/cpu/weights.h"
#include "tensor/cpu_backend.h"

namespace fak::tensor::cpu {

// What the back end owns and its executables use: threads, kernels, weights and KV memory.
struct Device {
  Device(Isa isa, int threads, bool wrong_order_wanted)
      : pool(threads),
        kernels(KernelsFor(isa)),
        matmul(MatmulKernelsFor(isa)),
        wrong_order(wrong_order_wanted) {}

  const Matrix& matrix(MatrixId id) const { return matrices[static_cast<size_t>(id)]; }
  const std::vector<float>& vector(VectorId id) const { return vectors[static_cast<size_t>(id)]; }
  const RopeSpec& rope(RopeId id) const { return ropes[static_cast<size_t>(id)]; }

  ThreadPool pool;
  const Kernels& kernels;
  const MatmulKernels& matmul;
  const bool wrong_order;  // CpuOptions

  WeightMemory memory;
  std::vector<Matrix> matrices;
  std::vector<std::vector<float>> vectors;
  std::vector<Experts> experts;
  std::vector<RopeSpec> ropes;
  KvMemory kv;
  std::atomic<uint64_t> kv_values_clamped = 0;
};

}  // namespace fak::tensor::cpu
