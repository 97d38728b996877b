#include "tensor/cpu/kernels.h"

#include "base/result.h"
#include "tensor/cpu/kernels_tables.h"

namespace fak::tensor::cpu {

const Kernels& KernelsFor(Isa isa) {
  switch (isa) {
#ifdef __x86_64__
    case Isa::kAvx2: return kAvx2Kernels;
    case Isa::kAvx512: return kAvx512Kernels;
#endif
#ifdef __aarch64__
    case Isa::kNeon: return kNeonKernels;
#endif
    default: CHECK(isa == Isa::kScalar) << "no kernels for " << IsaName(isa); return kScalarKernels;
  }
}

}  // namespace fak::tensor::cpu
