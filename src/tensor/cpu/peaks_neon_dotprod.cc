// Hot path: it is its own benchmark (`fak bench roofline`).
#include "tensor/cpu/peaks.h"

#ifdef __aarch64__

#include "tensor/cpu/vec_neon.h"

#define FAK_REGISTER "w"

namespace fak::tensor::cpu {
namespace neon_dotprod {
namespace {

constexpr int kFmaSums = 16;
constexpr int kDotSums = 16;
constexpr uint64_t kDotOps = 32;

FAK_VEC void DotStep(I32& sum, I32& w, I32 x) {
  sum.v = vdotq_s32(sum.v, vreinterpretq_s8_s32(w.v), vreinterpretq_s8_s32(x.v));
}

#include "tensor/cpu/peaks.inl"

}  // namespace
}  // namespace neon_dotprod

constinit const PeakLoops kPeaksNeonDotprod = neon_dotprod::MakePeakLoops();

}  // namespace fak::tensor::cpu

#endif
