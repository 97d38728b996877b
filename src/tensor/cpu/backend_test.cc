#include "tensor/cpu_backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensor/cpu/reference_test.h"
#include "tensor/cpu/scenarios_test.h"

namespace fak::tensor::cpu {
namespace {

std::vector<Cut> Cuts() {
  std::vector<Cut> cuts;
  for (const Isa isa : CpuIsas()) {
    cuts.push_back({isa, 1, 16, 1});
    cuts.push_back({isa, 2, 32, 7});
    cuts.push_back({isa, 3, 256, 64});
    cuts.push_back({isa, 2, 64, 512});
  }
  return cuts;
}

class EveryShape : public testing::TestWithParam<TestShape> {};
INSTANTIATE_TEST_SUITE_P(CpuBackend, EveryShape, testing::ValuesIn(TestShapes()),
                         [](const auto& shape) { return shape.param.name; });

// 300 positions: more than one split of 256, and tiles of 16 that aren't whole.
TEST_P(EveryShape, GivesTheSpecificationsBitsHoweverCut) {
  const TestModel model(GetParam());
  const std::vector<int32_t> tokens = RandomTokens(300, model.shape().vocabulary, 5);
  const TestModel::Expected& expected = model.Run(tokens);
  for (const Cut& cut : Cuts()) {
    SCOPED_TRACE(Print(cut));
    Runner runner(model, cut);
    Runner::Sequence sequence = runner.Start(tokens);
    runner.Finish(sequence, cut.chunk);
    ExpectEqual(expected, runner, sequence);
  }
}

TEST_P(EveryShape, GivesTheSameBitsAloneAndInABatch) {
  const TestModel model(GetParam());
  for (const Isa isa : CpuIsas()) {
    const Cut cut{isa, 3, 16, 1};
    SCOPED_TRACE(Print(cut));
    Runner runner(model, cut);
    ExpectSameBitsInABatch(model, runner);
  }
}

// Decode over more than two splits, each a task, beside a sequence that has one.
TEST(CpuBackend, GivesTheSameBitsWhenSplitsAreTasks) {
  for (const char* name : {"plain", "gemma"}) {
    const TestModel model(ShapeNamed(name));
    const std::vector<int32_t> tokens = RandomTokens(520, model.shape().vocabulary, 6);
    const TestModel::Expected& expected = model.Run(tokens);
    for (const Isa isa : CpuIsas()) {
      const Cut cut{isa, 3, 32, 1};
      SCOPED_TRACE(name + (" " + Print(cut)));
      Runner runner(model, cut);
      Runner::Sequence deep = runner.Start(tokens);
      Runner::Sequence shallow = runner.Start({tokens.begin(), tokens.begin() + 6});
      runner.Step({&deep}, 510);
      while (deep.done < 516) {
        runner.Step({&shallow, &deep}, 1);
      }
      runner.Finish(deep, 1);
      ExpectEqual(expected, runner, deep);
      ExpectEqual(expected, runner, shallow);
    }
  }
}

TEST(CpuBackend, ContinuesFromCopiedBlocksAsIfItHadComputedThem) {
  const TestModel model(ShapeNamed("plain"));
  for (const uint32_t block_size : {16u, 64u}) {
    Runner runner(model, {CpuIsas().back(), 2, block_size, 8});
    ExpectContinuesFromCopiedBlocks(model, runner, block_size);
  }
}

TEST(CpuBackend, ContinuesFromKvOfAnotherBackEndWithOtherBlocks) {
  const TestModel model(ShapeNamed("gemma"));
  Runner prefill(model, {Isa::kScalar, 1, 16, 60});
  Runner decode(model, {CpuIsas().back(), 2, 64, 1});
  ExpectContinuesFromKv(model, prefill, decode);
}

TEST(CpuBackend, EndsOnlyTheSequenceThatIsNotFinite) {
  const TestModel model(ShapeNamed("quantised32"));
  for (const Isa isa : CpuIsas()) {
    Runner runner(model, {isa, 2, 16, 8});
    ExpectEndsOnlyWhatIsNotFinite(model, runner);
  }
}

TEST(CpuBackend, CountsKvValuesThatItClamped) {
  const TestModel model(ShapeThatClamps());
  for (const Isa isa : CpuIsas()) {
    Runner runner(model, {isa, 2, 16, 1});
    ExpectCountsWhatItClamped(model, runner);
  }
}

TEST(CpuBackend, GivesOtherLogitsWhenASumsOrderIsWrong) {
  for (const Isa isa : CpuIsas()) {
    TestShape shape = ShapeNamed("plain");
    shape.ff = 1600;  // more than two chunks, or order couldn't matter
    const TestModel model(shape);
    Runner right(model, {isa, 1, 16, 8});
    Runner wrong(model, {isa, 1, 16, 8}, /*wrong_order=*/true);
    Runner::Sequence a = right.Start(RandomTokens(8, 101, 1));
    Runner::Sequence b = wrong.Start(a.tokens);
    right.Finish(a, 8);
    wrong.Finish(b, 8);
    EXPECT_FALSE(SameBits(a.logits.back(), b.logits.back())) << IsaName(isa);
  }
}

// A decode loop that never looks at the tokens it feeds back.
TEST(CpuBackend, TakesTokensFromThePreviousStep) {
  const TestModel model(ShapeNamed("plain"));
  Runner runner(model, {CpuIsas().back(), 2, 16, 1});
  Runner::Sequence sequence = runner.Start(std::vector<int32_t>(20, 7));
  std::vector<int32_t> seen = {7, 8, 9};
  const std::vector<int32_t> prompt = seen;
  for (uint32_t position = 0; position < 20;) {
    const bool first = position == 0;
    const std::vector<int32_t> tokens = first ? prompt : std::vector{FromPreviousSample(0)};
    const std::vector<SequenceRows> rows = {{.first_row = 0,
                                             .rows = static_cast<uint32_t>(tokens.size()),
                                             .first_position = position,
                                             .blocks = sequence.blocks}};
    const std::vector<uint32_t> logit_rows = {static_cast<uint32_t>(tokens.size() - 1)};
    position += static_cast<uint32_t>(tokens.size());
    const std::vector<SampleSpec> samples = {{.seed = 5, .position = position}};
    ASSERT_TRUE(runner.executable().Submit({tokens, rows, logit_rows, samples}));
    const Result<StepOutput> output = runner.executable().Wait();
    ASSERT_TRUE(output.has_value());
    ASSERT_EQ(output->samples.size(), 1u);
    ASSERT_GE(output->samples[0].token, 0);
    seen.push_back(output->samples[0].token);
  }
  seen.pop_back();
  sequence.done = 20;
  ExpectEqual(model.Run(seen), runner, sequence);
}

// A draw from it would find no candidate.
TEST(CpuBackendDeathTest, TakesNoSamplingOutOfItsRange) {
  const TestModel model(ShapeNamed("plain"));
  Runner runner(model, {CpuIsas().back(), 1, 16, 1});
  const Runner::Sequence sequence = runner.Start({7});
  const std::vector<SequenceRows> rows = {
      {.first_row = 0, .rows = 1, .first_position = 0, .blocks = sequence.blocks}};
  const std::vector<uint32_t> logit_rows = {0};
  for (const SampleSpec& spec :
       {SampleSpec{.min_p = 5.0f}, SampleSpec{.min_p = std::numeric_limits<float>::quiet_NaN()},
        SampleSpec{.temperature = -1.0f}, SampleSpec{.top_p = 0.0f}, SampleSpec{.typical_p = 1.5f},
        SampleSpec{.repetition_penalty = 0.0f}}) {
    EXPECT_DEATH(static_cast<void>(runner.executable().Submit(
                     {sequence.tokens, rows, logit_rows, std::span(&spec, 1)})),
                 "min_p|temperature|top_p|typical_p|penalties");
  }
}

TEST(CpuBackend, NamesTheKernelsOfAProgramOnce) {
  const TestModel model(ShapeNamed("mixed_classes"));
  Runner runner(model, {Isa::kScalar, 1, 16, 1});
  const std::vector<std::string> lines = runner.executable().Kernels();
  EXPECT_NE(std::ranges::find(lines, "norm_qkv: q5_k scalar"), lines.end());
  EXPECT_NE(std::ranges::find(lines, "attention: scalar"), lines.end());
  EXPECT_NE(std::ranges::find(lines, "sample: scalar"), lines.end());
  for (const std::string& line : lines) {
    EXPECT_EQ(std::ranges::count(lines, line), 1) << line;
  }
}

// A reader that fails at one row.
class FailingWeight final : public WeightReader {
 public:
  explicit FailingWeight(uint32_t bad_row) : bad_row_(bad_row) {}
  std::string_view name() const override { return "bad.weight"; }
  DType dtype() const override { return DType::kF32; }
  uint32_t rows() const override { return 3000; }
  uint32_t cols() const override { return 512; }
  Status ReadRows(uint32_t first, uint32_t count, std::span<std::byte> out) const override {
    std::ranges::fill(out, std::byte{0});
    if (first <= bad_row_ && bad_row_ < first + count) {
      return Fail(Code::kDataCorrupt, "cut short");
    }
    return {};
  }

 private:
  uint32_t bad_row_;
};

TEST(CpuBackend, PassesOnAReadersError) {
  const auto backend = std::move(CreateCpuBackend({Isa::kScalar, 2})).value();
  for (const uint32_t bad_row : {0u, 1500u, 2999u}) {
    const FailingWeight weight(bad_row);
    const std::vector<MatrixPart> parts = {{&weight}};
    const Result<MatrixId> id = backend->AddMatrix(parts);
    ASSERT_FALSE(id.has_value());
    EXPECT_EQ(id.error().code, Code::kDataCorrupt);
    EXPECT_EQ(id.error().detail, "cut short");
  }
}

TEST(CpuBackend, RefusesAnIsaThatTheMachineLacks) {
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kNeon}) {
    const std::vector<Isa> isas = CpuIsas();
    const bool offered = std::ranges::find(isas, isa) != isas.end();
    const auto backend = CreateCpuBackend({isa, 1});
    EXPECT_EQ(backend.has_value(), offered) << IsaName(isa);
    if (offered) {
      EXPECT_EQ((*backend)->info().isa, IsaName(isa));
      EXPECT_EQ((*backend)->info().threads, 1u);
      EXPECT_GT((*backend)->info().memory_total, (*backend)->info().memory_available);
    } else {
      EXPECT_EQ(backend.error().code, Code::kUnsupported);
    }
  }
}

// Those of this build for this kind of processor. Tests go through CpuIsas() and are silent about
// one that this machine lacks; this one is skipped then, and CMakeLists.txt makes it the ctest
// isa.NAME, so that the summary has it.
std::vector<Isa> BuiltIsas() {
#if defined(__aarch64__)
  return {Isa::kScalar, Isa::kNeon};
#elif defined(__x86_64__)
  return {Isa::kScalar, Isa::kAvx2, Isa::kAvx512};
#else
  return {Isa::kScalar};
#endif
}

class BuiltIsa : public testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(Here, BuiltIsa, testing::ValuesIn(BuiltIsas()),
                         [](const auto& isa) { return std::string(IsaName(isa.param)); });

TEST_P(BuiltIsa, IsAmongThoseTested) {
  const std::vector<Isa> isas = CpuIsas();
  if (std::ranges::find(isas, GetParam()) == isas.end()) {
    GTEST_SKIP() << "this machine has no " << IsaName(GetParam()) << ": its kernels are untested";
  }
  EXPECT_TRUE(CreateCpuBackend({GetParam(), 1}).has_value());
}

TEST(Isa, IsParsedByItsName) {
  for (const Isa isa : {Isa::kAuto, Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kNeon}) {
    EXPECT_EQ(ParseIsa(IsaName(isa)).value(), isa);
  }
  EXPECT_EQ(ParseIsa("sse2").error().field, "isa");
  EXPECT_EQ(CpuIsas().front(), Isa::kScalar);
}

TEST(CpuBackend, SupportsWhatIsComputed) {
  const auto backend = std::move(CreateCpuBackend({Isa::kScalar, 1})).value();
  for (const DTypeInfo& info : AllDTypes()) {
    EXPECT_EQ(backend->Supports(info.type).has_value(), IsComputed(info.type)) << info.name;
  }
}

}  // namespace
}  // namespace fak::tensor::cpu
