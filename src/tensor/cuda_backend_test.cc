#include "tensor/cuda_backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensor/cpu/reference_test.h"
#include "tensor/cpu/scenarios_test.h"

// The GPU against the specification, bit for bit. Skipped, with the reason, where there is none.
namespace fak::tensor {
namespace {

using cpu::Cut;
using cpu::RandomTokens;
using cpu::Runner;
using cpu::ShapeNamed;
using cpu::TestModel;
using cpu::TestShape;

#define OPEN_GPU(backend)                     \
  auto backend = LoadCudaBackend(0);          \
  if (!backend) {                             \
    GTEST_SKIP() << (backend).error().detail; \
  }

constexpr DType kTypes[] = {DType::kF32,  DType::kF16,  DType::kBf16, DType::kQ8_0,
                            DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                            DType::kQ4K,  DType::kQ5K,  DType::kQ6K};

// What the CPU's tests run, and every type in every place, in rows that aren't whole groups of 256
// where the type allows it.
std::vector<TestShape> Shapes() {
  std::vector<TestShape> shapes = cpu::TestShapes();
  for (const DType type : kTypes) {
    const bool wide = InfoOf(type).block_elements == 256;
    shapes.push_back({.name = "all_" + std::string(DTypeName(type)),
                      .width = wide ? 512u : 352u,
                      .heads = {4, 2, 64},
                      .ff = wide ? 1280u : 608u,
                      .type = type,
                      .other_type = type,
                      .bias = true,
                      .tied = true});
  }
  return shapes;
}

class EveryShapeOnTheGpu : public testing::TestWithParam<TestShape> {};
INSTANTIATE_TEST_SUITE_P(CudaBackend, EveryShapeOnTheGpu, testing::ValuesIn(Shapes()),
                         [](const auto& shape) { return shape.param.name; });

// 300 positions: more than one split of 256.
TEST_P(EveryShapeOnTheGpu, GivesTheSpecificationsBitsHoweverCut) {
  const TestModel model(GetParam());
  for (const Cut& cut :
       {Cut{.block_size = 16, .chunk = 1}, Cut{.block_size = 32, .chunk = 7},
        Cut{.block_size = 256, .chunk = 64}, Cut{.block_size = 64, .chunk = 512}}) {
    OPEN_GPU(gpu);
    SCOPED_TRACE(Print(cut));
    const std::vector<int32_t> tokens = RandomTokens(300, model.shape().vocabulary, 5);
    const TestModel::Expected& expected = model.Run(tokens);
    Runner runner(model, cut, *std::move(gpu));
    Runner::Sequence sequence = runner.Start(tokens);
    runner.Finish(sequence, cut.chunk);
    ExpectEqual(expected, runner, sequence);
    EXPECT_EQ(runner.backend().kv_values_clamped(), expected.clamped);
  }
}

TEST_P(EveryShapeOnTheGpu, GivesTheSameBitsAloneAndInABatch) {
  OPEN_GPU(gpu);
  const TestModel model(GetParam());
  Runner runner(model, {.block_size = 16}, *std::move(gpu));
  cpu::ExpectSameBitsInABatch(model, runner);
}

TEST(CudaBackend, ContinuesFromCopiedBlocksAsIfItHadComputedThem) {
  OPEN_GPU(gpu);
  const TestModel model(ShapeNamed("plain"));
  Runner runner(model, {.block_size = 64}, *std::move(gpu));
  cpu::ExpectContinuesFromCopiedBlocks(model, runner, 64);
}

TEST(CudaBackend, ContinuesFromKvOfTheCpu) {
  OPEN_GPU(gpu);
  const TestModel model(ShapeNamed("gemma"));
  Runner prefill(model, {.block_size = 16, .chunk = 60});
  Runner decode(model, {.block_size = 64}, *std::move(gpu));
  cpu::ExpectContinuesFromKv(model, prefill, decode);
}

TEST(CudaBackend, EndsOnlyTheSequenceThatIsNotFinite) {
  OPEN_GPU(gpu);
  const TestModel model(ShapeNamed("quantised32"));
  Runner runner(model, {.block_size = 16}, *std::move(gpu));
  cpu::ExpectEndsOnlyWhatIsNotFinite(model, runner);
}

TEST(CudaBackend, CountsKvValuesThatItClamped) {
  OPEN_GPU(gpu);
  const TestModel model(cpu::ShapeThatClamps());
  Runner runner(model, {.block_size = 16}, *std::move(gpu));
  cpu::ExpectCountsWhatItClamped(model, runner);
}

// Two back ends draw the same tokens, the next step fed by what the last one drew.
TEST(CudaBackend, DrawsTheTokensThatTheCpuDraws) {
  OPEN_GPU(gpu);
  const TestModel model(ShapeNamed("plain"));
  const auto draw = [](Runner& runner) {
    const Runner::Sequence sequence = runner.Start(std::vector<int32_t>(40, 7));
    std::vector<int32_t> drawn = {7, 8, 9};
    for (uint32_t position = 0; position < 40;) {
      const std::vector<int32_t> tokens =
          position == 0 ? drawn : std::vector{FromPreviousSample(0)};
      const auto n = static_cast<uint32_t>(tokens.size());
      const std::vector<SequenceRows> rows = {
          {.first_row = 0, .rows = n, .first_position = position, .blocks = sequence.blocks}};
      const std::vector<uint32_t> logit_rows = {n - 1};
      position += n;
      const std::vector<SampleSpec> samples = {
          {.seed = 5, .position = position, .top_p = 0.9f, .top_logprobs = 2}};
      EXPECT_TRUE(runner.executable().Submit({tokens, rows, logit_rows, samples}).has_value());
      const Result<StepOutput> output = runner.executable().Wait();
      EXPECT_TRUE(output.has_value());
      drawn.push_back(output->samples[0].token);
    }
    return drawn;
  };
  Runner cpu(model, {.block_size = 16});
  Runner on_gpu(model, {.block_size = 16}, *std::move(gpu));
  EXPECT_EQ(draw(cpu), draw(on_gpu));
}

TEST(CudaBackend, RefusesByNameWhatItDoesNotCompute) {
  OPEN_GPU(gpu);
  for (const DTypeInfo& info : AllDTypes()) {
    const bool computed = std::ranges::find(kTypes, info.type) != std::end(kTypes);
    const Status supported = (*gpu)->Supports(info.type);
    ASSERT_EQ(supported.has_value(), computed) << info.name;
    if (!computed) {
      EXPECT_EQ(supported.error().code, Code::kUnsupported);
      EXPECT_NE(supported.error().detail.find(info.name), std::string::npos);
    }
  }
}

TEST(CudaBackend, SaysWhatDoesNotFitInNumbers) {
  OPEN_GPU(gpu);
  const Status created = (*gpu)->CreateKv(
      {.layers = {{8, 128}}, .block_size = 256, .blocks = 0x7fffffff, .state_floats = {}});
  ASSERT_FALSE(created.has_value());
  EXPECT_EQ(created.error().code, Code::kResourceExhausted);
  EXPECT_NE(created.error().detail.find(" MiB don't fit on the GPU"), std::string::npos);
}

TEST(CudaBackend, SaysThatThereIsNoSuchDevice) {
  OPEN_GPU(gpu);
  const auto other = LoadCudaBackend(99);
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code, Code::kUnavailable);
  EXPECT_NE(other.error().detail.find("no GPU 99"), std::string::npos);
}

}  // namespace
}  // namespace fak::tensor
