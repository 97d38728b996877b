#include "engine/request.h"

#include <algorithm>

#include "base/limits.h"

namespace fak::engine {
namespace {

// Anything but "none" and "auto", which promise no call.
bool DemandsCall(const Json& choice) {
  return !choice.is_null() &&
         !(choice.is_string() && (choice.string() == "none" || choice.string() == "auto"));
}

Status CheckTurn(const wire::Turn& turn) {
  if (turn.tools.is_array() && turn.tools_field != "tools") {
    return Fail(Code::kUnsupported, turn.tools_field + " are not offered by this engine: use tools",
                turn.tools_field);
  }
  if (DemandsCall(turn.tool_choice)) {
    return Fail(
        Code::kUnsupported,
        "tool_choice: only \"auto\" and \"none\" are offered by this engine yet; to promise a "
        "call, it needs a grammar",
        "tool_choice");
  }
  if (turn.suffix && !turn.suffix->empty()) {
    return Fail(Code::kUnsupported, "suffix is not offered by this engine", "suffix");
  }
  if (turn.grammar) {
    return Fail(
        Code::kUnsupported,
        "structured output is not offered by this engine yet: leave it out, or stand in front of "
        "an engine that has it (fak serve --upstream URL)",
        turn.grammar->field);
  }
  if (!turn.unserved_field.empty()) {
    return Fail(Code::kUnsupported, turn.unserved_field + " is not offered by this engine",
                turn.unserved_field);
  }
  if (turn.stream && turn.sampling.prompt_logprobs >= 0) {
    return Fail(Code::kUnsupported, "prompt_logprobs come with whole answers, not with a stream",
                "prompt_logprobs");
  }
  if (turn.surface == wire::Surface::kEmbedding) {
    return Fail(Code::kUnsupported, "this model does not make embeddings", "model");
  }
  if (turn.n < 1 || turn.n > limits::kChoicesMax) {
    return Fail(Code::kInvalidArgument, "n must be 1 to " + std::to_string(limits::kChoicesMax),
                "n");
  }
  return {};
}

Status CheckTemplate(const std::vector<driver::PreparedPrompt>& prompts) {
  for (const driver::PreparedPrompt& prompt : prompts) {
    if (!prompt.unserved_field.empty()) {
      const bool effort = prompt.unserved_field == "reasoning_effort";
      return Fail(Code::kUnsupported,
                  prompt.unserved_field + ": this model's chat template has no place for it; " +
                      (effort ? "leave it out"
                              : "that of qwen2.5-coder:0.5b has (fak serve qwen2.5-coder:0.5b), "
                                "and --chat-template gives a model another"),
                  prompt.unserved_field);
    }
  }
  return {};
}

Status CheckPrompt(const std::vector<int32_t>& tokens, int32_t vocabulary, uint32_t context) {
  if (tokens.empty()) {
    return Fail(Code::kInvalidArgument, "the prompt is empty", "prompt");
  }
  if (tokens.size() >= context) {
    return Fail(driver::PromptTooLong(context, std::to_string(tokens.size())));
  }
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocabulary) {
      return Fail(Code::kInvalidArgument,
                  "prompt: token " + std::to_string(token) + " is outside the vocabulary of " +
                      std::to_string(vocabulary),
                  "prompt");
    }
  }
  return {};
}

void FillSequence(Sequence& sequence, const driver::Prepared& prepared,
                  const std::vector<int32_t>& tokens, bool scores) {
  sequence.salt = prepared.cache_salt;
  sequence.tenant = prepared.tenant;
  sequence.tenant_weight = prepared.tenant_weight;
  sequence.priority = prepared.priority;
  sequence.arrival_ns = prepared.arrival_ns;
  sequence.prompt_tokens = static_cast<uint32_t>(tokens.size());
  sequence.tokens = tokens;
  sequence.score_prompt = scores;
}

// The answer so far, as if it had been generated here.
Status Replay(const wire::AnswerSoFar& so_far, const text::ModelCard& card, uint32_t context,
              Request& request) {
  constexpr char kField[] = "continue_answer.token_ids";
  const int32_t vocabulary = card.tokenizer->vocab_size();
  if (request.choices.size() != 1) {
    return Fail(Code::kInvalidArgument, "continue_answer takes one prompt and n = 1",
                "continue_answer");
  }
  Choice& choice = request.choices.front();
  std::vector<int32_t>& tokens = choice.sequence.tokens;
  if (so_far.tokens.size() > context - tokens.size()) {
    return Fail(Code::kInvalidArgument,
                "continue_answer.token_ids: " + std::to_string(so_far.tokens.size()) +
                    " tokens after a prompt of " + std::to_string(tokens.size()) +
                    " are more than the context of " + std::to_string(context) + " holds",
                kField);
  }
  for (const int32_t token : so_far.tokens) {
    if (token < 0 || token >= vocabulary) {
      return Fail(Code::kInvalidArgument,
                  "continue_answer.token_ids: token " + std::to_string(token) +
                      " is outside the vocabulary of " + std::to_string(vocabulary),
                  kField);
    }
    if (request.finished) {
      return Fail(Code::kInvalidArgument,
                  "continue_answer.token_ids: the answer ends after " +
                      std::to_string(request.said_tokens) + " of its " +
                      std::to_string(so_far.tokens.size()) + " tokens",
                  kField);
    }
    tokens.push_back(token);
    choice.sampler.Append(token);
    Answer::Step step = choice.answer.Replay(token, static_cast<int32_t>(context - tokens.size()));
    request.said += step.delta ? step.delta->text : "";
    request.finished = std::move(step.finish);
    ++request.said_tokens;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Request>> MakeRequest(std::shared_ptr<const driver::Prepared> prepared,
                                             std::shared_ptr<driver::EventSink> sink,
                                             const text::ModelCard& card, uint32_t context,
                                             uint64_t drawn_seed) {
  const wire::Turn& turn = *prepared->turn;
  TRY(CheckTurn(turn));
  TRY(CheckTemplate(prepared->prompts));
  auto request = std::make_unique<Request>();
  for (const driver::PreparedPrompt& prompt : prepared->prompts) {
    TRY(CheckPrompt(prompt.tokens, card.tokenizer->vocab_size(), context));
    const auto room = static_cast<int32_t>(context - prompt.tokens.size());
    TRY_ASSIGN(ResolvedSampling sampling, ResolveSampling(turn.sampling, card, room, drawn_seed));
    if (turn.echo && turn.surface == wire::Surface::kCompletion) {
      sampling.prompt_logprobs = std::max(sampling.prompt_logprobs, sampling.spec.top_logprobs);
    }
    CountPrompt(prompt.tokens, sampling);
    request->sampling.push_back(std::move(sampling));
  }
  for (size_t p = 0; p < prepared->prompts.size(); ++p) {
    const std::vector<int32_t>& tokens = prepared->prompts[p].tokens;
    Sequence* leader = nullptr;
    for (int32_t i = 0; i < turn.n; ++i) {
      const auto prompt = static_cast<int32_t>(p);
      Choice& choice = request->choices.emplace_back(request->sampling[p], *card.tokenizer,
                                                     turn.sampling, prompt * turn.n + i, prompt);
      FillSequence(choice.sequence, *prepared, tokens,
                   leader == nullptr && request->sampling[p].prompt_logprobs >= 0);
      if (choice.sequence.score_prompt) {
        choice.prompt_logprobs.push_back(wire::TokenLogprobs::First(
            tokens.front(), std::string(card.tokenizer->TokenBytes(tokens.front()))));
      }
      choice.sequence.maybe_leader = leader;
      leader = leader == nullptr ? &choice.sequence : leader;
    }
  }
  if (turn.answer_so_far) {
    TRY(Replay(*turn.answer_so_far, card, context, *request));
  }
  request->live = request->choices.size();
  request->prepared = std::move(prepared);
  request->sink = std::move(sink);
  return request;
}

}  // namespace fak::engine
