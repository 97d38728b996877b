#pragma once

#include "tensor/cpu/kernels.h"

// The tables behind KernelsFor(): each is defined by the translation unit of its ISA, and exists
// where the machine's architecture has that ISA.
namespace fak::tensor::cpu {

extern const Kernels kScalarKernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kNeonKernels;

}  // namespace fak::tensor::cpu
