// Hot path: bench/micro/attention_bench.cc, bench/micro/sample_bench.cc.
#include "tensor/cpu/kernels_tables.h"

#ifdef __x86_64__

#include "tensor/cpu/vec_avx512.h"

namespace fak::tensor::cpu {
namespace avx512 {
#include "tensor/cpu/kernels.inl"
}  // namespace avx512

constinit const Kernels kAvx512Kernels = avx512::MakeKernels(Isa::kAvx512);

}  // namespace fak::tensor::cpu

#endif
