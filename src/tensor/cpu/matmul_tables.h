#pragma once

#include "tensor/cpu/matmul.h"

// The tables behind MatmulKernelsFor(): each is defined by the translation unit of its ISA, and
// exists where the machine's architecture has that ISA.
namespace fak::tensor::cpu {

extern const MatmulKernels kMatmulScalar;
extern const MatmulKernels kMatmulAvx2;
extern const MatmulKernels kMatmulAvx512;
extern const MatmulKernels kMatmulNeon;
extern const MatmulKernels kMatmulNeonDotprod;

}  // namespace fak::tensor::cpu
