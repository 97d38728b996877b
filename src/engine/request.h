#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "driver/engine_driver.h"
#include "engine/answer.h"
#include "engine/sampling.h"
#include "engine/sequence.h"

namespace fak::engine {

// One choice of a request.
struct Choice {
  Choice(const ResolvedSampling& sampling, const text::Tokenizer& tokenizer,
         const wire::SamplingParams& asked, int32_t choice_index, int32_t prompt_index)
      : index(choice_index),
        prompt(prompt_index),
        sampler(sampling, choice_index),
        answer(sampling, tokenizer, asked, choice_index) {}

  const int32_t index;
  const int32_t prompt;
  Sequence sequence;
  SamplingState sampler;
  Answer answer;
  std::vector<wire::TokenLogprobs> prompt_logprobs;  // the first not scored
  int64_t last_token_ns = 0;
  bool prompt_told = false;
  bool ended = false;
};

// A request inside the native engine: made by Admit() on the caller's thread, then the engine
// thread's alone.
struct Request {
  std::shared_ptr<const driver::Prepared> prepared;
  std::shared_ptr<driver::EventSink> sink;
  std::vector<ResolvedSampling> sampling;  // one a prompt (the room left differs)
  std::deque<Choice> choices;              // of all prompts; addresses are stable
  size_t live = 0;                         // choices that have not ended
  bool started = false;
  int64_t first_token_ns = 0;
  // Of an answer that was begun elsewhere: its text, its tokens, and how it ended there, if it did.
  std::string said;
  int32_t said_tokens = 0;
  std::optional<wire::Finish> finished;
  bool echoes() const {
    if (said_tokens > 0) {
      return false;  // it did there
    }
    return prepared->turn->echo || prepared->turn->return_token_ids ||
           prepared->turn->sampling.prompt_logprobs >= 0;
  }
};

// Checks the turn against the model and lays out its choices. Errors as EngineDriver::Admit.
// context: positions a sequence may have.
[[nodiscard]] Result<std::unique_ptr<Request>> MakeRequest(
    std::shared_ptr<const driver::Prepared> prepared, std::shared_ptr<driver::EventSink> sink,
    const text::ModelCard& card, uint32_t context, uint64_t drawn_seed);

}  // namespace fak::engine
