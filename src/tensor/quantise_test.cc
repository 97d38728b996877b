#include "tensor/quantise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tensor/blocks.h"
#include "tensor/pack_blocks.h"
#include "tensor/spec/dequantise.h"
#include "tensor/spec/dot.h"
#include "tensor/spec/random.h"

namespace fak::tensor {
namespace {

// Uniform in (-0.5, 0.5), a function of its index.
float Uniform(uint64_t index) {
  const uint64_t bits = spec::SampleBits(7, 0, index);
  return static_cast<float>(bits >> 40) * 0x1p-24f - 0.5f;
}

// Near normal with deviation 0.02, as weights are.
std::vector<float> Weights(size_t count) {
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) {
    float sum = 0.0f;
    for (uint64_t k = 0; k < 4; ++k) {
      sum += Uniform(4 * i + k);
    }
    x[i] = 0.02f * 1.7320508f * sum;
  }
  return x;
}

std::vector<std::byte> Quantised(DType type, const std::vector<float>& x) {
  std::vector<std::byte> bytes(static_cast<size_t>(RowBytes(type, static_cast<int64_t>(x.size()))));
  QuantiseRow(type, x, bytes);
  return bytes;
}

std::vector<float> RoundTrip(DType type, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  spec::DequantiseRow(type, Quantised(type, x).data(), static_cast<int64_t>(x.size()), y.data());
  return y;
}

double RelativeError(const std::vector<float>& x, const std::vector<float>& y) {
  double error = 0.0;
  double power = 0.0;
  for (size_t i = 0; i < x.size(); ++i) {
    error += (double{x[i]} - double{y[i]}) * (double{x[i]} - double{y[i]});
    power += double{x[i]} * double{x[i]};
  }
  return std::sqrt(error / power);
}

struct TypeCase {
  DType type;
  double error_max;  // relative root mean square on near normal values
};

class QuantiseRowOf : public testing::TestWithParam<TypeCase> {};

// The bounds are a few percent above what the quantisers reach; half a step of plain rounding
// misses them.
INSTANTIATE_TEST_SUITE_P(
    Types, QuantiseRowOf,
    testing::Values(TypeCase{DType::kF32, 0.0}, TypeCase{DType::kF16, 0.00022},
                    TypeCase{DType::kBf16, 0.0018}, TypeCase{DType::kQ4_0, 0.084},
                    TypeCase{DType::kQ4_1, 0.074}, TypeCase{DType::kQ5_0, 0.042},
                    TypeCase{DType::kQ5_1, 0.037}, TypeCase{DType::kQ8_0, 0.0053},
                    TypeCase{DType::kQ2K, 0.28}, TypeCase{DType::kQ3K, 0.15},
                    TypeCase{DType::kQ4K, 0.075}, TypeCase{DType::kQ5K, 0.038},
                    TypeCase{DType::kQ6K, 0.0175}, TypeCase{DType::kIq4Nl, 0.077},
                    TypeCase{DType::kIq4Xs, 0.078}),
    [](const auto& param) { return std::string(DTypeName(param.param.type)); });

TEST_P(QuantiseRowOf, StaysInsideTheErrorBoundOfTheType) {
  const std::vector<float> x = Weights(size_t{256} * 64);
  const double error = RelativeError(x, RoundTrip(GetParam().type, x));
  EXPECT_LE(error, GetParam().error_max);
  EXPECT_GE(error, 0.8 * GetParam().error_max) << "the bound has become loose";
}

TEST_P(QuantiseRowOf, KeepsZerosAndTakesConstantRows) {
  for (const float constant : {0.0f, 0.25f, -0.75f, 1e-9f, -1e-30f, 20000.0f}) {
    const std::vector<float> x(512, constant);
    for (const float y : RoundTrip(GetParam().type, x)) {
      ASSERT_TRUE(std::isfinite(y));
      if (constant == 0.0f) {
        ASSERT_EQ(y, 0.0f);
      } else if (std::fabs(constant) > 1e-3f) {
        // A minimum can't be above 0 in the types with blocks of 256; rounding d to f16 costs the
        // rest.
        ASSERT_NEAR(y, constant, 0.04f * std::fabs(constant)) << constant;
      }
    }
  }
}

TEST_P(QuantiseRowOf, IsFiniteForOutliersAndValuesBeyondTheScalesRange) {
  std::vector<float> x = Weights(512);
  x[3] = 1e4f;
  x[300] = -3e4f;
  for (const float y : RoundTrip(GetParam().type, x)) {
    ASSERT_TRUE(std::isfinite(y));
  }
}

// FNV-1a of the stored bytes. A change means that tiny models change, and with them every golden
// digest made from one.
TEST(QuantiseRow, GivesTheSameBytesOnEveryMachine) {
  uint64_t digest = 14695981039346656037u;
  const std::vector<float> x = Weights(2048);
  for (const DTypeInfo& info : AllDTypes()) {
    if (info.support == DTypeSupport::kComputed) {
      for (const std::byte b : Quantised(info.type, x)) {
        digest = (digest ^ std::to_integer<uint64_t>(b)) * 1099511628211u;
      }
    }
  }
  EXPECT_EQ(digest, 17911038477791169504u);
}

// A code in [low, high], a function of its index.
int Drawn(uint64_t index, int low, int high) {
  const auto width = static_cast<uint64_t>(high - low + 1);
  return low + static_cast<int>(spec::SampleBits(11, 0, index) % width);
}

template <class Block, class Weights, class Check>
void ExpectUnpackInvertsPack(const Weights& in, Check same) {
  Block block;
  Pack(in, block);
  Weights out = {};
  spec::Unpack(block, out);
  EXPECT_EQ(out.d, in.d);
  EXPECT_TRUE(std::equal(std::begin(in.w), std::end(in.w), std::begin(out.w)));
  same(in, out);
}

template <class Block>
void TryPack32(int low, int high, bool book) {
  SCOPED_TRACE(DTypeName(Block::kType));
  spec::Weights32 in = {};
  in.d = 0.375f;
  in.m = spec::HasMinimum(Block::kType) ? -1.5f : 0.0f;
  for (int i = 0; i < 32; ++i) {
    const int drawn = Drawn(static_cast<uint64_t>(i), low, high);
    in.w[i] = book ? spec::Iq4Code(drawn) : static_cast<int8_t>(drawn);
  }
  ExpectUnpackInvertsPack<Block>(in, [](const auto& a, const auto& b) { EXPECT_EQ(a.m, b.m); });
}

template <class Block>
void TryPack256(int low, int high, bool book, int scale_low, int scale_high, int min_high,
                int repeat) {
  SCOPED_TRACE(DTypeName(Block::kType));
  spec::Weights256 in = {};
  in.d = 0.375f;
  in.dmin = min_high > 0 ? 0.125f : 0.0f;
  for (int i = 0; i < 256; ++i) {
    const int drawn = Drawn(static_cast<uint64_t>(i), low, high);
    in.w[i] = book ? spec::Iq4Code(drawn) : static_cast<int8_t>(drawn);
  }
  for (int j = 0; j < 16; ++j) {
    const auto index = static_cast<uint64_t>(1000 + j / repeat);
    in.scale[j] = static_cast<int16_t>(Drawn(index, scale_low, scale_high));
    in.min[j] = static_cast<int16_t>(Drawn(index + 100, 0, min_high));
  }
  ExpectUnpackInvertsPack<Block>(in, [](const auto& a, const auto& b) {
    EXPECT_EQ(a.dmin, b.dmin);
    EXPECT_TRUE(std::equal(std::begin(a.scale), std::end(a.scale), std::begin(b.scale)));
    EXPECT_TRUE(std::equal(std::begin(a.min), std::end(a.min), std::begin(b.min)));
  });
}

TEST(PackBlocks, IsUndoneByUnpack) {
  TryPack32<BlockQ4_0>(-8, 7, false);
  TryPack32<BlockQ4_1>(0, 15, false);
  TryPack32<BlockQ5_0>(-16, 15, false);
  TryPack32<BlockQ5_1>(0, 31, false);
  TryPack32<BlockQ8_0>(-128, 127, false);
  TryPack32<BlockIq4Nl>(0, 15, true);
  TryPack256<BlockQ2K>(0, 3, false, 0, 15, 15, 1);
  TryPack256<BlockQ3K>(-4, 3, false, -32, 31, 0, 1);
  TryPack256<BlockQ4K>(0, 15, false, 0, 63, 63, 2);
  TryPack256<BlockQ5K>(0, 31, false, 0, 63, 63, 2);
  TryPack256<BlockQ6K>(-32, 31, false, -128, 127, 0, 1);
  TryPack256<BlockIq4Xs>(0, 15, true, -32, 31, 0, 2);
}

}  // namespace
}  // namespace fak::tensor
