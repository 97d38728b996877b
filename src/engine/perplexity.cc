#include "engine/perplexity.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "text/tokenizer.h"

namespace fak::engine {
namespace {

struct Sums {
  double nll = 0.0;
  double nll_squared = 0.0;
  uint64_t count = 0;

  void Add(double one) {
    nll += one;
    nll_squared += one * one;
    ++count;
  }
  double perplexity() const { return std::exp(nll / static_cast<double>(count)); }
  double error() const {
    const auto n = static_cast<double>(count);
    const double mean = nll / n;
    const double variance = std::max(0.0, nll_squared / n - mean * mean);
    return perplexity() * std::sqrt(variance / (n - 1.0));
  }
};

// Runs one window from position 0 and scores its second half.
Status ScoreWindow(LoadedEngine& engine, std::span<const int32_t> tokens,
                   std::span<const tensor::BlockId> blocks, Sums& sums) {
  const auto window = static_cast<uint32_t>(tokens.size());
  const uint32_t first_scored = window / 2;
  const uint32_t rows_max = engine.options.scheduler.max_num_batched_tokens;
  const uint32_t logits_max = engine.options.scheduler.logit_rows_max();
  uint32_t at = 0;
  while (at + 1 < window) {  // the last token predicts nothing that is known
    const bool scores = at >= first_scored;
    const uint32_t end = scores ? std::min(window - 1, at + std::min(rows_max, logits_max))
                                : std::min(first_scored, at + rows_max);
    const tensor::SequenceRows rows{0, end - at, at, blocks, tensor::kNoState};
    std::vector<uint32_t> logit_rows;
    std::vector<tensor::SampleSpec> specs;
    for (uint32_t position = at; scores && position < end; ++position) {
      logit_rows.push_back(position - at);
      tensor::SampleSpec& spec = specs.emplace_back();
      spec.score_token = tokens[position + 1];
      spec.top_logprobs = 0;
    }
    TRY(engine.executable->Submit({.tokens = tokens.subspan(at, end - at),
                                   .sequences = {&rows, 1},
                                   .logit_rows = logit_rows,
                                   .samples = specs}));
    TRY_ASSIGN(const tensor::StepOutput output, engine.executable->Wait());
    if (output.finite[0] == 0) {
      return Fail(Code::kInternal, "the model computed a value that is not finite");
    }
    for (const tensor::SampleResult& sample : output.samples) {
      sums.Add(-static_cast<double>(sample.logprob));
    }
    at = end;
  }
  return {};
}

}  // namespace

Result<PerplexityReport> MeasurePerplexity(
    LoadedEngine& engine, std::span<const int32_t> tokens, uint32_t window,
    const std::function<void(uint32_t, uint32_t, double)>& on_window) {
  if (window < 4 || window % 2 != 0 || window > engine.plan.context) {
    return Fail(Code::kInvalidArgument, "--window must be even, from 4 to the context of " +
                                            std::to_string(engine.plan.context));
  }
  const auto windows = static_cast<uint32_t>(tokens.size() / window);
  if (windows < 2) {
    return Fail(Code::kInvalidArgument, "the text has " + std::to_string(tokens.size()) +
                                            " tokens; at least " + std::to_string(2 * window) +
                                            " are needed for --window " + std::to_string(window) +
                                            "; a smaller one needs fewer");
  }
  const uint32_t block_size = engine.options.scheduler.block_size;
  std::vector<tensor::BlockId> blocks;
  for (uint32_t i = 0; i * block_size < window; ++i) {
    blocks.push_back(tensor::BlockId{i});
  }
  const text::Tokenizer& tokenizer = *engine.card->tokenizer;
  Sums sums;
  for (uint32_t i = 0; i < windows; ++i) {
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(i) * window;
    std::vector<int32_t> part(begin, begin + window);
    if (tokenizer.add_bos()) {
      part.front() = tokenizer.bos();
    }
    TRY(ScoreWindow(engine, part, blocks, sums));
    if (on_window) {
      on_window(i + 1, windows, sums.perplexity());
    }
  }
  return PerplexityReport{sums.perplexity(), sums.error(), sums.count, windows};
}

}  // namespace fak::engine
