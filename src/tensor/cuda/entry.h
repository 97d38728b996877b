#pragma once

#include <memory>

#include "base/result.h"
#include "tensor/backend.h"

// How libfak_cuda.so is entered: one C symbol. All else passes as C++ objects, which is sound only
// between a program and a library of one build, so the program first says which it is.
namespace fak::tensor::cuda {

inline constexpr char kOpenSymbol[] = "fak_cuda_open";

// False, and nothing done, unless `abi` is the library's own FAK_CUDA_ABI. Else `opened` is set, to
// the back end or an error (kUnavailable: no driver, no such device).
using OpenFunction = bool(const char* abi, int device, Result<std::unique_ptr<Backend>>* opened);

}  // namespace fak::tensor::cuda
