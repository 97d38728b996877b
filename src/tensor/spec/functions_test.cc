#include "tensor/spec/functions.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tensor/spec/functions64.h"

namespace fak::tensor::spec {
namespace {

// Distance in units of the last place of the exact value, in a type of `digits` bits.
long double Ulps(long double got, long double exact, int digits) {
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::fabs(got - exact) / std::ldexp(1.0L, exponent - digits);
}

// Every 2^11th float between two values of one sign.
template <class Function, class Exact>
long double WorstUlps(float from, float to, Function function, Exact exact) {
  long double worst = 0;
  const uint32_t last = std::max(BitsOf(from), BitsOf(to));
  for (uint32_t bits = std::min(BitsOf(from), BitsOf(to)); bits <= last; bits += 2039) {
    const float x = FloatOf(bits);
    worst = std::max(worst, Ulps(function(x), exact(static_cast<long double>(x)), 24));
  }
  return worst;
}

long double SiluExact(long double x) {
  return x / (1.0L + std::exp(-x));
}
long double GeluExact(long double x) {
  const long double root = 0.79788456080286535587989211986876L;  // √(2/π)
  return x / (1.0L + std::exp(-2.0L * root * (x + 0.044715L * x * x * x)));
}
constexpr auto kExp = [](long double x) { return std::exp(x); };
constexpr auto kExp2 = [](long double x) { return std::exp2(x); };
constexpr auto kTanh = [](long double x) { return std::tanh(x); };

TEST(SpecFunctions, StayWithinTheStatedErrors) {
  EXPECT_LE(WorstUlps(1e-30f, 127.9f, Exp2, kExp2), 0.94L);
  EXPECT_LE(WorstUlps(-1e-30f, -125.0f, Exp2, kExp2), 0.94L);
  EXPECT_LE(WorstUlps(1e-30f, 88.7f, Exp, kExp), 1.08L);
  EXPECT_LE(WorstUlps(-1e-30f, -86.4f, Exp, kExp), 1.08L);
  EXPECT_LE(WorstUlps(1e-30f, 20.0f, Tanh, kTanh), 1.34L);
  EXPECT_LE(WorstUlps(-1e-30f, -20.0f, Tanh, kTanh), 1.34L);
  EXPECT_LE(WorstUlps(1e-30f, 80.0f, Silu, SiluExact), 2.2L);
  EXPECT_LE(WorstUlps(-1e-30f, -80.0f, Silu, SiluExact), 2.2L);
}

TEST(SpecFunctions, GeluStaysWithinTwoMillionths) {
  for (float x = -3.0f; x < 20.0f; x += 1.0f / 4096) {
    const long double exact = GeluExact(x);
    EXPECT_LE(std::fabs(GeluTanh(x) - exact), 2e-6L * std::fabs(exact)) << x;
  }
}

TEST(SpecFunctions, EndsAreZeroAndInfinity) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(BitsOf(Exp(-infinity)), 0u);
  EXPECT_EQ(Exp(infinity), infinity);
  EXPECT_EQ(BitsOf(Exp2(-infinity)), 0u);
  EXPECT_EQ(Exp2(infinity), infinity);
  EXPECT_EQ(Tanh(infinity), 1.0f);
  EXPECT_EQ(Tanh(-infinity), -1.0f);
  EXPECT_EQ(Exp(0.0f), 1.0f);
  EXPECT_EQ(Exp2(-125.0f), 0x1p-125f);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(Exp(nan)) && std::isnan(Exp2(nan)) && std::isnan(Tanh(nan)));
}

// splitmix64's step: an even spread of the doubles.
double Spread(uint64_t i, double from, double to) {
  const double unit = static_cast<double>((i * 0x9e3779b97f4a7c15u) >> 11) * 0x1p-53;
  return from + unit * (to - from);
}

TEST(SpecFunctions64, LogIsWithinTwoUlps) {
  long double worst = 0;
  for (uint64_t i = 1; i < 200000; ++i) {
    for (const double x : {Spread(i, 0.5, 2.0), Spread(i, 0.0, 1e6), Spread(i, 0.0, 0x1p62)}) {
      worst = std::max(worst, Ulps(Log64(x), std::log(static_cast<long double>(x)), 53));
    }
  }
  EXPECT_LE(worst, 2.0L);
  EXPECT_EQ(Log64(1.0), 0.0);
  for (const double x : {0.0, -1.0, 0x1p-1040, std::numeric_limits<double>::infinity()}) {
    EXPECT_TRUE(std::isnan(Log64(x))) << x;
  }
}

TEST(SpecFunctions64, ExpIsWithinOneAndAHalfUlps) {
  long double worst = 0;
  for (uint64_t i = 1; i < 200000; ++i) {
    for (const double x : {Spread(i, -1.0, 1.0), Spread(i, -700.0, 700.0)}) {
      worst = std::max(worst, Ulps(Exp64(x), std::exp(static_cast<long double>(x)), 53));
    }
  }
  EXPECT_LE(worst, 1.5L);
}

// Frequencies are base^-x, x in [0, 1): what long contexts multiply by their positions.
TEST(SpecFunctions64, PowIsGoodTo14Digits) {
  for (uint64_t i = 1; i < 20000; ++i) {
    const double base = Spread(i, 2.0, 1e8);
    const double exponent = -Spread(i * 7, 0.0, 1.0);
    const long double exact = std::pow(static_cast<long double>(base), exponent);
    ASSERT_LE(std::fabs(Pow64(base, exponent) - exact), 4e-15L * exact) << base << ' ' << exponent;
  }
}

TEST(SpecFunctions64, SinAndCosAreGoodTo16Digits) {
  for (uint64_t i = 1; i < 200000; ++i) {
    for (const double x :
         {Spread(i, -4.0, 4.0), Spread(i, -1e4, 1e4), Spread(i, -0x1p30, 0x1p30)}) {
      const SinCos64 got = SinCos(x);
      ASSERT_LE(std::fabs(got.sin - std::sin(static_cast<long double>(x))), 2.5e-16L) << x;
      ASSERT_LE(std::fabs(got.cos - std::cos(static_cast<long double>(x))), 2.5e-16L) << x;
    }
  }
}

}  // namespace
}  // namespace fak::tensor::spec
