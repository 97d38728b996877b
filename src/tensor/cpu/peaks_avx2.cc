// Hot path: it is its own benchmark (`fak bench roofline`).
#include "tensor/cpu/peaks.h"

#ifdef __x86_64__

#include "tensor/cpu/vec_avx2.h"

#define FAK_REGISTER "x"

namespace fak::tensor::cpu {
namespace avx2 {
namespace {

constexpr int kFmaSums = 12;
constexpr int kDotSums = 6;
// Eight products are summed in 16 bits before they are widened: as many as those of 4-bit weights
// and 8-bit activations may be (dot_avx2.h).
constexpr int kRun = 8;
constexpr uint64_t kDotOps = 64 * kRun;

FAK_VEC void DotStep(I32& sum, I32& w, I32 x) {
  __m256i pairs = _mm256_maddubs_epi16(w.v, x.v);
  FAK_UNROLL
  for (int i = 1; i < kRun; ++i) {
    __asm__("" : "+x"(w.v));  // else one product would do for all
    pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(w.v, x.v));
  }
  __asm__("" : "+x"(w.v));
  sum.v = _mm256_add_epi32(sum.v, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

#include "tensor/cpu/peaks.inl"

}  // namespace
}  // namespace avx2

constinit const PeakLoops kPeaksAvx2 = avx2::MakePeakLoops();

}  // namespace fak::tensor::cpu

#endif
