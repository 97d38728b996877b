#include "perf/roofline.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fak::perf {
namespace {

using tensor::Isa;
using tensor::Peak;
using ::testing::HasSubstr;

Ceiling Bound(Peak peak, uint32_t threads, std::vector<double> samples) {
  return {Isa::kAvx2, threads, peak, {4, 1024}, std::move(samples)};
}

TEST(BestOf, IsByTheMedianAndNotByTheLuckiest) {
  EXPECT_EQ(BestOf({{10, 10, 10}, {9, 12, 11}, {1, 99, 2}}), 1u);
  EXPECT_EQ(BestOf({{5}, {5}}), 0u);
}

TEST(ShareOf, ComparesWithinARound) {
  // The machine halves in the second round, and the model with it.
  EXPECT_DOUBLE_EQ(ShareOf({50, 25, 52}, {100, 50, 100}), 0.5);
  EXPECT_DOUBLE_EQ(ShareOf({}, {}), 0);
}

TEST(ModelShare, DividesByTheWorkOfAToken) {
  ModelShare share;
  share.work = {.token_bytes = 1000, .body_ops = 50, .head_ops = 100, .of_bytes = true};
  share.decode = {{.n_gen = 4}, {2'000'000'000}};       // 2 tokens a second
  share.prefill = {{.n_prompt = 10}, {1'000'000'000}};  // 10
  TakeBounds({Bound(Peak::kRead, 1, {1}), Bound(Peak::kRead, 2, {8000}),
              Bound(Peak::kInt8Dot, 2, {1200}), Bound(Peak::kF32Fma, 2, {1})},
             Isa::kAvx2, 2, share);
  EXPECT_EQ(share.product.peak, Peak::kInt8Dot);
  EXPECT_DOUBLE_EQ(ShareOf(share.DecodeBytes(), share.read.samples), 0.25);
  EXPECT_DOUBLE_EQ(ShareOf(share.PrefillOps(), share.product.samples), 0.5);
  const std::string text = ShareText(share);
  EXPECT_THAT(text, HasSubstr("25.0 %  of reading memory"));
  EXPECT_THAT(text, HasSubstr("50.0 %  of int8 dot"));
}

TEST(ModelShare, FloatsAreHeldToFloats) {
  ModelShare share;
  TakeBounds(
      {Bound(Peak::kRead, 2, {8}), Bound(Peak::kInt8Dot, 2, {4}), Bound(Peak::kF32Fma, 2, {1})},
      Isa::kAvx2, 2, share);
  EXPECT_EQ(share.product.peak, Peak::kF32Fma);
}

TEST(Roofline, HasABoundForEachThing) {
  auto roofline = Roofline::Make({.isas = {Isa::kScalar}, .threads = {1, 2}, .bytes = 8 << 20});
  ASSERT_TRUE(roofline);
  size_t loops = 0;
  roofline->Round([&loops](const std::string&) { ++loops; });
  EXPECT_EQ(loops, roofline->loops());
  const std::vector<Ceiling> ceilings = roofline->Ceilings();
  ASSERT_EQ(ceilings.size(), 6u);
  EXPECT_EQ(ceilings[0].peak, Peak::kRead);
  EXPECT_EQ(ceilings[2].peak, Peak::kF32Fma);
  EXPECT_EQ(ceilings[3].threads, 2u);
  for (const Ceiling& ceiling : ceilings) {
    EXPECT_EQ(ceiling.samples.size(), 1u);
    EXPECT_GT(ceiling.samples[0], 0);
  }
}

}  // namespace
}  // namespace fak::perf
