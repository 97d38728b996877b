#pragma once

#include <cstdint>

#include "tensor/spec/scalar.h"

// Rule 9: log, exp, pow, sin and cos in f64, for tables and log probabilities. Made for the host
// and for few values; every step is one IEEE operation, so a device may follow them too.
namespace fak::tensor::spec {

inline constexpr double kLn2 = 0x1.62e42fefa39efp-1;       // ln 2 rounded
inline constexpr double kLn2Rest = 0x1.abc9e3b39803fp-56;  // ln 2 − kLn2, rounded
inline constexpr double kTwoPi = 0x1.921fb54442d18p+2;

// Natural logarithm of a positive, normal, finite x; NaN for anything else.
FAK_HD inline double Log64(double x) {
  const uint64_t bits = BitsOf(x);
  if (bits < 0x0010000000000000u || bits >= 0x7ff0000000000000u) {
    return DoubleOf(0x7ff8000000000000u);
  }
  // x = m · 2^e, m in [1/√2, √2): the subtraction moves the exponent's edge to 1/√2's bits.
  constexpr uint64_t kRootHalf = 0x3fe6a09e667f3bcdu;
  const int64_t e = static_cast<int64_t>(bits - kRootHalf) >> 52;
  const double m = DoubleOf(bits - (static_cast<uint64_t>(e) << 52));
  // log m = 2 atanh(s) = 2s + 2s · z · (1/3 + z/5 + z²/7 ...), z = s².
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 1.0 / 23.0;
  for (int k = 21; k >= 3; k -= 2) {
    p = Fma(p, z, 1.0 / static_cast<double>(k));
  }
  const double twice = s + s;
  const double n = static_cast<double>(e);
  return Fma(n, kLn2, Fma(twice, z * p, Fma(n, kLn2Rest, twice)));
}

// e^x for |x| <= 700; outside: 0 or infinity.
FAK_HD inline double Exp64(double x) {
  if (x != x) {
    return DoubleOf(0x7ff8000000000000u);
  }
  if (x < -700.0) {
    return 0.0;
  }
  if (x > 700.0) {
    return DoubleOf(0x7ff0000000000000u);
  }
  const double t = Fma(x, 0x1.71547652b82fep+0, kMagic64);
  const double n = t - kMagic64;
  const double r = Fma(-n, kLn2Rest, Fma(-n, kLn2, x));
  // 1 + r (1 + r/2 (1 + r/3 ( ... ))): Taylor to r^14, coefficients by division.
  double p = 1.0;
  for (int k = 14; k >= 1; --k) {
    p = Fma(p, r / static_cast<double>(k), 1.0);
  }
  return DoubleOf(BitsOf(p) + (BitsOf(t) << 52));
}

// base^exponent, base > 0.
FAK_HD inline double Pow64(double base, double exponent) {
  return Exp64(exponent * Log64(base));
}

struct SinCos64 {
  double sin;
  double cos;
};

// Both of an angle |x| <= 2^30 in radians.
FAK_HD inline SinCos64 SinCos(double x) {
  constexpr double kHalfPi = 0x1.921fb54442d18p+0;
  constexpr double kHalfPiRest = 0x1.1a62633145c07p-54;     // π/2 − kHalfPi, rounded
  const double t = Fma(x, 0x1.45f306dc9c883p-1, kMagic64);  // · 2/π
  const double n = t - kMagic64;
  const double r = Fma(-n, kHalfPiRest, Fma(-n, kHalfPi, x));
  const double z = r * r;
  // Taylor: sin r = r (1 − z/(2·3) (1 − z/(4·5) ...)), to r^19; cos r = 1 − z/(1·2) (1 − z/(3·4)
  // ...).
  double p = 1.0;
  double q = 1.0;
  for (int k = 18; k >= 2; k -= 2) {
    p = Fma(p, -z / static_cast<double>(k * (k + 1)), 1.0);
    q = Fma(q, -z / static_cast<double>(k * (k - 1)), 1.0);
  }
  const double sine = r * p;
  const uint64_t quadrant = BitsOf(t) & 3u;
  const double s = (quadrant & 1u) != 0 ? q : sine;
  const double c = (quadrant & 1u) != 0 ? sine : q;
  return {(quadrant & 2u) != 0 ? -s : s, quadrant == 1 || quadrant == 2 ? -c : c};
}

}  // namespace fak::tensor::spec
