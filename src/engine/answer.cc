#include "engine/answer.h"

#include <algorithm>
#include <utility>

namespace fak::engine {

wire::TokenLogprobs LogprobsOf(const tensor::SampleResult& sample,
                               const text::Tokenizer& tokenizer) {
  wire::TokenLogprobs out;
  out.chosen = {sample.token, std::string(tokenizer.TokenBytes(sample.token)), sample.logprob,
                sample.rank};
  uint32_t rank = 0;
  for (const tensor::TokenLogprob& top : sample.top) {
    out.top.push_back(
        {top.token, std::string(tokenizer.TokenBytes(top.token)), top.logprob, ++rank});
  }
  return out;
}

Answer::Answer(const ResolvedSampling& sampling, const text::Tokenizer& tokenizer,
               const wire::SamplingParams& asked, int32_t choice)
    : sampling_(sampling),
      tokenizer_(tokenizer),
      choice_(choice),
      include_stop_(asked.include_stop_str_in_output),
      detokenizer_(tokenizer, {.skip_special = asked.skip_special_tokens}),
      stops_(asked.stop, asked.include_stop_str_in_output),
      stop_strings_(asked.stop) {}

wire::TextDelta Answer::TakePending(std::string text) {
  return {choice_, std::move(text), std::exchange(pending_tokens_, {}),
          std::exchange(pending_logprobs_, {})};
}

std::string Answer::EchoOf(std::string_view prompt, bool answer_follows) {
  std::string out;
  detokenizer_.FeedBytes(prompt, out);
  if (!answer_follows) {
    detokenizer_.Flush(out);
  }
  return out;
}

Answer::Step Answer::Take(const tensor::SampleResult& sample, int32_t room) {
  if (sampling_.spec.top_logprobs >= 0) {
    pending_logprobs_.push_back(LogprobsOf(sample, tokenizer_));
  }
  return Advance(sample.token, room);
}

Answer::Step Answer::Replay(int32_t token, int32_t room) {
  Step step = Advance(token, room);
  pending_tokens_.clear();
  return step;
}

Answer::Step Answer::Advance(int32_t token, int32_t room) {
  ++tokens_;
  pending_tokens_.push_back(token);
  const bool stops =
      std::binary_search(sampling_.stop_tokens.begin(), sampling_.stop_tokens.end(), token) &&
      tokens_ > sampling_.min_tokens;
  Step step;
  std::string text;
  std::string out;
  if (stops) {
    wire::Finish finish{.choice = choice_,
                        .reason = wire::FinishReason::kStop,
                        .stop_string = {},
                        .stop_token = {}};
    if (std::binary_search(sampling_.own_stop_tokens.begin(), sampling_.own_stop_tokens.end(),
                           token)) {
      finish.stop_token = token;
    }
    if (include_stop_) {
      detokenizer_.Feed(token, text);
    }
    step.finish = std::move(finish);
  } else {
    detokenizer_.Feed(token, text);
    if (tokens_ >= sampling_.max_tokens || room <= 0) {
      step.finish = wire::Finish{.choice = choice_,
                                 .reason = wire::FinishReason::kLength,
                                 .stop_string = {},
                                 .stop_token = {}};
    }
  }
  if (step.finish) {
    detokenizer_.Flush(text);
  }
  // As vLLM has it: text from before min_tokens is no part of a stop string.
  std::optional<size_t> stop;
  if (tokens_ > sampling_.min_tokens) {
    stop = stops_.Feed(text, out);
  } else {
    out = std::move(text);
  }
  if (stop) {
    step.finish = wire::Finish{.choice = choice_,
                               .reason = wire::FinishReason::kStop,
                               .stop_string = stop_strings_[*stop],
                               .stop_token = {}};
  } else if (step.finish) {
    stops_.Flush(out);
  }
  if (!out.empty() || (step.finish && !pending_tokens_.empty())) {
    step.delta = TakePending(std::move(out));
  }
  return step;
}

}  // namespace fak::engine
