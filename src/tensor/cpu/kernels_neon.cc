// Hot path: bench/micro/attention_bench.cc, bench/micro/sample_bench.cc.
#include "tensor/cpu/kernels_tables.h"

#ifdef __aarch64__

#include "tensor/cpu/vec_neon.h"

namespace fak::tensor::cpu {
namespace neon {
#include "tensor/cpu/kernels.inl"
}  // namespace neon

constinit const Kernels kNeonKernels = neon::MakeKernels(Isa::kNeon);

}  // namespace fak::tensor::cpu

#endif
