#include "tensor/cpu/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tensor/spec/all.h"

namespace fak::tensor::cpu {
namespace {

using Random = std::mt19937;

struct AlignedBytes {
  explicit AlignedBytes(size_t bytes)
      : data(static_cast<std::byte*>(::operator new(bytes + 64, std::align_val_t{64}))) {
    std::memset(data.get(), 0xa5, bytes + 64);
  }
  struct Delete {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte, Delete> data;
};

std::vector<DType> ComputedTypes() {
  std::vector<DType> types;
  for (const DTypeInfo& info : AllDTypes()) {
    if (info.support == DTypeSupport::kComputed) {
      types.push_back(info.type);
    }
  }
  return types;
}

// Where the f16 values of a block are.
std::vector<size_t> HalfOffsets(DType type) {
  switch (type) {
    case DType::kQ4_0:
    case DType::kQ5_0:
    case DType::kQ8_0:
    case DType::kIq4Nl:
    case DType::kIq4Xs: return {0};
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4K:
    case DType::kQ5K: return {0, 2};
    case DType::kQ2K: return {80, 82};
    case DType::kQ3K: return {108};
    case DType::kQ6K: return {208};
    case DType::kF16: return {0};
    default: return {};
  }
}

enum class WeightKind { kRandom, kAllOnes, kTopBits, kZeros };
constexpr WeightKind kWeightKinds[] = {WeightKind::kRandom, WeightKind::kAllOnes,
                                       WeightKind::kTopBits, WeightKind::kZeros};

float RandomWeight(Random& random) {
  std::normal_distribution<float> normal(0.0f, 0.05f);
  const float x = normal(random);
  switch (random() % 16) {
    case 0: return x * 0x1p-130f;
    case 1: return -0.0f;
    case 2: return x * 1000.0f;
    default: return x;
  }
}

// Blocks of any bits, with finite scales of either sign, small and large and denormal.
std::vector<std::byte> RandomRows(DType type, uint32_t rows, uint32_t cols, WeightKind kind,
                                  Random& random) {
  std::vector<std::byte> out(static_cast<size_t>(RowBytes(type, cols)) * rows);
  for (std::byte& b : out) {
    const int bits = kind == WeightKind::kRandom    ? static_cast<int>(random() & 255)
                     : kind == WeightKind::kAllOnes ? 0xff
                     : kind == WeightKind::kTopBits ? 0x80
                                                    : 0;
    b = static_cast<std::byte>(bits);
  }
  const size_t block = InfoOf(type).block_bytes;
  for (size_t at = 0; at < out.size(); at += block) {
    for (size_t offset : HalfOffsets(type)) {
      const auto half = static_cast<uint16_t>(random() & 0xbbff);  // exponent below 15: at most 2
      std::memcpy(&out[at + offset], &half, 2);
    }
    const float x = RandomWeight(random);
    if (type == DType::kF32) {
      std::memcpy(&out[at], &x, 4);
    } else if (type == DType::kBf16) {
      const uint16_t half = spec::F32ToBf16(x);
      std::memcpy(&out[at], &half, 2);
    }
  }
  return out;
}

// Row r of activations is one of several kinds, so that every case meets them all.
std::vector<float> RandomActivations(uint32_t rows, uint32_t cols, Random& random) {
  std::normal_distribution<float> normal;
  std::vector<float> x(size_t{rows} * cols);
  for (uint32_t r = 0; r < rows; ++r) {
    for (uint32_t k = 0; k < cols; ++k) {
      float& value = x[size_t{r} * cols + k];
      value = normal(random);
      switch (r % 8) {
        case 1: value *= random() % 50 == 0 ? 1000.0f : 1.0f; break;
        case 2: value = value < 0 ? -3.0f : 3.0f; break;  // every q is 127 or -127
        case 3: value = 3.0f; break;
        case 4: value *= 0x1p-130f; break;                                 // denormal
        case 5: value *= k / 32 % 2 == 0 ? 1e30f : 0x1p-101f; break;       // huge and tiny
        case 6: value = k / 32 % 3 == 0 ? 0.0f : value * 0x1p-60f; break;  // blocks of zeros
        default: break;
      }
    }
  }
  return x;
}

struct Case {
  DType type;
  uint32_t outputs;
  uint32_t cols;
  uint32_t rows;
  WeightKind kind = WeightKind::kRandom;
};

std::string Describe(const Case& c, Isa isa) {
  return std::string(DTypeName(c.type)) + " " + std::string(IsaName(isa)) + " " +
         std::to_string(c.outputs) + "x" + std::to_string(c.cols) + " rows " +
         std::to_string(c.rows) + " kind " + std::to_string(static_cast<int>(c.kind));
}

// A case's data, and the result that the specification wants.
struct Problem {
  Problem(const Case& the_case, Random& random)
      : c(the_case),
        file(RandomRows(c.type, c.outputs, c.cols, c.kind, random)),
        x(RandomActivations(c.rows, c.cols, random)),
        packed(PackedBytes(c.type, c.outputs, c.cols)),
        expected(size_t{c.rows} * c.outputs) {
    const auto row_bytes = static_cast<size_t>(RowBytes(c.type, c.cols));
    for (uint32_t first = 0; first < c.outputs; first += kPanelRows) {
      PackPanel(c.type, std::min(kPanelRows, c.outputs - first), c.cols,
                file.data() + first * row_bytes,
                packed.data.get() + first / kPanelRows * PanelBytes(c.type, c.cols));
    }
    std::vector<int8_t> q(c.cols);
    std::vector<float> scales(c.cols / 32 + 1);
    for (uint32_t r = 0; r < c.rows; ++r) {
      const float* row = x.data() + size_t{r} * c.cols;
      spec::QuantiseRow(row, c.cols, spec::ActivationBlock(c.type), q.data(), scales.data());
      for (uint32_t n = 0; n < c.outputs; ++n) {
        const std::byte* weights = file.data() + n * row_bytes;
        expected[size_t{r} * c.outputs + n] =
            IsQuantised(c.type) ? spec::DotRow(c.type, weights, c.cols, {q.data(), scales.data()})
                                : spec::DotRowFloat(c.type, weights, c.cols, row);
      }
    }
  }

  // As an ISA computes it.
  std::vector<float> Run(Isa isa) const {
    const MatmulKernels& kernels = MatmulKernelsFor(isa);
    const ActivationClass type = ClassOf(c.type);
    AlignedBytes buffer(ActivationBytes(type, c.rows, c.cols));
    const Activations activations = {
        .type = type, .rows = c.rows, .cols = c.cols, .data = buffer.data.get()};
    for (uint32_t r = 0; r < c.rows; ++r) {
      kernels.quantise(x.data() + size_t{r} * c.cols, activations, r);
    }
    std::vector<float> out(size_t{c.rows} * c.outputs, -1.0f);
    const Product product = {.weights = packed.data.get(),
                             .outputs = c.outputs,
                             .x = activations,
                             .row_end = c.rows,
                             .out = out.data(),
                             .out_stride = c.outputs};
    kernels.MultiplyOf(c.type)(product, 0, (c.outputs + kPanelRows - 1) / kPanelRows);
    return out;
  }

  Case c;
  std::vector<std::byte> file;
  std::vector<float> x;
  AlignedBytes packed;
  std::vector<float> expected;
};

// Equal bits, or both not a number.
bool Same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || spec::BitsOf(a) == spec::BitsOf(b);
}

void ExpectSame(const std::vector<float>& got, const std::vector<float>& expected,
                const std::string& what) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (!Same(got[i], expected[i])) {
      ADD_FAILURE() << what << ": value " << i << " is " << got[i] << " not " << expected[i];
      return;
    }
  }
}

void ExpectSpecified(const Case& c, Random& random) {
  const Problem problem(c, random);
  for (const Isa isa : CpuIsas()) {
    ExpectSame(problem.Run(isa), problem.expected, Describe(c, isa));
  }
}

std::vector<uint32_t> ColumnsOf(DType type) {
  switch (ClassOf(type)) {
    case ActivationClass::kFloat: return {1, 7, 255, 256, 257, 512, 515, 1100};
    case ActivationClass::kInt8x32: return {32, 96, 256, 288, 576, 736};
    case ActivationClass::kInt8x256: return {256, 512, 768};
  }
  return {};
}

TEST(Matmul, GivesTheSpecifiedBitsForAnyNumberOfRows) {
  Random random(1);
  for (const DType type : ComputedTypes()) {
    const uint32_t cols = ClassOf(type) == ActivationClass::kInt8x256 ? 512 : 416;
    for (const uint32_t rows : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 15u, 16u, 17u, 33u, 70u}) {
      ExpectSpecified({type, 83, cols, rows}, random);
    }
  }
}

TEST(Matmul, GivesTheSpecifiedBitsForShapesThatDoNotDivide) {
  Random random(2);
  for (const DType type : ComputedTypes()) {
    for (const uint32_t cols : ColumnsOf(type)) {
      for (const uint32_t outputs : {1u, 15u, 16u, 33u, 64u, 130u}) {
        ExpectSpecified({type, outputs, cols, outputs % 2 == 0 ? 9u : 1u}, random);
      }
    }
  }
}

TEST(Matmul, GivesTheSpecifiedBitsForExtremeWeights) {
  Random random(3);
  for (const DType type : ComputedTypes()) {
    if (!IsQuantised(type)) {
      continue;
    }
    for (const WeightKind kind : kWeightKinds) {
      ExpectSpecified({type, 20, 512, 8, kind}, random);
      ExpectSpecified({type, 70, 768, 1, kind}, random);
      ExpectSpecified({type, 20, 512, 4, kind}, random);
    }
  }
}

TEST(Matmul, MakesARowThatIsNotFiniteNanAndLeavesOthersAlone) {
  Random random(4);
  for (const DType type : ComputedTypes()) {
    Problem problem({type, 20, 512, 3}, random);
    problem.x[512 + 100] = std::numeric_limits<float>::infinity();
    problem.x[512 + 300] = std::numeric_limits<float>::quiet_NaN();
    for (const Isa isa : CpuIsas()) {
      const std::vector<float> out = problem.Run(isa);
      for (uint32_t n = 0; n < 20; ++n) {
        EXPECT_TRUE(Same(out[n], problem.expected[n])) << Describe(problem.c, isa);
        EXPECT_TRUE(std::isnan(out[20 + n])) << Describe(problem.c, isa);
        EXPECT_TRUE(Same(out[40 + n], problem.expected[40 + n])) << Describe(problem.c, isa);
      }
    }
  }
}

TEST(Matmul, WritesOnlyThePanelsAndRowsAskedForAndAddsTheBias) {
  Random random(5);
  const Case c = {DType::kQ4_1, 90, 288, 9};
  const Problem problem(c, random);
  std::vector<float> bias(c.outputs);
  for (float& b : bias) {
    b = RandomWeight(random);
  }
  for (const Isa isa : CpuIsas()) {
    const MatmulKernels& kernels = MatmulKernelsFor(isa);
    AlignedBytes buffer(ActivationBytes(ActivationClass::kInt8x32, c.rows, c.cols));
    const Activations activations = {.type = ActivationClass::kInt8x32,
                                     .rows = c.rows,
                                     .cols = c.cols,
                                     .data = buffer.data.get()};
    for (uint32_t r = 0; r < c.rows; ++r) {
      kernels.quantise(problem.x.data() + size_t{r} * c.cols, activations, r);
    }
    constexpr size_t kStride = 101;
    std::vector<float> out(c.rows * kStride, 77.0f);
    const Product product = {.weights = problem.packed.data.get(),
                             .outputs = c.outputs,
                             .maybe_bias = bias.data(),
                             .x = activations,
                             .row_begin = 2,
                             .row_end = 8,
                             .out = out.data(),
                             .out_stride = kStride};
    kernels.MultiplyOf(c.type)(product, 1, 2);
    kernels.MultiplyOf(c.type)(product, 4, 6);
    for (size_t r = 0; r < c.rows; ++r) {
      for (size_t n = 0; n < kStride; ++n) {
        const bool asked =
            r >= 2 && r < 8 && n < c.outputs && (n / 16 == 1 || n / 16 == 4 || n / 16 == 5);
        const float want = asked ? problem.expected[r * c.outputs + n] + bias[n] : 77.0f;
        ASSERT_TRUE(Same(out[r * kStride + n], want)) << IsaName(isa) << " " << r << " " << n;
      }
    }
  }
}

TEST(Matmul, SumsInAnotherOrderWhenToldTo) {
  Random random(6);
  for (const DType type : {DType::kQ8_0, DType::kQ4K, DType::kF16}) {
    const Case c = {type, 64, 1536, 8};
    const Problem problem(c, random);
    for (const Isa isa : CpuIsas()) {
      const MatmulKernels& kernels = MatmulKernelsFor(isa);
      AlignedBytes buffer(ActivationBytes(ClassOf(type), c.rows, c.cols));
      const Activations activations = {
          .type = ClassOf(type), .rows = c.rows, .cols = c.cols, .data = buffer.data.get()};
      for (uint32_t r = 0; r < c.rows; ++r) {
        kernels.quantise(problem.x.data() + size_t{r} * c.cols, activations, r);
      }
      std::vector<float> out(size_t{c.rows} * c.outputs);
      const Product product = {.weights = problem.packed.data.get(),
                               .outputs = c.outputs,
                               .x = activations,
                               .row_end = c.rows,
                               .out = out.data(),
                               .out_stride = c.outputs,
                               .wrong_order = true};
      kernels.MultiplyOf(type)(product, 0, 4);
      EXPECT_NE(out, problem.expected) << Describe(c, isa);
      EXPECT_NEAR(out[0], problem.expected[0], 1e-3f * std::abs(problem.expected[0]) + 1e-2f);
    }
  }
}

TEST(Matmul, QuantisesAlikeOnEveryIsa) {
  Random random(7);
  constexpr uint32_t kRows = 16;
  constexpr uint32_t kCols = 800;
  const std::vector<float> x = RandomActivations(kRows, kCols, random);
  for (const ActivationClass type :
       {ActivationClass::kFloat, ActivationClass::kInt8x32, ActivationClass::kInt8x256}) {
    const uint32_t cols = type == ActivationClass::kInt8x256 ? 768 : kCols;
    const size_t bytes = ActivationBytes(type, kRows, cols);
    std::vector<AlignedBytes> results;
    for (const Isa isa : CpuIsas()) {
      results.emplace_back(bytes);
      const Activations out = {
          .type = type, .rows = kRows, .cols = cols, .data = results.back().data.get()};
      for (uint32_t r = 0; r < kRows; ++r) {
        MatmulKernelsFor(isa).quantise(x.data() + size_t{r} * kCols, out, r);
      }
      EXPECT_EQ(std::memcmp(results.back().data.get(), results[0].data.get(), bytes), 0)
          << IsaName(isa);
    }
  }
}

TEST(Matmul, GathersRows) {
  Random random(8);
  const std::vector<float> x = RandomActivations(10, 320, random);
  const std::vector<uint32_t> picks = {7, 0, 7, 3};
  for (const ActivationClass type : {ActivationClass::kFloat, ActivationClass::kInt8x32}) {
    AlignedBytes all(ActivationBytes(type, 10, 320));
    AlignedBytes some(ActivationBytes(type, 4, 320));
    AlignedBytes expected(ActivationBytes(type, 4, 320));
    const Activations from = {.type = type, .rows = 10, .cols = 320, .data = all.data.get()};
    const Activations to = {.type = type, .rows = 4, .cols = 320, .data = some.data.get()};
    const Activations want = {.type = type, .rows = 4, .cols = 320, .data = expected.data.get()};
    const MatmulKernels& kernels = MatmulKernelsFor(Isa::kScalar);
    for (uint32_t r = 0; r < 10; ++r) {
      kernels.quantise(x.data() + r * 320, from, r);
    }
    for (uint32_t i = 0; i < 4; ++i) {
      kernels.quantise(x.data() + picks[i] * 320, want, i);
    }
    GatherRows(from, picks, to);
    EXPECT_EQ(std::memcmp(some.data.get(), expected.data.get(), ActivationBytes(type, 4, 320)), 0);
  }
}

TEST(Pack, GivesEveryRowBackExactly) {
  Random random(9);
  for (const DType type : ComputedTypes()) {
    for (const uint32_t cols : ColumnsOf(type)) {
      const Problem problem({type, 35, cols, 1}, random);
      const auto row_bytes = static_cast<size_t>(RowBytes(type, cols));
      std::vector<std::byte> row(row_bytes);
      for (uint32_t n = 0; n < 35; ++n) {
        UnpackRow(type, cols, problem.packed.data.get(), n, row.data());
        ASSERT_EQ(std::memcmp(row.data(), problem.file.data() + n * row_bytes, row_bytes), 0)
            << DTypeName(type) << " " << cols << " row " << n;
      }
    }
  }
}

TEST(Pack, EmbedsRowsAsTheSpecificationDoes) {
  Random random(10);
  for (const DType type : ComputedTypes()) {
    for (const uint32_t cols : ColumnsOf(type)) {
      const Problem problem({type, 20, cols, 1}, random);
      const auto row_bytes = static_cast<size_t>(RowBytes(type, cols));
      std::vector<float> got(cols);
      std::vector<float> want(cols);
      for (const uint32_t n : {0u, 15u, 19u}) {
        spec::DequantiseRow(type, problem.file.data() + n * row_bytes, cols, want.data());
        EmbedRow(type, cols, problem.packed.data.get(), n, 1.0f, got.data());
        ExpectSame(got, want, std::string(DTypeName(type)));
        for (float& value : want) {
          value = value * 25.298221f;
        }
        EmbedRow(type, cols, problem.packed.data.get(), n, 25.298221f, got.data());
        ExpectSame(got, want, std::string(DTypeName(type)) + " scaled");
      }
    }
  }
}

TEST(Pack, TakesHardlyMoreThanTheFile) {
  for (const DType type : ComputedTypes()) {
    const auto file = static_cast<double>(RowBytes(type, 4096)) * 4096;
    EXPECT_LE(static_cast<double>(PackedBytes(type, 4096, 4096)), file * 1.02) << DTypeName(type);
    EXPECT_EQ(PanelBytes(type, 4096) % kPackAlignment, 0u);
  }
}

}  // namespace
}  // namespace fak::tensor::cpu
