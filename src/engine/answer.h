#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/sampling.h"
#include "tensor/sampling.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"
#include "wire/event.h"

namespace fak::engine {

// The text of one choice while it is generated: tokens become whole characters, stop strings and
// stop tokens end it, log probabilities travel with the text of their tokens. Only what may still
// be part of a character or of a stop string is held back. Engine thread only.
class Answer {
 public:
  // Both outlive the answer.
  Answer(const ResolvedSampling& sampling, const text::Tokenizer& tokenizer,
         const wire::SamplingParams& asked, int32_t choice);

  // The prompt's text as an echo shows it, before the first Take(): a character that it begins and
  // doesn't end is left to the answer, or replaced where none follows.
  std::string EchoOf(std::string_view prompt, bool answer_follows);

  struct Step {
    std::optional<wire::TextDelta> delta;  // what can be sent now
    std::optional<wire::Finish> finish;    // the choice is over
  };
  // Takes the next token. room: how many more tokens the context holds after it.
  Step Take(const tensor::SampleResult& sample, int32_t room);
  // Takes the next token of an answer that was begun elsewhere. Its delta's text was sent then; no
  // later delta has the token.
  Step Replay(int32_t token, int32_t room);
  int32_t tokens() const { return tokens_; }

 private:
  Step Advance(int32_t token, int32_t room);
  wire::TextDelta TakePending(std::string text);

  const ResolvedSampling& sampling_;
  const text::Tokenizer& tokenizer_;
  const int32_t choice_;
  const bool include_stop_;
  text::Detokenizer detokenizer_;
  text::StopMatcher stops_;
  std::vector<std::string> stop_strings_;
  int32_t tokens_ = 0;
  std::vector<int32_t> pending_tokens_;
  std::vector<wire::TokenLogprobs> pending_logprobs_;
};

// The log probabilities of a sample in the neutral form, with each token's bytes.
wire::TokenLogprobs LogprobsOf(const tensor::SampleResult& sample,
                               const text::Tokenizer& tokenizer);

}  // namespace fak::engine
