// Hot path: bench/micro/matmul_bench.cc.
#include "tensor/cpu/matmul_tables.h"

#ifdef __x86_64__

#include "tensor/cpu/dot_avx512.h"
#include "tensor/cpu/layout.h"

namespace fak::tensor::cpu {
namespace avx512 {
#include "tensor/cpu/matmul_kernels.inl"
}  // namespace avx512

constinit const MatmulKernels kMatmulAvx512 = avx512::MakeKernels("avx512");

}  // namespace fak::tensor::cpu

#endif
