#include "tensor/cuda/device.h"

#include <memory>
#include <string>

#include "tensor/cuda/status.h"

namespace fak::tensor::cuda {

Result<std::unique_ptr<Device>> Device::Open(int index) {
  int devices = 0;
  const cudaError_t counted = cudaGetDeviceCount(&devices);
  if (counted == cudaErrorInsufficientDriver || counted == cudaErrorNoDevice) {
    return Fail(Code::kUnavailable, counted == cudaErrorNoDevice
                                        ? "no NVIDIA GPU answers"
                                        : "no NVIDIA driver, or one too old for this build");
  }
  if (counted != cudaSuccess) {
    return Fail(Code::kUnavailable,
                std::string("the NVIDIA driver: ") + cudaGetErrorString(counted));
  }
  if (index < 0 || index >= devices) {
    return Fail(Code::kUnavailable, "no GPU " + std::to_string(index) + ": there " +
                                        (devices == 1 ? "is " : "are ") + std::to_string(devices));
  }
  std::unique_ptr<Device> device(new Device(index));
  TRY_CUDA(cudaSetDevice(index));
  cudaDeviceProp properties;
  TRY_CUDA(cudaGetDeviceProperties(&properties, index));
  device->chip = "sm_" + std::to_string(properties.major) + std::to_string(properties.minor);
  if (properties.major < 8) {
    return Fail(Code::kUnavailable, std::string(properties.name) + " is " + device->chip +
                                        "; kernels need sm_80 or newer");
  }
  TRY(device->OpenStreams());
  TRY_ASSIGN(device->clamped, Arena::Make(sizeof(unsigned long long), "a counter"));
  TRY_CUDA(cudaMemsetAsync(device->clamped.data(), 0, device->clamped.bytes(), device->stream));
  return device;
}

Status Device::OpenStreams() {
  TRY_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  TRY_CUDA(cudaEventCreateWithFlags(&forked_, cudaEventDisableTiming));
  for (size_t i = 0; i < sides.size(); ++i) {
    TRY_CUDA(cudaStreamCreateWithFlags(&sides[i], cudaStreamNonBlocking));
    TRY_CUDA(cudaEventCreateWithFlags(&done_[i], cudaEventDisableTiming));
  }
  return {};
}

Device::~Device() {
  Use();
  if (stream != nullptr) {
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
  }
  for (size_t i = 0; i < sides.size(); ++i) {
    if (sides[i] != nullptr) {
      cudaStreamDestroy(sides[i]);
    }
    if (done_[i] != nullptr) {
      cudaEventDestroy(done_[i]);
    }
  }
  if (forked_ != nullptr) {
    cudaEventDestroy(forked_);
  }
}

Status Device::Fork() {
  TRY_CUDA(cudaEventRecord(forked_, stream));
  for (const cudaStream_t side : sides) {
    TRY_CUDA(cudaStreamWaitEvent(side, forked_));
  }
  return {};
}

Status Device::Join() {
  for (size_t i = 0; i < sides.size(); ++i) {
    TRY_CUDA(cudaEventRecord(done_[i], sides[i]));
    TRY_CUDA(cudaStreamWaitEvent(stream, done_[i]));
  }
  return {};
}

}  // namespace fak::tensor::cuda
