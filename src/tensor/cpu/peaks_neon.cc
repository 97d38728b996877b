// Hot path: it is its own benchmark (`fak bench roofline`).
#include "tensor/cpu/peaks.h"

#ifdef __aarch64__

#include "tensor/cpu/vec_neon.h"

#define FAK_REGISTER "w"

namespace fak::tensor::cpu {
namespace neon {
namespace {

constexpr int kFmaSums = 16;
constexpr int kDotSums = 6;
// Eight products are summed in 16 bits before they are widened: of 4-bit weights and 8-bit
// activations more may be (dot_neon.h), which gains little.
constexpr int kRun = 8;
constexpr uint64_t kDotOps = 32 * kRun;

FAK_VEC void DotStep(I32& sum, I32& w, I32 x) {
  const int8x16_t bytes = vreinterpretq_s8_s32(x.v);
  int16x8_t low = vdupq_n_s16(0);
  int16x8_t high = vdupq_n_s16(0);
  FAK_UNROLL
  for (int i = 0; i < kRun; ++i) {
    __asm__("" : "+w"(w.v));  // else one product would do for all
    const int8x16_t weights = vreinterpretq_s8_s32(w.v);
    low = vmlal_s8(low, vget_low_s8(weights), vget_low_s8(bytes));
    high = vmlal_high_s8(high, weights, bytes);
  }
  sum.v = vaddq_s32(sum.v, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
}

#include "tensor/cpu/peaks.inl"

}  // namespace
}  // namespace neon

constinit const PeakLoops kPeaksNeon = neon::MakePeakLoops();

}  // namespace fak::tensor::cpu

#endif
