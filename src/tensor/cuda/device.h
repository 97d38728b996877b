#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensor/backend.h"
#include "tensor/cuda/kv_memory.h"
#include "tensor/cuda/memory.h"
#include "tensor/cuda/weights.h"

namespace fak::tensor::cuda {

// What the back end owns and its executables use: one GPU, one stream on it, weights, KV memory.
class Device {
 public:
  // Opens it: kUnavailable without a driver or such a device.
  [[nodiscard]] static Result<std::unique_ptr<Device>> Open(int index);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // The runtime's notion of a current device is the calling thread's: every entry begins with it.
  void Use() const { static_cast<void>(cudaSetDevice(index)); }
  // For calls that can't say that the device failed: the next Submit() does.
  void Note(const Status& status) const {
    if (!status && failed) {
      failed = status;
    }
  }
  WeightLoader Loader() { return {memory, uploader, stream}; }

  const Matrix& matrix(MatrixId id) const { return matrices[static_cast<size_t>(id)]; }
  const float* vector(VectorId id) const {
    return id == kNoVector ? nullptr : vectors[static_cast<size_t>(id)];
  }
  const RopeSpec& rope(RopeId id) const { return ropes[static_cast<size_t>(id)]; }

  // Products of one verb run beside each other: the first on `stream`, the others on the sides,
  // which wait for what `stream` has now, until Join() has `stream` wait for them.
  [[nodiscard]] Status Fork();
  [[nodiscard]] Status Join();

  const int index;
  std::string chip;  // "sm_90"
  cudaStream_t stream = nullptr;
  std::array<cudaStream_t, 2> sides{};

  WeightMemory memory;
  Uploader uploader;
  std::vector<Matrix> matrices;
  std::vector<const float*> vectors;
  std::vector<Experts> experts;
  std::vector<RopeSpec> ropes;
  KvMemory kv;
  Arena clamped;  // one count of 64 bits
  mutable Status failed;

 private:
  explicit Device(int device_index) : index(device_index) {}
  [[nodiscard]] Status OpenStreams();

  cudaEvent_t forked_ = nullptr;
  std::array<cudaEvent_t, 2> done_{};
};

}  // namespace fak::tensor::cuda
