#include "tensor/cpu/matmul.h"

#include "base/result.h"
#include "tensor/cpu/matmul_tables.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace fak::tensor::cpu {
namespace {

#ifdef __aarch64__
bool HasDotProducts() {
#if defined(__linux__)
  constexpr unsigned long kAsimdDp = 1ul << 20;  // HWCAP_ASIMDDP
  return (getauxval(AT_HWCAP) & kAsimdDp) != 0;
#else
  return true;  // Apple's since 2020
#endif
}
#endif

}  // namespace

const MatmulKernels& MatmulKernelsFor(Isa isa) {
  switch (isa) {
#ifdef __x86_64__
    case Isa::kAvx2: return kMatmulAvx2;
    case Isa::kAvx512: return kMatmulAvx512;
#endif
#ifdef __aarch64__
    case Isa::kNeon: return HasDotProducts() ? kMatmulNeonDotprod : kMatmulNeon;
#endif
    default: CHECK(isa == Isa::kScalar) << "no kernels for " << IsaName(isa); return kMatmulScalar;
  }
}

std::string MatmulName(DType type, Isa isa) {
  std::string name(DTypeName(type));
  for (char& c : name) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return name.append(" ").append(MatmulKernelsFor(isa).isa);
}

}  // namespace fak::tensor::cpu
