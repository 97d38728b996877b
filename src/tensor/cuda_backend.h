#pragma once

#include <memory>

#include "base/result.h"
#include "tensor/backend.h"

// The back end for NVIDIA GPUs. It is a library of its own (tensor/cuda), so that one program
// serves machines with and without one.
namespace fak::tensor {

// Loads libfak_cuda.so from the folder of the running program, or what FAK_CUDA_LIBRARY in the
// environment names, and opens the device; the library stays until the process ends. Numerics
// are "portable": the CPU's bits. Errors: kNotFound: no library; kUnsupported: one of another
// build; kUnavailable: no driver, or no such device.
[[nodiscard]] Result<std::unique_ptr<Backend>> LoadCudaBackend(int device);

}  // namespace fak::tensor
