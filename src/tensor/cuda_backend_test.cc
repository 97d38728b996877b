#include "tensor/cuda_backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensor/cpu/reference_test.h"
#include "tensor/cpu/runner_test.h"

// The GPU against the specification, bit for bit. Skipped, with the reason, where there is none.
namespace fak::tensor {
namespace {

using cpu::Cut;
using cpu::RandomTokens;
using cpu::Runner;
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
  TestModel::Expected expected;
  for (const Cut& cut :
       {Cut{.block_size = 16, .chunk = 1}, Cut{.block_size = 32, .chunk = 7},
        Cut{.block_size = 256, .chunk = 64}, Cut{.block_size = 64, .chunk = 512}}) {
    OPEN_GPU(gpu);
    SCOPED_TRACE(Print(cut));
    const std::vector<int32_t> tokens = RandomTokens(300, model.shape().vocabulary, 5);
    if (expected.logits.empty()) {
      expected = model.Run(tokens);
    }
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
  std::vector<Runner::Sequence> sequences;
  std::vector<Runner::Sequence*> all;
  for (uint32_t i = 0; i < 6; ++i) {
    sequences.push_back(runner.Start(RandomTokens(9 + 7 * i, model.shape().vocabulary, i)));
  }
  for (Runner::Sequence& sequence : sequences) {
    all.push_back(&sequence);
  }
  while (!all.empty()) {
    runner.Step(all, 5);
    std::erase_if(all, [](const auto* s) { return s->done == s->tokens.size(); });
  }
  for (const Runner::Sequence& sequence : sequences) {
    ExpectEqual(model.Run(sequence.tokens), runner, sequence);
  }
}

TestShape ShapeNamed(const std::string& name) {
  const std::vector<TestShape> shapes = cpu::TestShapes();
  return *std::ranges::find(shapes, name, &TestShape::name);
}

TEST(CudaBackend, ContinuesFromCopiedBlocksAsIfItHadComputedThem) {
  OPEN_GPU(gpu);
  const TestModel model(ShapeNamed("plain"));
  Runner runner(model, {.block_size = 64}, *std::move(gpu));
  std::vector<int32_t> tokens = RandomTokens(50, 101, 3);
  Runner::Sequence first = runner.Start(tokens);
  runner.Finish(first, 8);
  for (size_t i = 39; i < tokens.size(); ++i) {
    tokens[i] = (tokens[i] + 1) % 101;
  }
  Runner::Sequence second = runner.Start(tokens);
  runner.backend().CopyBlock(first.blocks[0], second.blocks[0], 39);
  second.done = 39;
  second.logits.assign(first.logits.begin(), first.logits.begin() + 39);
  runner.Finish(second, 4);
  ExpectEqual(model.Run(tokens), runner, second);
  ExpectEqual(model.Run(first.tokens), runner, first);
}

TEST(CudaBackend, ContinuesFromKvOfTheCpu) {
  OPEN_GPU(gpu);
  const TestModel model(ShapeNamed("gemma"));
  const std::vector<int32_t> tokens = RandomTokens(60, 101, 4);
  Runner prefill(model, {.block_size = 16, .chunk = 60});
  Runner::Sequence from = prefill.Start({tokens.begin(), tokens.begin() + 45});
  prefill.Finish(from, 45);
  Runner decode(model, {.block_size = 64}, *std::move(gpu));
  Runner::Sequence to = decode.Start(tokens);
  for (uint32_t layer = 0; layer < model.shape().layers; ++layer) {
    for (const KvPart part : {KvPart::kKey, KvPart::kValue}) {
      decode.backend().WriteKv(to.blocks[0], layer, part, 0, 45, prefill.Kv(from, layer, part));
    }
  }
  to.done = 45;
  to.logits = from.logits;
  decode.Finish(to, 1);
  ExpectEqual(model.Run(tokens), decode, to);
}

TEST(CudaBackend, EndsOnlyTheSequenceThatIsNotFinite) {
  OPEN_GPU(gpu);
  const TestModel model(ShapeNamed("quantised32"));
  Runner runner(model, {.block_size = 16}, *std::move(gpu));
  Runner::Sequence good = runner.Start(RandomTokens(12, 101, 1));
  Runner::Sequence bad = runner.Start(RandomTokens(12, 101, 2));
  runner.Step({&good, &bad}, 8);
  EXPECT_EQ(runner.finite(), (std::vector<uint8_t>{1, 1}));
  const uint16_t nan = 0x7e00;
  std::vector<std::byte> row(size_t{model.shape().heads.dim} * 2);
  for (size_t i = 0; i < row.size(); i += 2) {
    std::memcpy(row.data() + i, &nan, 2);
  }
  runner.backend().WriteKv(bad.blocks[0], 1, KvPart::kValue, 5, 1, row);
  runner.Step({&bad, &good}, 4);
  EXPECT_EQ(runner.finite(), (std::vector<uint8_t>{0, 1}));
  ExpectEqual(model.Run(good.tokens), runner, good);
}

TEST(CudaBackend, CountsKvValuesThatItClamped) {
  OPEN_GPU(gpu);
  TestShape shape = ShapeNamed("quantised256");
  shape.bias_scale = 1e5f;
  const TestModel model(shape);
  const std::vector<int32_t> tokens = RandomTokens(5, 101, 1);
  const TestModel::Expected expected = model.Run(tokens);
  ASSERT_GT(expected.clamped, 0u);
  Runner runner(model, {.block_size = 16}, *std::move(gpu));
  Runner::Sequence sequence = runner.Start(tokens);
  runner.Finish(sequence, 5);
  EXPECT_EQ(runner.backend().kv_values_clamped(), expected.clamped);
  ExpectEqual(expected, runner, sequence);
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
