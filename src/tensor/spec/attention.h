#pragma once

#include <cstdint>

#include "base/limits.h"
#include "tensor/spec/functions.h"
#include "tensor/spec/reduce.h"
#include "tensor/spec/scalar.h"

// Rule 10: attention of one query head over a visible range of absolute positions.
namespace fak::tensor::spec {

inline constexpr int kSplit = 256;  // positions; splits begin at multiples of it
inline constexpr float kLog2E = 1.44269504f;

// 1 / sqrt(n) as every model's scale on q·k has it: n is the head's dim, or what the model says.
FAK_HD inline float InverseSqrt(int64_t n) {
  return 1.0f / Sqrt(static_cast<float>(n));
}

// How a dot product becomes a score in powers of two: outer · tanh(dot · inner), or dot · outer.
struct ScoreScale {
  bool capped = false;
  float inner = 0.0f;
  float outer = 0.0f;
};

FAK_HD inline ScoreScale PlainScore(float scale) {
  return {false, 0.0f, scale * kLog2E};
}

// Scores capped at ±cap before the softmax (gemma 2).
FAK_HD inline ScoreScale CappedScore(float scale, float cap) {
  return {true, scale / cap, cap * kLog2E};
}

FAK_HD inline float Score(float dot, const ScoreScale& scale) {
  return scale.capped ? scale.outer * Tanh(dot * scale.inner) : dot * scale.outer;
}

// First visible position for a query at `position`; the last is the query's own. window 0: all.
FAK_HD inline int64_t FirstVisible(int64_t position, int64_t window) {
  return window == 0 || position < window ? 0 : position - window + 1;
}

struct SplitResult {
  float max;
  float sum;
};

// One split: positions [begin, end) of it, not empty. out[0..dim) gets its unnormalised values.
// key(t, e) and value(t, e) give the stored K and V of position t as f32.
template <class Key, class Value>
FAK_HD inline SplitResult AttendSplit(const float* q, int dim, int64_t begin, int64_t end,
                                      const ScoreScale& scale, const Key& key, const Value& value,
                                      float* out) {
  float p[kSplit];
  float max = -FloatOf(kExponentBits);
  for (int64_t t = begin; t < end; ++t) {
    float dot = 0.0f;
    for (int e = 0; e < dim; ++e) {
      dot = Fma(q[e], key(t, e), dot);
    }
    const float score = Score(dot, scale);
    p[t % kSplit] = score;
    max = score > max ? score : max;
  }
  max = max + 0.0f;  // one zero of two, so that parts can be compared; no result feels it
  float lanes[kLanes] = {};
  for (int e = 0; e < dim; ++e) {
    out[e] = 0.0f;
  }
  for (int64_t t = begin; t < end; ++t) {
    const float weight = Exp2(p[t % kSplit] - max);
    lanes[t % kLanes] = lanes[t % kLanes] + weight;
    for (int e = 0; e < dim; ++e) {
      out[e] = Fma(weight, value(t, e), out[e]);
    }
  }
  return {max, Tree16(lanes)};
}

// Positions [begin, end), not empty, dim <= limits::kHeadDimMax. Splits without a visible position
// are left out. The combination runs over the splits in index order with the maximum of all, so the
// code visits each split twice rather than rescale.
template <class Key, class Value>
FAK_HD inline void Attend(const float* q, int dim, int64_t begin, int64_t end,
                          const ScoreScale& scale, const Key& key, const Value& value, float* out) {
  float part[limits::kHeadDimMax];
  float max = -FloatOf(kExponentBits);
  float sum = 0.0f;
  for (int pass = 0; pass < 2; ++pass) {
    for (int64_t split = begin / kSplit; split * kSplit < end; ++split) {
      const int64_t first = split * kSplit > begin ? split * kSplit : begin;
      const int64_t last = (split + 1) * kSplit < end ? (split + 1) * kSplit : end;
      const SplitResult r = AttendSplit(q, dim, first, last, scale, key, value, part);
      if (pass == 0) {
        max = r.max > max ? r.max : max;
        continue;
      }
      const float weight = Exp2(r.max - max);
      sum = Fma(weight, r.sum, sum);
      for (int e = 0; e < dim; ++e) {
        out[e] = Fma(weight, part[e], split == begin / kSplit ? 0.0f : out[e]);
      }
    }
  }
  for (int e = 0; e < dim; ++e) {
    out[e] = out[e] / sum;
  }
}

}  // namespace fak::tensor::spec
