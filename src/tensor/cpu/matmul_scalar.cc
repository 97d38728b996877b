// Hot path: bench/micro/matmul_bench.cc.
#include "tensor/cpu/dot_scalar.h"
#include "tensor/cpu/layout.h"
#include "tensor/cpu/matmul_tables.h"

namespace fak::tensor::cpu {
namespace scalar {
#include "tensor/cpu/matmul_kernels.inl"
}  // namespace scalar

constinit const MatmulKernels kMatmulScalar = scalar::MakeKernels("scalar");

}  // namespace fak::tensor::cpu
