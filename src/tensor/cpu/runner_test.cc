#include "tensor/cpu/runner_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tensor/spec/random.h"

namespace fak::tensor::cpu {
namespace {

constexpr uint32_t kBlocks = 256;
constexpr StepLimits kLimits = {
    .rows_max = 512, .sequences_max = 16, .logit_rows_max = 512, .positions_max = 1024};

}  // namespace

std::vector<int32_t> RandomTokens(uint32_t n, uint32_t vocabulary, uint64_t seed) {
  std::vector<int32_t> tokens;
  for (uint32_t i = 0; i < n; ++i) {
    tokens.push_back(static_cast<int32_t>(spec::SampleBits(seed, 1, i) % vocabulary));
  }
  return tokens;
}

std::string Print(const Cut& cut) {
  return std::string(IsaName(cut.isa)) + " threads " + std::to_string(cut.threads) + " block " +
         std::to_string(cut.block_size) + " chunk " + std::to_string(cut.chunk);
}

Runner::Runner(const TestModel& model, const Cut& cut, bool wrong_order)
    : Runner(model, cut, std::move(CreateCpuBackend({cut.isa, cut.threads, wrong_order})).value()) {
}

Runner::Runner(const TestModel& model, const Cut& cut, std::unique_ptr<Backend> backend)
    : model_(model), cut_(cut), backend_(std::move(backend)) {
  Program program = model.Load(*backend_);
  const Status status = backend_->CreateKv(model.Kv(cut.block_size, kBlocks));
  CHECK(status.has_value()) << status.error().detail;
  executable_ = std::move(backend_->Compile(std::move(program), kLimits)).value();
}

Runner::Sequence Runner::Start(std::vector<int32_t> tokens) {
  Sequence sequence;
  const auto n = static_cast<uint32_t>(tokens.size() + cut_.block_size - 1) / cut_.block_size;
  for (uint32_t i = 0; i < n; ++i) {
    sequence.blocks.push_back(BlockId{next_block_++ * 77 % kBlocks});
  }
  sequence.tokens = std::move(tokens);
  return sequence;
}

void Runner::Step(const std::vector<Sequence*>& sequences, uint32_t chunk) {
  std::vector<int32_t> tokens;
  std::vector<SequenceRows> rows;
  std::vector<uint32_t> logit_rows;
  for (Sequence* s : sequences) {
    const uint32_t n = std::min(chunk, static_cast<uint32_t>(s->tokens.size()) - s->done);
    rows.push_back({.first_row = static_cast<uint32_t>(tokens.size()),
                    .rows = n,
                    .first_position = s->done,
                    .blocks = s->blocks});
    for (uint32_t i = 0; i < n; ++i) {
      logit_rows.push_back(static_cast<uint32_t>(tokens.size()));
      tokens.push_back(s->tokens[s->done + i]);
    }
  }
  ASSERT_TRUE(executable_->Submit({tokens, rows, logit_rows, {}}));
  const Result<StepOutput> output = executable_->Wait();
  ASSERT_TRUE(output.has_value());
  finite_.assign(output->finite.begin(), output->finite.end());
  uint32_t row = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    for (uint32_t n = 0; n < rows[i].rows; ++n) {
      std::vector<float> logits(model_.shape().vocabulary);
      executable_->ReadLogits(row++, logits);
      sequences[i]->logits.push_back(std::move(logits));
    }
    sequences[i]->done += rows[i].rows;
  }
}

void Runner::Finish(Sequence& sequence, uint32_t chunk) {
  while (sequence.done < sequence.tokens.size()) {
    Step({&sequence}, chunk);
    ASSERT_EQ(finite_[0], 1);
  }
}

std::vector<std::byte> Runner::Kv(const Sequence& sequence, uint32_t layer, KvPart part) const {
  const HeadShape& heads = model_.shape().heads;
  const size_t position = size_t{heads.kv_heads} * heads.dim * KvTypeBytes(model_.shape().kv_type);
  std::vector<std::byte> out(position * sequence.done);
  for (uint32_t first = 0; first < sequence.done; first += cut_.block_size) {
    const uint32_t n = std::min(cut_.block_size, sequence.done - first);
    backend_->ReadKv(sequence.blocks[first / cut_.block_size], layer, part, 0, n,
                     std::span(out).subspan(first * position, n * position));
  }
  return out;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void ExpectEqual(const TestModel::Expected& expected, const Runner& runner,
                 const Runner::Sequence& sequence) {
  ASSERT_LE(sequence.logits.size(), expected.logits.size());
  for (size_t p = 0; p < sequence.logits.size(); ++p) {
    ASSERT_TRUE(SameBits(expected.logits[p], sequence.logits[p])) << "logits of position " << p;
  }
  for (uint32_t layer = 0; layer < expected.keys.size(); ++layer) {
    const std::vector<std::byte> keys = runner.Kv(sequence, layer, KvPart::kKey);
    const std::vector<std::byte> values = runner.Kv(sequence, layer, KvPart::kValue);
    ASSERT_TRUE(std::equal(keys.begin(), keys.end(), expected.keys[layer].begin())) << layer;
    ASSERT_TRUE(std::equal(values.begin(), values.end(), expected.values[layer].begin())) << layer;
  }
}

}  // namespace fak::tensor::cpu
