#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "tensor/sampling.h"
#include "text/model_card.h"
#include "text/tokenizer.h"
#include "wire/turn.h"

namespace fak::engine {

// What a request asked for, completed by the model's own defaults and then SampleSpec's (which are
// vLLM's), and checked against the vocabulary. Changed by CountPrompt() alone.
struct ResolvedSampling {
  tensor::SampleSpec spec;                    // all that is the same for every choice and token
  std::vector<tensor::TokenBias> bias;        // ascending ids
  std::vector<tensor::TokenBias> early_bias;  // until min_tokens: stop tokens banned too
  // Of the prompt, ascending ids; empty unless something penalises. Filled by CountPrompt().
  std::vector<tensor::TokenCount> prompt_counts;
  std::vector<int32_t> stop_tokens;      // ascending; ends of generation and the request's own
  std::vector<int32_t> own_stop_tokens;  // ascending; the request's own
  int32_t min_tokens = 0;
  int32_t max_tokens = 0;  // lowered to the context
  int32_t prompt_logprobs = -1;

  bool penalises() const {
    return spec.presence_penalty != 0.0f || spec.frequency_penalty != 0.0f ||
           spec.repetition_penalty != 1.0f;
  }
};

// room: tokens that may follow the prompt. drawn_seed: used when the request has none.
// kInvalidArgument names the field.
[[nodiscard]] Result<ResolvedSampling> ResolveSampling(const wire::SamplingParams& asked,
                                                       const text::ModelCard& card, int32_t room,
                                                       uint64_t drawn_seed);

// Counts the prompt for the penalties, once for all its choices.
void CountPrompt(std::span<const int32_t> prompt, ResolvedSampling& resolved);

// The part of a choice's sampling that changes token by token: counts for the penalties, and
// whether min_tokens were generated. Engine thread only.
class SamplingState {
 public:
  // resolved, with its prompt counted, outlives the state.
  SamplingState(const ResolvedSampling& resolved, int32_t choice)
      : resolved_(resolved), choice_(choice) {}

  // The spec of the token at `position`, the next one. Views live until Append() or the next call.
  tensor::SampleSpec Next(uint64_t position);
  // A token was generated.
  void Append(int32_t token);
  int32_t generated() const { return generated_; }

 private:
  const ResolvedSampling& resolved_;
  const int32_t choice_;
  int32_t generated_ = 0;
  std::vector<tensor::TokenCount> counts_;  // of prompt and output, from the first token on
};

}  // namespace fak::engine
