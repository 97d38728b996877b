// descriptor_limit.h, function_ref.h, clock.h, random.h, hash.h, histogram.h, result.h.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "base/clock.h"
#include "base/descriptor_limit.h"
#include "base/function_ref.h"
#include "base/hash.h"
#include "base/hex.h"
#include "base/histogram.h"
#include "base/random.h"
#include "base/result.h"

namespace fak {
namespace {

int Twice(int x) {
  return 2 * x;
}

TEST(DescriptorLimit, KeepsSomeThatAreNoClients) {
  const std::pair<uint64_t, int> kCases[] = {{8, 4},           {20, 10},
                                             {40, 24},         {64, 48},
                                             {400, 300},       {1024, 768},
                                             {21'024, 20'768}, {1 << 20, (1 << 20) - 256},
                                             {0, INT32_MAX},   {UINT64_MAX, INT32_MAX}};
  for (const auto& [limit, for_clients] : kCases) {
    EXPECT_EQ(DescriptorsForClients(limit), for_clients) << limit;
  }
}

TEST(FunctionRef, CallsLambdasFunctorsAndFunctions) {
  const auto call = [](FunctionRef<int(int)> f) { return f(21); };
  int offset = 1;
  EXPECT_EQ(call([&offset](int x) { return x + offset; }), 22);
  EXPECT_EQ(call(Twice), 42);
  EXPECT_EQ(call(&Twice), 42);
  const std::function<int(int)> held = [](int x) { return -x; };
  EXPECT_EQ(call(held), -21);
}

TEST(FunctionRef, PassesMoveOnlyArgumentsThrough) {
  const auto f = [](std::unique_ptr<int> p) { return *p; };
  const FunctionRef<int(std::unique_ptr<int>)> ref = f;
  EXPECT_EQ(ref(std::make_unique<int>(7)), 7);
}

TEST(Clock, FakeMovesOnlyWhenTold) {
  FakeClock clock;
  const int64_t now = clock.NowNs();
  const int64_t wall = clock.WallNs();
  clock.AdvanceMs(5);
  clock.SetWallNs(clock.WallNs() - kNsPerSecond);
  EXPECT_EQ(clock.NowNs() - now, 5 * kNsPerMs);
  EXPECT_EQ(clock.WallNs() - wall, 5 * kNsPerMs - kNsPerSecond);
  const int64_t before = Clock::Real().NowNs();
  EXPECT_LE(before, Clock::Real().NowNs());
  EXPECT_GT(Clock::Real().WallNs(), 1'700'000'000 * kNsPerSecond);
}

TEST(Random, RealDiffersAndFakeRepeats) {
  EXPECT_NE(RandomSource::Real().Next64(), RandomSource::Real().Next64());
  std::vector<unsigned char> big(1000, 0);
  RandomSource::Real().Fill(big);
  EXPECT_NE(std::vector<unsigned char>(big.end() - 100, big.end()),
            std::vector<unsigned char>(100, 0));
  FakeRandom a(7);
  FakeRandom b(7);
  EXPECT_EQ(RandomId(a, "chatcmpl-"), RandomId(b, "chatcmpl-"));
  EXPECT_EQ(RandomId(a, "x").size(), 33u);
}

TEST(Hash, GivesThePublishedValues) {
  // xxHash 0.8's own sanity values for the empty input; FIPS 180-4 examples for SHA-256.
  EXPECT_EQ(ToHex(Xxh3("")), "2d06800538d394c2");
  EXPECT_EQ(Xxh3Wide("").ToHex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_NE(Xxh3("a", 1), Xxh3("a", 2));
  EXPECT_EQ(Sha256::HexOf("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 hash;
  hash.Update("a");
  hash.Update("bc");
  EXPECT_EQ(hash.Finish(), Sha256::Of("abc"));
  EXPECT_EQ(hash.Finish(), Sha256::Of(""));
  const std::vector<uint16_t> words = {0x0101, 0x0202};
  EXPECT_EQ(BytesOf(std::span<const uint16_t>(words)), "\x01\x01\x02\x02");
}

TEST(Histogram, BoundsTheErrorOfEveryQuantile) {
  std::mt19937_64 random(1);
  std::vector<uint64_t> values;
  Histogram all;
  Histogram halves[2];
  for (size_t i = 0; i < 20'000; ++i) {
    const uint64_t value = random() >> (random() % 64);
    values.push_back(value);
    all.Record(value);
    halves[i % 2].Record(value);
  }
  std::sort(values.begin(), values.end());
  halves[0].Merge(halves[1]);
  for (const double q : {0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto rank = static_cast<size_t>(std::max(1.0, std::ceil(q * 20'000.0)));
    const uint64_t exact = values[rank - 1];
    EXPECT_GE(all.Quantile(q), exact);
    EXPECT_LE(static_cast<double>(all.Quantile(q)), static_cast<double>(exact) * (1 + 1.0 / 128));
    EXPECT_EQ(all.Quantile(q), halves[0].Quantile(q));
  }
  EXPECT_EQ(all.min(), values.front());
  EXPECT_EQ(all.max(), values.back());
  EXPECT_EQ(all.count(), halves[0].count());
}

TEST(Histogram, IsExactForSmallValuesAndEmpty) {
  Histogram histogram;
  EXPECT_EQ(histogram.Quantile(0.5), 0u);
  EXPECT_EQ(histogram.Mean(), 0);
  histogram.Record(3, 2);
  histogram.Record(255);
  EXPECT_EQ(histogram.Quantile(0.5), 3u);
  EXPECT_EQ(histogram.Quantile(1), 255u);
  EXPECT_EQ(histogram.Mean(), 87);
  histogram.Record(UINT64_MAX);
  EXPECT_EQ(histogram.Quantile(1), UINT64_MAX);
}

Result<int> Half(int x) {
  if (x % 2 != 0) {
    return Fail(Code::kInvalidArgument, "odd", "x");
  }
  return x / 2;
}

Result<int> Quarter(int x) {
  TRY_ASSIGN(const int half, Half(x));
  TRY(Half(half));
  return *Half(half);
}

TEST(Result, TryPropagatesErrorsWhole) {
  EXPECT_EQ(*Quarter(8), 2);
  const auto bad = Quarter(6);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().field, "x");
  EXPECT_EQ(Within("here", bad.error()).detail, "here: odd");
  EXPECT_EQ(CodeName(Code::kContextTooLong), "context_length_exceeded");
}

TEST(ResultDeath, CheckSaysWhatWhereAndWhy) {
  EXPECT_DEATH(CHECK(1 == 2) << "numbers " << 12, "small_parts_test.cc:.*1 == 2.*numbers 12");
}

}  // namespace
}  // namespace fak
