// Hot path: it is its own benchmark (`fak bench roofline`). What the specification's own loops
// could reach at most: the compiler's vectors, and an fma that is a call where the baseline of the
// architecture has none.
#include "tensor/cpu/dot_scalar.h"
#include "tensor/cpu/peaks.h"

#if defined(__x86_64__)
#define FAK_REGISTER "x"
#elif defined(__aarch64__)
#define FAK_REGISTER "w"
#else
#define FAK_REGISTER "m"
#endif

namespace fak::tensor::cpu {
namespace scalar {
namespace {

constexpr int kFmaSums = 4;
constexpr int kDotSums = 4;
constexpr int kRun = 8;  // groups of four products whose sums fit 16 bits (dot_scalar.h)
constexpr uint64_t kDotOps = 32 * kRun;

FAK_VEC void DotStep(I32& sum, I32& w, I32 x) {
  Bytes weights[kRun];
  int8_t activations[4 * kRun];
  FAK_UNROLL
  for (int i = 0; i < kRun; ++i) {
    __asm__("" : "+" FAK_REGISTER(w.v));  // else one product would do for all
    __builtin_memcpy(&weights[i].v, &w.v, sizeof weights[i].v);
    __builtin_memcpy(activations + 4 * i, &x.v, 4);
  }
  sum = Dot<kRun, 15>(weights, activations, sum);
}

#include "tensor/cpu/peaks.inl"

}  // namespace
}  // namespace scalar

constinit const PeakLoops kPeaksScalar = scalar::MakePeakLoops();

}  // namespace fak::tensor::cpu
