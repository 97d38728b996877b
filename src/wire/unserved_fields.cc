#include "wire/unserved_fields.h"

#include <algorithm>

namespace fak::wire {
namespace {

bool Never(const Json& value) {
  return value.is_null();
}

bool IsFalse(const Json& value) {
  return value.is_bool() && !value.boolean();
}

bool IsTrue(const Json& value) {
  return value.is_bool() && value.boolean();
}

bool IsEmpty(const Json& value) {
  return (value.is_array() && value.array().empty()) ||
         (value.is_object() && value.object().empty());
}

template <int kNumber>
bool Is(const Json& value) {
  return value.is_number() && value.number() == kNumber;
}

template <int kNumber>
bool IsAtMost(const Json& value) {
  return value.is_number() && value.number() <= kNumber;
}

bool IsBelow0(const Json& value) {
  return value.is_number() && value.number() < 0;
}

template <const char*... kTexts>
bool IsOneOf(const Json& value) {
  return value.is_string() && ((value.string() == kTexts) || ...);
}

constexpr char kAuto[] = "auto";
constexpr char kMedium[] = "medium";
constexpr char kNone[] = "none";

bool IsText(const Json& value) {
  return value.is_array() &&
         std::all_of(value.array().begin(), value.array().end(), [](const Json& modality) {
           return modality.is_string() && modality.string() == "text";
         });
}

struct UnservedField {
  const char* name;
  bool (*asks_for_nothing)(const Json& value);
};

constexpr UnservedField kUnserved[] = {
    // OpenAI
    {"modalities", IsText},
    {"audio", Never},
    {"function_call", IsOneOf<kAuto, kNone>},
    {"store", IsFalse},
    {"verbosity", IsOneOf<kMedium>},
    {"web_search_options", Never},
    // vLLM
    {"allowed_token_ids", Never},
    {"bad_words", IsEmpty},
    {"detokenize", IsTrue},
    {"documents", IsEmpty},
    {"ec_transfer_params", Never},
    {"include_reasoning", IsTrue},
    {"kv_transfer_params", Never},
    {"length_penalty", Is<1>},
    {"logits_processors", IsEmpty},
    {"logprob_token_ids", Never},
    {"prompt_embeds", Never},
    {"repetition_detection", Never},
    {"return_prompt_text", IsFalse},
    {"return_tokens_as_token_ids", IsFalse},
    {"spaces_between_special_tokens", IsTrue},
    {"thinking_token_budget", IsBelow0},
    {"truncate_prompt_tokens", Never},
    {"use_beam_search", IsFalse},
    {"vllm_xargs", IsEmpty},
    {"watermarking", IsFalse},
    // llama.cpp
    {"adaptive_target", IsBelow0},
    {"dry_multiplier", Is<0>},
    {"dynatemp_range", Is<0>},
    {"lora", IsEmpty},
    {"min_keep", IsAtMost<1>},
    {"mirostat", Is<0>},
    {"n_cmpl", Is<1>},
    {"n_indent", Is<0>},
    {"n_probs", Is<0>},
    {"post_sampling_probs", IsFalse},
    {"reasoning_budget_tokens", IsBelow0},
    {"reasoning_format", IsOneOf<kAuto, kNone>},
    {"repeat_penalty", Is<1>},
    {"samplers", Never},
    {"t_max_predict_ms", IsAtMost<0>},
    {"top_n_sigma", IsAtMost<0>},
    {"xtc_probability", Is<0>},
    // SGLang
    {"custom_logit_processor", Never},
    {"ebnf", Never},
    {"lora_path", Never},
    {"no_stop_trim", IsFalse},
    {"regex", Never},
    {"return_hidden_states", IsFalse},
    {"stop_regex", IsEmpty},
};

}  // namespace

std::string TakeUnservedFields(Fields& fields) {
  std::string first;
  for (const UnservedField& field : kUnserved) {
    const Json* value = fields.Take(field.name);
    if (value != nullptr && !field.asks_for_nothing(*value) && first.empty()) {
      first = field.name;
    }
  }
  return first;
}

}  // namespace fak::wire
