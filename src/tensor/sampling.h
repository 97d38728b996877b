#pragma once

#include <cstdint>
#include <span>
#include <vector>

// What is drawn from a row of logits. The rules (order of the steps, integer weights, generator)
// are docs/formats/numerics.md "Sampling"; every back end gives the same token for the same logits.
namespace fak::tensor {

struct TokenCount {
  int32_t token = 0;
  uint32_t in_output = 0;  // occurrences among generated tokens
  bool in_prompt = false;
};

struct TokenBias {
  int32_t token = 0;
  float bias = 0.0f;  // added to the logit; -inf bans
};

// Numbers within base/sampling_ranges.h: Submit() CHECKs it, and a draw always finds a token then.
struct SampleSpec {
  // The generator's key: a draw depends on these three alone.
  uint64_t seed = 0;
  uint32_t choice = 0;
  uint64_t position = 0;

  float temperature = 1.0f;  // below 1e-5: argmax, lowest id on ties
  int32_t top_k = 0;         // <= 0: all
  float top_p = 1.0f;
  float min_p = 0.0f;
  float typical_p = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  float repetition_penalty = 1.0f;
  std::span<const TokenCount> counts = {};  // tokens the penalties apply to; ascending ids
  std::span<const TokenBias> bias = {};     // ascending ids
  std::span<const uint64_t> allowed = {};   // bit t of word t/64: token t may be drawn; empty: all
  int32_t score_token = -1;   // >= 0: draw nothing, report this token's log probability
  int32_t top_logprobs = -1;  // -1: no log probabilities; n: of the token and of the n likeliest
};

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0.0f;  // log-softmax of the raw logits, before penalties and temperature
};

struct SampleResult {
  int32_t token = -1;    // drawn, or score_token; -1: nothing may be drawn (all banned, or NaN)
  float logprob = 0.0f;  // of `token`, when asked for
  uint32_t rank = 0;     // of `token` among the raw logits, 1 = likeliest, when asked for
  std::vector<TokenLogprob> top;  // descending, ties by lowest id
};

}  // namespace fak::tensor
