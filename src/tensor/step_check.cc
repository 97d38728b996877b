#include "tensor/step_check.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <string>

#include "base/sampling_ranges.h"

namespace fak::tensor {
namespace {

constexpr uint32_t kBlockSizeMin = 16;
constexpr uint32_t kBlockSizeMax = 256;

void CheckSample(const SampleSpec& spec) {
  namespace ranges = sampling_ranges;
  CHECK(ranges::kTemperature.Has(spec.temperature)) << "temperature " << spec.temperature;
  CHECK(ranges::kTopP.Has(spec.top_p)) << "top_p " << spec.top_p;
  CHECK(ranges::kMinP.Has(spec.min_p)) << "min_p " << spec.min_p;
  CHECK(ranges::kTypicalP.Has(spec.typical_p)) << "typical_p " << spec.typical_p;
  CHECK(ranges::kPresencePenalty.Has(spec.presence_penalty) &&
        ranges::kFrequencyPenalty.Has(spec.frequency_penalty) &&
        ranges::kRepetitionPenalty.Has(spec.repetition_penalty))
      << "penalties " << spec.presence_penalty << ", " << spec.frequency_penalty << ", "
      << spec.repetition_penalty;
}

}  // namespace

Status CheckKvSpec(const KvSpec& spec) {
  if (!std::has_single_bit(spec.block_size) || spec.block_size < kBlockSizeMin ||
      spec.block_size > kBlockSizeMax) {
    return Fail(
        Code::kInvalidArgument,
        "block size " + std::to_string(spec.block_size) + " isn't a power of two from 16 to 256",
        "block_size");
  }
  return {};
}

void CheckStep(const StepInput& step, const StepLimits& limits, const KvSpec& kv) {
  CHECK(!step.sequences.empty() && step.sequences.size() <= limits.sequences_max);
  CHECK(step.tokens.size() <= limits.rows_max);
  CHECK(step.logit_rows.size() <= limits.logit_rows_max);
  CHECK(step.samples.empty() || step.samples.size() == step.logit_rows.size());
  CHECK(std::ranges::adjacent_find(step.logit_rows, std::greater_equal<>()) ==
        step.logit_rows.end())
      << "logit rows don't ascend";
  CHECK(step.logit_rows.empty() || step.logit_rows.back() < step.tokens.size());
  std::ranges::for_each(step.samples, CheckSample);
  uint32_t next_row = 0;
  for (const SequenceRows& sequence : step.sequences) {
    CHECK(sequence.rows > 0 && sequence.first_row == next_row) << "rows aren't in order";
    next_row += sequence.rows;
    const uint64_t end = uint64_t{sequence.first_position} + sequence.rows;
    CHECK(end <= limits.positions_max) << "position beyond positions_max";
    CHECK(kv.layers.empty() || sequence.blocks.size() * kv.block_size >= end)
        << "blocks don't cover the rows";
  }
  CHECK(next_row == step.tokens.size()) << "sequences don't cover the rows";
}

}  // namespace fak::tensor
