// Hot path: bench/micro/attention_bench.cc, bench/micro/sample_bench.cc.
#include "tensor/cpu/kernels_tables.h"

#ifdef __x86_64__

#include "tensor/cpu/vec_avx2.h"

namespace fak::tensor::cpu {
namespace avx2 {
#include "tensor/cpu/kernels.inl"
}  // namespace avx2

constinit const Kernels kAvx2Kernels = avx2::MakeKernels(Isa::kAvx2);

}  // namespace fak::tensor::cpu

#endif
