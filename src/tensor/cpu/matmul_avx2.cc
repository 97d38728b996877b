// Hot path: bench/micro/matmul_bench.cc.
#include "tensor/cpu/matmul_tables.h"

#ifdef __x86_64__

#include "tensor/cpu/dot_avx2.h"
#include "tensor/cpu/layout.h"

namespace fak::tensor::cpu {
namespace avx2 {
#include "tensor/cpu/matmul_kernels.inl"
}  // namespace avx2

constinit const MatmulKernels kMatmulAvx2 = avx2::MakeKernels("avx2");

}  // namespace fak::tensor::cpu

#endif
