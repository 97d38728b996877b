// Hot path: bench/micro/matmul_bench.cc.
#include "tensor/cpu/matmul_tables.h"

#ifdef __aarch64__

#include "tensor/cpu/dot_neon.h"
#include "tensor/cpu/layout.h"

namespace fak::tensor::cpu {
namespace neon {
#include "tensor/cpu/matmul_kernels.inl"
}  // namespace neon

constinit const MatmulKernels kMatmulNeon = neon::MakeKernels("neon");

}  // namespace fak::tensor::cpu

#endif
