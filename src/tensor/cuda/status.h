#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "base/result.h"

namespace fak::tensor::cuda {

// kInternal: the device gave up ("device lost"), which no later call mends.
inline Status CudaStatus(cudaError_t error, const char* call) {
  if (error == cudaSuccess) {
    return {};
  }
  return Fail(Code::kInternal,
              std::string("the GPU failed: ") + cudaGetErrorString(error) + " (" + call + ")");
}

}  // namespace fak::tensor::cuda

// Every launch and API call goes through it; returns from a function of Result or Status.
#define TRY_CUDA(call) TRY(::fak::tensor::cuda::CudaStatus((call), #call))
