#include "tensor/cpu/scenarios_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace fak::tensor::cpu {

TestShape ShapeNamed(const std::string& name) {
  const std::vector<TestShape> shapes = TestShapes();
  return *std::ranges::find(shapes, name, &TestShape::name);
}

void ExpectSameBitsInABatch(const TestModel& model, Runner& runner) {
  std::vector<Runner::Sequence> sequences;
  std::vector<Runner::Sequence*> all;
  for (uint32_t i = 0; i < 6; ++i) {
    sequences.push_back(runner.Start(RandomTokens(9 + 7 * i, model.shape().vocabulary, i)));
  }
  for (Runner::Sequence& sequence : sequences) {
    all.push_back(&sequence);
  }
  // Everyone brings up to 5 rows until it is done.
  while (!all.empty()) {
    runner.Step(all, 5);
    std::erase_if(all, [](const auto* s) { return s->done == s->tokens.size(); });
  }
  for (const Runner::Sequence& sequence : sequences) {
    ExpectEqual(model.Run(sequence.tokens), runner, sequence);
  }
}

void ExpectContinuesFromCopiedBlocks(const TestModel& model, Runner& runner, uint32_t block_size) {
  std::vector<int32_t> tokens = RandomTokens(50, 101, 3);
  Runner::Sequence first = runner.Start(tokens);
  runner.Finish(first, 8);
  // A second sequence shares the first 39 positions: whole blocks as they are, the last copied.
  for (size_t i = 39; i < tokens.size(); ++i) {
    tokens[i] = (tokens[i] + 1) % 101;
  }
  Runner::Sequence second = runner.Start(tokens);
  const uint32_t whole = 39 / block_size;
  for (uint32_t i = 0; i < whole; ++i) {
    second.blocks[i] = first.blocks[i];
  }
  runner.backend().CopyBlock(first.blocks[whole], second.blocks[whole], 39 % block_size);
  second.done = 39;
  second.logits.assign(first.logits.begin(), first.logits.begin() + 39);
  runner.Finish(second, 4);
  ExpectEqual(model.Run(tokens), runner, second);
  ExpectEqual(model.Run(first.tokens), runner, first);
}

void ExpectContinuesFromKv(const TestModel& model, Runner& prefill, Runner& decode) {
  const std::vector<int32_t> tokens = RandomTokens(60, 101, 4);
  Runner::Sequence from = prefill.Start({tokens.begin(), tokens.begin() + 45});
  prefill.Finish(from, 45);
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

void ExpectEndsOnlyWhatIsNotFinite(const TestModel& model, Runner& runner) {
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

TestShape ShapeThatClamps() {
  TestShape shape = ShapeNamed("quantised256");
  shape.bias_scale = 1e5f;
  return shape;
}

void ExpectCountsWhatItClamped(const TestModel& model, Runner& runner) {
  const std::vector<int32_t> tokens = RandomTokens(5, 101, 1);
  const TestModel::Expected& expected = model.Run(tokens);
  ASSERT_GT(expected.clamped, 0u);
  Runner::Sequence sequence = runner.Start(tokens);
  runner.Finish(sequence, 5);
  EXPECT_EQ(runner.backend().kv_values_clamped(), expected.clamped);
  ExpectEqual(expected, runner, sequence);
}

}  // namespace fak::tensor::cpu
