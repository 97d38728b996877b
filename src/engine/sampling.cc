#include "engine/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fak::engine {
namespace {

Status CheckToken(int32_t token, int32_t vocabulary, const char* field) {
  if (token < 0 || token >= vocabulary) {
    return Fail(Code::kInvalidArgument,
                std::string(field) + ": token " + std::to_string(token) +
                    " is outside the vocabulary of " + std::to_string(vocabulary),
                field);
  }
  return {};
}

void SortUnique(std::vector<int32_t>& tokens) {
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
}

bool ById(const tensor::TokenBias& a, const tensor::TokenBias& b) {
  return a.token < b.token;
}

// Ascending; a ban counts before a bias.
std::vector<tensor::TokenBias> WithBans(const std::vector<tensor::TokenBias>& biases,
                                        const std::vector<int32_t>& banned) {
  std::vector<tensor::TokenBias> out;
  out.reserve(banned.size() + biases.size());
  for (const int32_t token : banned) {
    out.push_back({token, -std::numeric_limits<float>::infinity()});
  }
  out.insert(out.end(), biases.begin(), biases.end());
  std::stable_sort(out.begin(), out.end(), ById);
  const auto same = [](const auto& a, const auto& b) { return a.token == b.token; };
  out.erase(std::unique(out.begin(), out.end(), same), out.end());
  return out;
}

// Leaves the default where nobody says anything.
template <class T>
void Take(T& value, const std::optional<T>& asked, const std::optional<T>& model = {}) {
  value = asked.value_or(model.value_or(value));
}

}  // namespace

Result<ResolvedSampling> ResolveSampling(const wire::SamplingParams& asked,
                                         const text::ModelCard& card, int32_t room,
                                         uint64_t drawn_seed) {
  const text::SamplingDefaults& model = card.sampling;
  const int32_t vocabulary = card.tokenizer->vocab_size();
  ResolvedSampling out;
  tensor::SampleSpec& spec = out.spec;
  Take(spec.temperature, asked.temperature, model.temperature);
  Take(spec.top_k, asked.top_k, model.top_k);
  Take(spec.top_p, asked.top_p, model.top_p);
  Take(spec.min_p, asked.min_p, model.min_p);
  Take(spec.typical_p, asked.typical_p);
  Take(spec.presence_penalty, asked.presence_penalty);
  Take(spec.frequency_penalty, asked.frequency_penalty);
  Take(spec.repetition_penalty, asked.repetition_penalty, model.repetition_penalty);
  spec.seed = asked.seed.value_or(drawn_seed);
  spec.top_logprobs = asked.logprobs;
  out.max_tokens = std::min(asked.max_tokens.value_or(room), room);
  out.min_tokens = std::min(asked.min_tokens, out.max_tokens);
  out.prompt_logprobs = asked.prompt_logprobs;

  for (const auto& [token, bias] : asked.logit_bias) {
    TRY(CheckToken(token, vocabulary, "logit_bias"));
    out.bias.push_back({token, bias});
  }
  std::sort(out.bias.begin(), out.bias.end(), ById);
  for (const int32_t token : asked.stop_token_ids) {
    TRY(CheckToken(token, vocabulary, "stop_token_ids"));
    out.own_stop_tokens.push_back(token);
  }
  SortUnique(out.own_stop_tokens);
  out.stop_tokens = out.own_stop_tokens;
  if (!asked.ignore_eos) {
    const auto ends = card.tokenizer->end_of_generation_ids();
    out.stop_tokens.insert(out.stop_tokens.end(), ends.begin(), ends.end());
    SortUnique(out.stop_tokens);
  }
  if (out.min_tokens > 0) {
    out.early_bias = WithBans(out.bias, out.stop_tokens);
  }
  return out;
}

void CountPrompt(std::span<const int32_t> prompt, ResolvedSampling& resolved) {
  if (!resolved.penalises()) {
    return;
  }
  std::vector<int32_t> tokens(prompt.begin(), prompt.end());
  SortUnique(tokens);
  resolved.prompt_counts.reserve(tokens.size());
  for (const int32_t token : tokens) {
    resolved.prompt_counts.push_back({token, 0, true});
  }
}

tensor::SampleSpec SamplingState::Next(uint64_t position) {
  tensor::SampleSpec spec = resolved_.spec;
  spec.choice = static_cast<uint32_t>(choice_);
  spec.position = position;
  spec.counts = generated_ == 0 ? resolved_.prompt_counts : counts_;
  spec.bias = generated_ < resolved_.min_tokens ? resolved_.early_bias : resolved_.bias;
  return spec;
}

void SamplingState::Append(int32_t token) {
  if (resolved_.penalises()) {
    if (generated_ == 0) {
      counts_ = resolved_.prompt_counts;
    }
    const auto at = std::lower_bound(
        counts_.begin(), counts_.end(), token,
        [](const tensor::TokenCount& count, int32_t id) { return count.token < id; });
    tensor::TokenCount& count = at != counts_.end() && at->token == token
                                    ? *at
                                    : *counts_.insert(at, tensor::TokenCount{token, 0, false});
    ++count.in_output;
  }
  ++generated_;
}

}  // namespace fak::engine
