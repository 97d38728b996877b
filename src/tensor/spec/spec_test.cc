#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "tensor/dtype.h"
#include "tensor/spec/all.h"

// What the digests of tests/numerics can't say: known answers, dispatch, and properties.
namespace fak::tensor::spec {
namespace {

std::vector<uint8_t> Bytes(size_t n) {
  std::vector<uint8_t> bytes(n);
  for (size_t i = 0; i < n; ++i) {
    // Small enough that no f16 field is infinite wherever it lies.
    bytes[i] = static_cast<uint8_t>((i * 0x9e3779b97f4a7c15u) >> 58);
  }
  return bytes;
}

class EveryQuantisedType : public testing::TestWithParam<DType> {};

constexpr int kColumns = 512;

// A product with the j-th unit row picks out element j, so the two readings of a block agree.
TEST_P(EveryQuantisedType, ProductAndEmbeddingReadTheSameElements) {
  const DType type = GetParam();
  const std::vector<uint8_t> row = Bytes(static_cast<size_t>(RowBytes(type, kColumns)));
  const int block = ActivationBlock(type);
  for (int j = 0; j < kColumns; ++j) {
    std::vector<int8_t> q(kColumns, 0);
    q[static_cast<size_t>(j)] = 1;
    const std::vector<float> ones(static_cast<size_t>(kColumns / block), 1.0f);
    const float product = DotRow(type, row.data(), kColumns, {q.data(), ones.data()});
    const float element = DequantisedElement(type, row.data(), j);
    EXPECT_NEAR(product, element, std::fabs(element) * 1e-6f + 1e-6f) << j;
  }
}

TEST_P(EveryQuantisedType, DequantisesAWholeRow) {
  const DType type = GetParam();
  const std::vector<uint8_t> row = Bytes(static_cast<size_t>(RowBytes(type, kColumns)));
  std::vector<float> out(kColumns);
  DequantiseRow(type, row.data(), kColumns, out.data());
  for (int j = 0; j < kColumns; ++j) {
    EXPECT_EQ(out[static_cast<size_t>(j)], DequantisedElement(type, row.data(), j));
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryQuantisedType,
                         testing::Values(DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                                         DType::kQ8_0, DType::kIq4Nl, DType::kQ2K, DType::kQ3K,
                                         DType::kQ4K, DType::kQ5K, DType::kQ6K, DType::kIq4Xs),
                         [](const auto& test) { return std::string(DTypeName(test.param)); });

// The answers that come with Random123.
TEST(Philox, GivesItsAuthorsKnownAnswers) {
  const struct {
    PhiloxBlock counter;
    uint32_t key0, key1;
    PhiloxBlock out;
  } cases[] = {
      {{{0, 0, 0, 0}}, 0, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
      {{{~0u, ~0u, ~0u, ~0u}}, ~0u, ~0u, {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
      {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
       0xa4093822,
       0x299f31d0,
       {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
  };
  for (const auto& c : cases) {
    const PhiloxBlock out = Philox(c.counter, c.key0, c.key1);
    EXPECT_EQ(std::memcmp(&out, &c.out, sizeof out), 0);
  }
}

TEST(Sampling, DrawTargetIsBelowTheTotalAndSpreadsEvenly) {
  EXPECT_EQ(DrawTarget(0, 1000), 0u);
  EXPECT_EQ(DrawTarget(~uint64_t{0}, 1000), 999u);
  EXPECT_EQ(DrawTarget(uint64_t{1} << 63, uint64_t{1} << 61), uint64_t{1} << 60);
}

TEST(Sampling, LikeliestTokenWeighsOneAndABannedOneNothing) {
  EXPECT_EQ(SampleWeight(7.5f, 7.5f), kWeightOne);
  EXPECT_EQ(SampleWeight(-FloatOf(kExponentBits), 7.5f), 0u);
}

TEST(Sampling, LogProbabilitiesAreRightToSevenDigits) {
  constexpr int kTokens = 50000;
  std::vector<float> logits(kTokens);
  long double exact = 0;
  for (int i = 0; i < kTokens; ++i) {
    const uint64_t u = static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15u;
    logits[static_cast<size_t>(i)] = static_cast<float>(u >> 40) * 0x1p-20f - 8.0f;
    exact += std::exp(static_cast<long double>(logits[static_cast<size_t>(i)]));
  }
  const float max = MaxOf(logits.data(), kTokens);
  const double log_sum = LogSumExp(max, WeightSum(logits.data(), kTokens, max));
  EXPECT_NEAR(log_sum, static_cast<double>(std::log(exact)), 1e-7);
  EXPECT_NEAR(LogProb(logits[0], log_sum), logits[0] - static_cast<double>(std::log(exact)), 1e-6);
}

TEST(RanksBefore, BreaksTiesByLowestId) {
  const float x[] = {1.0f, 3.0f, -0.0f, 3.0f, 0.0f};
  int32_t ids[5];
  TopK(x, 5, 5, ids);
  const int32_t expected[] = {1, 3, 0, 2, 4};
  EXPECT_EQ(std::memcmp(ids, expected, sizeof ids), 0);
  EXPECT_EQ(ArgMax(x, 5), 1);
}

TEST(Attend, OnePositionReturnsItsValue) {
  const float q[] = {1.0f, -2.0f};
  const float v[] = {0.25f, -7.0f};
  float out[2];
  const auto key = [](int64_t, int) { return 3.0f; };
  const auto value = [&](int64_t, int e) { return v[e]; };
  Attend(q, 2, 511, 512, PlainScore(InverseSqrt(2)), key, value, out);
  EXPECT_EQ(out[0], v[0]);
  EXPECT_EQ(out[1], v[1]);
}

TEST(FirstVisible, WindowCountsTheQueryItself) {
  EXPECT_EQ(FirstVisible(10, 0), 0);
  EXPECT_EQ(FirstVisible(10, 1), 10);
  EXPECT_EQ(FirstVisible(10, 4), 7);
  EXPECT_EQ(FirstVisible(3, 4), 0);
  EXPECT_EQ(FirstVisible(4, 4), 1);
}

TEST(QuantiseBlock, NonFiniteValuesPoisonTheScale) {
  int8_t q[32];
  float x[32] = {};
  EXPECT_EQ(QuantiseBlock(x, 32, q), 0.0f);
  x[5] = FloatOf(kExponentBits);
  EXPECT_TRUE(std::isnan(QuantiseBlock(x, 32, q)));
  x[5] = FloatOf(kQuietNanBits);
  EXPECT_TRUE(std::isnan(QuantiseBlock(x, 32, q)));
}

}  // namespace
}  // namespace fak::tensor::spec
