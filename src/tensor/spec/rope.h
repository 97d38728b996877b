#pragma once

#include <cstdint>

#include "tensor/spec/functions64.h"
#include "tensor/spec/scalar.h"

// Rule 9: rotary positions. Frequencies and tables are computed in f64 on the host; devices get the
// f32 tables.
namespace fak::tensor::spec {

struct RopeScaling {
  int dims = 0;         // rotated dims of a head, even
  double base = 1e4;    // > 1
  double factor = 1.0;  // > 0; linear and yarn: how far the context was stretched
  bool yarn = false;
  double yarn_ext = 1.0;        // share of yarn's mix, 0 to 1
  double yarn_attention = 1.0;  // on the magnitude
  double yarn_beta_fast = 32.0;
  double yarn_beta_slow = 1.0;
  double original_context = 0.0;  // yarn: positions the model was first trained for, > 0
};

FAK_HD inline double Clamp64(double x, double low, double high) {
  return x < low ? low : x > high ? high : x;
}

// Largest integer <= x, for |x| < 2^31.
FAK_HD inline double Floor64(double x) {
  const double whole = static_cast<double>(static_cast<int64_t>(x));
  return whole > x ? whole - 1.0 : whole;
}

// The (fractional) pair whose wave turns `turns` times in the original context, held in [-1, dims].
FAK_HD inline double YarnPair(const RopeScaling& rope, double turns) {
  const double dims = static_cast<double>(rope.dims);
  const double pair =
      dims * Log64(rope.original_context / (turns * kTwoPi)) / (2.0 * Log64(rope.base));
  return Clamp64(pair, -1.0, dims);
}

// Radians a position for pair i < dims / 2. divisor: the pair's own factor from the model file
// (llama 3: tensor rope_freqs), 1 without.
FAK_HD inline double RopeFrequency(const RopeScaling& rope, int i, double divisor) {
  const double dims = static_cast<double>(rope.dims);
  const double plain = Pow64(rope.base, -(2.0 * static_cast<double>(i)) / dims) / divisor;
  const double stretched = plain / rope.factor;
  if (!rope.yarn) {
    return stretched;
  }
  const double low = Clamp64(Floor64(YarnPair(rope, rope.yarn_beta_fast)), 0.0, dims);
  const double high = Clamp64(-Floor64(-YarnPair(rope, rope.yarn_beta_slow)), -1.0, dims - 1.0);
  const double width = Clamp64(high - low, 0.001, dims);
  const double ramp = 1.0 - Clamp64((static_cast<double>(i) - low) / width, 0.0, 1.0);
  const double mix = ramp * rope.yarn_ext;
  return Fma(plain, mix, stretched * (1.0 - mix));
}

// On cos and sin: yarn's correction of the logits' temperature, else 1.
FAK_HD inline double RopeMagnitude(const RopeScaling& rope) {
  if (!rope.yarn) {
    return 1.0;
  }
  if (rope.factor <= 1.0) {
    return rope.yarn_attention;
  }
  return rope.yarn_attention * Fma(0.1, Log64(rope.factor), 1.0);
}

struct RopeEntry {
  float cos;
  float sin;
};

// The table's entry for one position and pair: one rounding to f32 at the end.
FAK_HD inline RopeEntry RopeTableEntry(int64_t position, double frequency, double magnitude) {
  const SinCos64 angle = SinCos(static_cast<double>(position) * frequency);
  return {static_cast<float>(angle.cos * magnitude), static_cast<float>(angle.sin * magnitude)};
}

// Rotates the first dims values of one head in place; the rest pass. table: dims / 2 entries of the
// head's position. adjacent: pairs (2i, 2i + 1); else (i, i + dims / 2).
FAK_HD inline void Rotate(float* head, int dims, bool adjacent, const RopeEntry* table) {
  for (int i = 0; i < dims / 2; ++i) {
    const int first = adjacent ? 2 * i : i;
    const int second = adjacent ? 2 * i + 1 : i + dims / 2;
    const float x = head[first];
    const float y = head[second];
    const float c = table[i].cos;
    const float s = table[i].sin;
    head[first] = Fma(x, c, -(y * s));
    head[second] = Fma(x, s, y * c);
  }
}

}  // namespace fak::tensor::spec
