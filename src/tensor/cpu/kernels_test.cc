#include "tensor/cpu/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tensor/cpu/workspace.h"
#include "tensor/spec/random.h"
#include "tensor/spec/scalar.h"

// Every ISA's kernels against the scalar ones, which are spec/: by equality of bits, except that
// any NaN equals any other (rule 2).
namespace fak::tensor::cpu {
namespace {

constexpr uint32_t kLengths[] = {1,  2,  7,   15,  16,  17,  31,  32,
                                 33, 64, 100, 511, 512, 513, 576, 1300};

enum class Kind { kOrdinary, kMixed, kTiny, kHuge };
constexpr Kind kKinds[] = {Kind::kOrdinary, Kind::kMixed, Kind::kTiny, Kind::kHuge};

std::vector<float> Values(Kind kind, size_t n, uint64_t seed) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t bits = spec::SampleBits(seed, static_cast<uint32_t>(kind), i);
    const float x = static_cast<float>(static_cast<int64_t>(bits) >> 40) * 0x1p-21f;  // ±4
    switch (kind) {
      case Kind::kOrdinary: values[i] = x; break;
      case Kind::kMixed: {
        constexpr float kOdd[] = {0.0f,  -0.0f,    1e-40f, -1e-42f, 1e4f,
                                  -9e4f, 0x1p-25f, 88.5f,  -87.0f};
        values[i] = bits % 3 == 0 ? kOdd[bits / 3 % 9] : x;
        break;
      }
      case Kind::kTiny: values[i] = x * 0x1p-130f; break;
      case Kind::kHuge: values[i] = x * 0x1p60f; break;
    }
  }
  return values;
}

::testing::AssertionResult Same(const std::vector<float>& a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    const bool both_nan = std::isnan(a[i]) && std::isnan(b[i]);
    if (!both_nan && spec::BitsOf(a[i]) != spec::BitsOf(b[i])) {
      return ::testing::AssertionFailure() << "element " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

const Kernels& Scalar() {
  return KernelsFor(Isa::kScalar);
}

class EveryIsa : public ::testing::TestWithParam<Isa> {
 protected:
  const Kernels& kernels_ = KernelsFor(GetParam());

  // Calls check(n, kind, seed) for lengths and kinds.
  template <class Check>
  void ForAll(Check check) {
    for (const uint32_t n : kLengths) {
      for (const Kind kind : kKinds) {
        SCOPED_TRACE("n " + std::to_string(n) + " kind " + std::to_string(static_cast<int>(kind)));
        check(n, kind);
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Kernels, EveryIsa, ::testing::ValuesIn(CpuIsas()),
                         [](const auto& isa) { return std::string(IsaName(isa.param)); });

TEST_P(EveryIsa, NormsAsTheSpecification) {
  ForAll([&](uint32_t n, Kind kind) {
    const std::vector<float> x = Values(kind, n, 1);
    const std::vector<float> weight = Values(Kind::kOrdinary, n, 2);
    std::vector<float> y(n);
    std::vector<float> expected(n);
    Scalar().rms_norm(x.data(), weight.data(), n, 1e-6f, expected.data());
    kernels_.rms_norm(x.data(), weight.data(), n, 1e-6f, y.data());
    EXPECT_TRUE(Same(expected, y));
    y = x;
    kernels_.rms_norm(y.data(), weight.data(), n, 1e-6f, y.data());
    EXPECT_TRUE(Same(expected, y)) << "in place";
  });
}

TEST_P(EveryIsa, RotatesAsTheSpecification) {
  for (const uint32_t dims : {2u, 16u, 30u, 32u, 64u, 80u, 96u, 128u, 256u}) {
    for (const Kind kind : kKinds) {
      for (const RopeStyle style : {RopeStyle::kAdjacent, RopeStyle::kHalf}) {
        const std::vector<float> cos = Values(Kind::kOrdinary, dims / 2, 3);
        const std::vector<float> sin = Values(Kind::kOrdinary, dims / 2, 4);
        std::vector<float> head = Values(kind, dims + 5, 5);
        std::vector<float> expected = head;
        Scalar().rotate(style, cos.data(), sin.data(), dims, expected.data());
        kernels_.rotate(style, cos.data(), sin.data(), dims, head.data());
        EXPECT_TRUE(Same(expected, head)) << dims;
      }
    }
  }
}

TEST_P(EveryIsa, ActivatesAsTheSpecification) {
  ForAll([&](uint32_t n, Kind kind) {
    for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
      std::vector<float> gate = Values(kind, n, 6);
      for (float& g : gate) {
        g = g * 30.0f;  // exp's bounds come into play
      }
      const std::vector<float> up = Values(Kind::kMixed, n, 7);
      std::vector<float> expected(n);
      Scalar().gate(activation, gate.data(), up.data(), n, expected.data());
      kernels_.gate(activation, gate.data(), up.data(), n, gate.data());
      EXPECT_TRUE(Same(expected, gate));
    }
  });
}

TEST_P(EveryIsa, AddsAndScalesAsTheSpecification) {
  ForAll([&](uint32_t n, Kind kind) {
    const std::vector<float> y = Values(kind, n, 8);
    const std::vector<float> start = Values(Kind::kMixed, n, 9);
    const auto check = [&](auto apply) {
      std::vector<float> x = start;
      std::vector<float> expected = start;
      apply(kernels_, x.data());
      apply(Scalar(), expected.data());
      EXPECT_TRUE(Same(expected, x));
    };
    check([&](const Kernels& k, float* x) { k.add(y.data(), n, x); });
    check([&](const Kernels& k, float* x) { k.scale(1.7f, n, x); });
    check([&](const Kernels& k, float* x) { k.add_scaled(0.3f, y.data(), n, x); });
    check([&](const Kernels& k, float* x) { k.divide(y.data(), 0.7f, n, x); });
  });
}

TEST_P(EveryIsa, FindsEveryNonFiniteValue) {
  for (const uint32_t n : kLengths) {
    std::vector<float> x = Values(Kind::kHuge, n, 10);
    EXPECT_TRUE(kernels_.all_finite(x.data(), n));
    for (const uint32_t at : {0u, n / 2, n - 1}) {
      for (const float bad : {std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity(), std::nanf("")}) {
        const float kept = std::exchange(x[at], bad);
        EXPECT_FALSE(kernels_.all_finite(x.data(), n)) << at;
        x[at] = kept;
      }
    }
  }
}

TEST_P(EveryIsa, StoresKvAsTheSpecificationAndCountsWhatItClamps) {
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBf16}) {
    for (const uint32_t stride : {1u, 16u}) {
      ForAll([&](uint32_t n, Kind kind) {
        std::vector<float> x = Values(kind, n, 11);
        x[n / 2] = 3.4e38f;  // beyond both half types
        x[0] = -65520.0f;
        const size_t bytes = size_t{n} * stride * KvTypeBytes(type);
        std::vector<std::byte> out(bytes);
        std::vector<std::byte> expected(bytes);
        EXPECT_EQ(kernels_.store(type, x.data(), n, stride, out.data()),
                  Scalar().store(type, x.data(), n, stride, expected.data()));
        EXPECT_TRUE(out == expected);
      });
    }
  }
}

TEST_P(EveryIsa, SumsWeightsExactly) {
  ForAll([&](uint32_t n, Kind kind) {
    const std::vector<float> x = Values(kind == Kind::kHuge ? Kind::kOrdinary : kind, n, 12);
    std::vector<float> logits = x;
    for (float& l : logits) {
      l = l * 6.0f;  // over the whole range of weights
    }
    const float max = Scalar().max_of(logits.data(), n);
    EXPECT_EQ(kernels_.max_of(logits.data(), n), max);
    EXPECT_EQ(kernels_.arg_max(logits.data(), n), Scalar().arg_max(logits.data(), n));
    std::vector<uint64_t> weights(n);
    std::vector<uint64_t> expected(n);
    kernels_.weights(logits.data(), max, n, weights.data());
    Scalar().weights(logits.data(), max, n, expected.data());
    EXPECT_EQ(weights, expected);
    EXPECT_EQ(kernels_.weight_sum(logits.data(), max, n),
              Scalar().weight_sum(logits.data(), max, n));
    EXPECT_EQ(kernels_.count_above(logits.data(), logits[n / 2], n),
              Scalar().count_above(logits.data(), logits[n / 2], n));
  });
}

TEST_P(EveryIsa, FindsTheFirstOfEqualMaxima) {
  std::vector<float> x(2000, -1.0f);
  for (const uint32_t first : {0u, 5u, 511u, 512u, 1030u, 1999u}) {
    std::vector<float> y = x;
    y[first] = -0.0f;
    y[1999] = 0.0f;
    EXPECT_EQ(kernels_.arg_max(y.data(), 2000), first);
    EXPECT_EQ(kernels_.max_of(y.data(), 2000), 0.0f);
  }
}

// A lane of the vector sums holds 1024 weights of the largest part.
TEST_P(EveryIsa, SumsManyEqualMaximaWithoutOverflow) {
  const std::vector<float> x(300'001, 2.5f);
  EXPECT_EQ(kernels_.weight_sum(x.data(), 2.5f, 300'001), uint64_t{300'001} << 40);
}

TEST_P(EveryIsa, AttendsAsTheSpecification) {
  for (const uint32_t dim : {8u, 24u, 64u, 80u, 96u, 128u, 256u}) {
    for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBf16}) {
      for (const uint32_t n : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 13u}) {
        SCOPED_TRACE("dim " + std::to_string(dim) + " queries " + std::to_string(n));
        const uint32_t stride = ValueStride(dim);
        const uint32_t bytes = KvTypeBytes(type);
        std::vector<std::byte> keys(size_t{256} * dim * bytes);
        std::vector<std::byte> values(size_t{256} * stride * bytes);
        Scalar().store(type, Values(Kind::kMixed, 256 * dim, dim).data(), 256 * dim, 1,
                       keys.data());
        Scalar().store(type, Values(Kind::kMixed, 256 * stride, n).data(), 256 * stride, 1,
                       values.data());
        const std::vector<float> q = Values(Kind::kOrdinary, size_t{n} * dim, 14);
        alignas(64) static float scores[16 * 256];
        const auto attend = [&](const Kernels& kernels) {
          AttentionSplit split;
          for (uint32_t t = 0; t < 16; ++t) {
            split.keys[t] = keys.data() + size_t{t} * 16 * dim * bytes;
            split.values[t] = values.data() + size_t{t} * 16 * stride * bytes;
          }
          split.head_dim = dim;
          split.value_stride = stride;
          split.scale = 0.18f;
          split.scores = scores;
          split.n_queries = n;
          std::vector<float> results(size_t{n} * (stride + 2));
          std::vector<AttentionQuery> queries(n);
          for (uint32_t i = 0; i < n; ++i) {
            float* const at = results.data() + i * (stride + 2);
            // Causal rows, windows, single positions, and ranges that don't meet.
            const uint32_t begin = i % 3 == 0 ? 0 : i * 31 % 200;
            const uint32_t end = i % 4 == 3 ? begin + 1 : 256 - i * 5 % 17;
            queries[i] = {q.data() + size_t{i} * dim, begin, end, at, at + 1, at + 2};
          }
          split.queries = queries.data();
          kernels.attend(type, split);
          for (uint32_t i = 0; i < n; ++i) {  // undefined beyond the head's dims
            for (uint32_t e = dim; e < stride; ++e) {
              results[i * (stride + 2) + 2 + e] = 0.0f;
            }
          }
          return results;
        };
        EXPECT_TRUE(Same(attend(Scalar()), attend(kernels_)));
      }
    }
  }
}

TEST_P(EveryIsa, CombinesSplitsAsTheSpecification) {
  for (const uint32_t dim : {8u, 64u, 80u, 128u}) {
    for (const uint32_t n : {1u, 2u, 3u, 17u}) {
      const uint32_t stride = ValueStride(dim);
      const std::vector<float> maxima = Values(Kind::kMixed, n, 15);
      std::vector<float> sums = Values(Kind::kOrdinary, n, 16);
      for (float& sum : sums) {
        sum = std::fabs(sum) + 1.0f;
      }
      const std::vector<float> o = Values(Kind::kMixed, size_t{n} * stride, 17);
      std::vector<float> out(dim);
      std::vector<float> expected(dim);
      kernels_.combine(maxima.data(), sums.data(), o.data(), n, stride, dim, out.data());
      Scalar().combine(maxima.data(), sums.data(), o.data(), n, stride, dim, expected.data());
      EXPECT_TRUE(Same(expected, out));
    }
  }
}

}  // namespace
}  // namespace fak::tensor::cpu
