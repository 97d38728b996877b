// Hot path: it is its own benchmark (`fak bench roofline`).
#include "tensor/cpu/peaks.h"

#ifdef __x86_64__

#include "tensor/cpu/vec_avx512.h"

#define FAK_REGISTER "v"

namespace fak::tensor::cpu {
namespace avx512 {
namespace {

constexpr int kFmaSums = 16;
constexpr int kDotSums = 16;
constexpr uint64_t kDotOps = 128;

FAK_VEC void DotStep(I32& sum, I32& w, I32 x) {
  sum.v = _mm512_dpbusd_epi32(sum.v, w.v, x.v);
}

#include "tensor/cpu/peaks.inl"

}  // namespace
}  // namespace avx512

constinit const PeakLoops kPeaksAvx512 = avx512::MakePeakLoops();

}  // namespace fak::tensor::cpu

#endif
