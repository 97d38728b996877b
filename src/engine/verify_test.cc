#include "engine/verify.h"

#include <algorithm>
#include <bit>

#include <gtest/gtest.h>

#include "engine/test_support.h"
#include "engine/verify_run.h"

namespace fak::engine {
namespace {

using tensor::KvPart;

Trace SmallTrace(tensor::KvType type) {
  Trace trace;
  trace.layers = {{2, 4}, {1, 3}};
  trace.type = type;
  trace.positions = 3;
  trace.kv.resize((2 * 2 * 4 + 2 * 1 * 3) * 3 * tensor::KvTypeBytes(type));
  for (size_t i = 0; i < trace.kv.size(); ++i) {
    trace.kv[i] = static_cast<std::byte>(7 * i);
  }
  trace.vocabulary = 5;
  for (int i = 0; i < 10; ++i) {
    trace.logits.push_back(0.25f * static_cast<float>(i));
  }
  return trace;
}

TEST(Compare, FindsEveryFlippedBitOfKv) {
  for (const tensor::KvType type : {tensor::KvType::kF16, tensor::KvType::kF32}) {
    const Trace expected = SmallTrace(type);
    EXPECT_EQ(Compare(expected, expected).differing(), 0u);
    EXPECT_EQ(Compare(expected, expected).kv_values, 66u);
    for (size_t bit = 0; bit < 8 * expected.kv.size(); ++bit) {
      Trace actual = expected;
      actual.kv[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
      const Comparison found = Compare(expected, actual);
      EXPECT_EQ(found.kv_differing, 1u) << bit;
      EXPECT_EQ(found.logits_differing, 0u) << bit;
      EXPECT_FALSE(found.first.empty());
    }
  }
}

TEST(Compare, FindsEveryFlippedBitOfLogits) {
  const Trace expected = SmallTrace(tensor::KvType::kF16);
  for (size_t i = 0; i < expected.logits.size(); ++i) {
    for (uint32_t bit = 0; bit < 32; ++bit) {
      Trace actual = expected;
      actual.logits[i] =
          std::bit_cast<float>(std::bit_cast<uint32_t>(actual.logits[i]) ^ (1u << bit));
      EXPECT_EQ(Compare(expected, actual).logits_differing, 1u);
    }
  }
}

TEST(Compare, NamesTheFirstDifference) {
  const Trace expected = SmallTrace(tensor::KvType::kF16);
  Trace actual = expected;
  actual.logits[7] = -1.0f;
  EXPECT_EQ(Compare(expected, actual).first,
            "logits of generated token 1, element 2: 0xbf800000, expected 0x3fe00000");
  // Layer 1 begins after 2 parts of 3 positions of 2 heads of 4 values.
  const size_t value = 48 + 9 + 2 * 3 + 1;
  actual.kv[2 * value + 1] ^= std::byte{0x80};
  const Comparison found = Compare(expected, actual);
  EXPECT_EQ(found.first.substr(0, found.first.find(':')),
            "V of layer 1, position 2, head 0, element 1");
}

TEST(Compare, CountsWhatOnlyOneOfThemHas) {
  const Trace expected = SmallTrace(tensor::KvType::kF32);
  Trace actual = expected;
  actual.positions = 2;
  actual.kv.resize(actual.kv.size() / 3 * 2);
  actual.logits.resize(5);
  const Comparison found = Compare(expected, actual);
  EXPECT_EQ(found.kv_differing, 66u);
  EXPECT_EQ(found.logits_differing, 5u);
  EXPECT_GT(Compare(expected, Trace()).differing(), 0u);
  EXPECT_GT(Compare(Trace(), expected).differing(), 0u);
}

size_t Inexact(const VerifyReport& report) {
  return static_cast<size_t>(std::count_if(report.cells.begin(), report.cells.end(),
                                           [](const auto& cell) { return !cell.exact(); }));
}

TEST(Verify, FindsTheTinyModelExact) {
  uint32_t rows = 0;
  VerifyOptions options;
  options.cover = VerifyCover::kValues;
  options.on_cell = [&rows](const CellResult&) { ++rows; };
  const Result<VerifyReport> report = Verify(TinyModelPath(), options);
  ASSERT_TRUE(report) << report.error().detail;
  for (const CellResult& cell : report->cells) {
    EXPECT_TRUE(cell.exact()) << cell.failure << cell.comparison.first;
    EXPECT_FALSE(cell.kernels.empty());
    // 3 layers of 2 heads of 64, K and V; four rows of logits.
    EXPECT_EQ(cell.comparison.kv_values, (cell.prompt_tokens + 3) * 3 * 2 * 128u);
    EXPECT_EQ(cell.comparison.logit_values, 4u * 303);
  }
  for (const ControlResult& control : report->controls) {
    EXPECT_TRUE(control.noticed) << control.name;
  }
  EXPECT_TRUE(report->exact());
  EXPECT_EQ(rows, report->cells.size());
  EXPECT_EQ(report->controls.size(), 3u);
}

TEST(Verify, NoticesASumInAnotherOrderOnTwoThreads) {
  VerifyOptions options;
  options.cover = VerifyCover::kValues;
  options.make_backend = [](tensor::CpuOptions cpu) {
    cpu.wrong_order = cpu.wrong_order || cpu.threads == 2;
    return tensor::CreateCpuBackend(cpu);
  };
  const Result<VerifyReport> report = Verify(TinyModelPath(), options);
  ASSERT_TRUE(report) << report.error().detail;
  EXPECT_FALSE(report->exact());
  for (const CellResult& cell : report->cells) {
    EXPECT_EQ(cell.comparison.differing() == 0, cell.cell.threads != 2);
    EXPECT_EQ(cell.comparison.first.empty(), cell.cell.threads != 2);
  }
}

TEST(Verify, NoticesAControlThatDoesNotDiffer) {
  VerifyOptions options;
  options.cover = VerifyCover::kValues;
  options.make_backend = [](tensor::CpuOptions cpu) {
    cpu.wrong_order = false;
    return tensor::CreateCpuBackend(cpu);
  };
  const Result<VerifyReport> report = Verify(TinyModelPath(), options);
  ASSERT_TRUE(report) << report.error().detail;
  EXPECT_EQ(Inexact(*report), 0u);
  EXPECT_FALSE(report->exact());
  EXPECT_FALSE(report->controls.back().noticed);
}

TEST(Verify, RefusesAModelWithTooShortAContext) {
  const tiny::ModelShape shape = {.layers = 1,
                                  .width = 32,
                                  .heads = 1,
                                  .kv_heads = 1,
                                  .head_dim = 32,
                                  .ff = 32,
                                  .vocabulary = 303,
                                  .context = 512,
                                  .rope_base = 1e4f};
  tensor::GgufWriter writer;
  tiny::AddModel(shape, {}, {}, writer);
  tiny::AddVocabulary(tiny::ByteLevelVocabulary("gpt-2"), writer);
  const std::string path = TinyModelPath() + ".short";
  ASSERT_TRUE(writer.Write(path));
  const Result<VerifyReport> report = Verify(path, {});
  std::filesystem::remove(path);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kUnsupported);
}

// The paths of a cell with faults that only one of them would notice.
class RunCellTest : public ::testing::Test {
 protected:
  CellOutcome Run(LoadedEngine& engine, const VerifyCell& cell) {
    const uint32_t length = VerifyPromptTokens(VerifyCover::kValues, cell);
    return RunCell(
        engine, {.cell = cell, .prompt = {texts_.target.begin(), texts_.target.begin() + length}},
        texts_);
  }
  LoadedEngine Load(std::unique_ptr<tensor::Backend> backend) {
    auto engine = LoadEngine(TinyModelPath(), std::move(backend), VerifyEngineOptions({}));
    CHECK(engine.has_value()) << engine.error().detail;
    texts_ = MakeVerifyTexts(*engine->card->tokenizer).value();
    return *std::move(engine);
  }
  VerifyTexts texts_;
};

// A back end whose copies of blocks are empty.
class LosesCopies final : public tensor::Backend {
 public:
  LosesCopies() : inner_(tensor::CreateCpuBackend({.threads = 1}).value()) {}

  void CopyBlock(tensor::BlockId, tensor::BlockId, uint32_t) override {}

  tensor::BackendInfo info() const override { return inner_->info(); }
  uint64_t MatrixBytes(tensor::DType type, uint32_t rows, uint32_t cols) const override {
    return inner_->MatrixBytes(type, rows, cols);
  }
  uint64_t KvBlockBytes(const tensor::KvSpec& spec) const override {
    return inner_->KvBlockBytes(spec);
  }
  uint64_t WorkspaceBytes(const tensor::Program& program,
                          const tensor::StepLimits& limits) const override {
    return inner_->WorkspaceBytes(program, limits);
  }
  Status Supports(tensor::DType type) const override { return inner_->Supports(type); }
  Result<tensor::MatrixId> AddMatrix(std::span<const tensor::MatrixPart> parts) override {
    return inner_->AddMatrix(parts);
  }
  Result<tensor::VectorId> AddVector(const tensor::WeightReader& weight) override {
    return inner_->AddVector(weight);
  }
  Result<tensor::ExpertsId> AddExperts(const tensor::ExpertsSpec& spec) override {
    return inner_->AddExperts(spec);
  }
  tensor::RopeId AddRope(tensor::RopeSpec spec) override {
    return inner_->AddRope(std::move(spec));
  }
  Status CreateKv(const tensor::KvSpec& spec) override { return inner_->CreateKv(spec); }
  const tensor::KvSpec& kv() const override { return inner_->kv(); }
  void ReadKv(tensor::BlockId block, uint32_t layer, KvPart part, uint32_t first, uint32_t count,
              std::span<std::byte> out) const override {
    inner_->ReadKv(block, layer, part, first, count, out);
  }
  void WriteKv(tensor::BlockId block, uint32_t layer, KvPart part, uint32_t first, uint32_t count,
               std::span<const std::byte> in) override {
    inner_->WriteKv(block, layer, part, first, count, in);
  }
  uint64_t kv_values_clamped() const override { return inner_->kv_values_clamped(); }
  void ZeroState(tensor::StateSlot slot) override { inner_->ZeroState(slot); }
  void CopyState(tensor::StateSlot from, tensor::StateSlot to) override {
    inner_->CopyState(from, to);
  }
  void ReadState(tensor::StateSlot slot, uint32_t layer, std::span<float> out) const override {
    inner_->ReadState(slot, layer, out);
  }
  void WriteState(tensor::StateSlot slot, uint32_t layer, std::span<const float> in) override {
    inner_->WriteState(slot, layer, in);
  }
  Result<std::unique_ptr<tensor::Executable>> Compile(tensor::Program program,
                                                      const tensor::StepLimits& limits) override {
    return inner_->Compile(std::move(program), limits);
  }

 private:
  std::unique_ptr<tensor::Backend> inner_;
};

TEST_F(RunCellTest, OnlyTheHitInsideABlockNeedsCopies) {
  LoadedEngine engine = Load(std::make_unique<LosesCopies>());
  const Trace reference = Run(engine, {.chunk = 1}).trace;
  for (const KvPath path : {KvPath::kCold, KvPath::kHitAtEdge, KvPath::kHitAfterEviction,
                            KvPath::kPreempted, KvPath::kHitInBlock}) {
    const CellOutcome outcome = Run(engine, {.chunk = 1, .path = path});
    const bool wrong =
        !outcome.failure.empty() || Compare(reference, outcome.trace).differing() > 0;
    EXPECT_EQ(wrong, path == KvPath::kHitInBlock) << KvPathName(path) << ": " << outcome.failure;
  }
}

// Whoever ends gives blocks back, and in a large batch somebody ends in every few steps.
TEST_F(RunCellTest, PreemptsTheTargetInEveryBatch) {
  LoadedEngine engine = Load(tensor::CreateCpuBackend({}).value());
  for (const uint32_t batch : {1, 2, 3, 8, 16}) {
    for (const uint32_t chunk : {1, 7, 64, 512, 0}) {
      const CellOutcome outcome =
          Run(engine, {.batch = batch, .chunk = chunk, .path = KvPath::kPreempted});
      EXPECT_EQ(outcome.failure, "") << batch << " sequences, chunks of " << chunk;
    }
  }
}

// The engine is given a limit of rows that makes the steps smaller than the cell says.
TEST_F(RunCellTest, SaysWhenAStepWasNotTheCells) {
  EngineOptions options = VerifyEngineOptions({});
  options.scheduler.max_num_batched_tokens = 32;
  LoadedEngine engine = LoadTiny(options, {.threads = 1});
  texts_ = MakeVerifyTexts(*engine.card->tokenizer).value();
  EXPECT_EQ(Run(engine, {.chunk = 64, .isa = tensor::Isa::kScalar}).failure,
            "a step took 32 rows of the target, 64 expected");
  // A batch of 16 does not fit beside the target's rows: some of the others wait.
  EXPECT_NE(Run(engine, {.batch = 16, .chunk = 7}).failure, "");
}

TEST_F(RunCellTest, SaysWhenNothingCameFromTheCache) {
  EngineOptions options = VerifyEngineOptions({});
  options.scheduler.enable_prefix_caching = false;
  LoadedEngine engine = LoadTiny(options, {.threads = 1});
  texts_ = MakeVerifyTexts(*engine.card->tokenizer).value();
  for (const KvPath path : {KvPath::kHitAtEdge, KvPath::kHitInBlock, KvPath::kHitAfterEviction}) {
    EXPECT_NE(Run(engine, {.chunk = 7, .path = path, .isa = tensor::Isa::kScalar}).failure, "")
        << KvPathName(path);
  }
  EXPECT_EQ(Run(engine, {.chunk = 7, .isa = tensor::Isa::kScalar}).failure, "");
}

}  // namespace
}  // namespace fak::engine
