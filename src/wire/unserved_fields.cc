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

bool IsEmpty(const Json& value) {
  return value.is_array() && value.array().empty();
}

template <int kNumber>
bool Is(const Json& value) {
  return value.is_number() && value.number() == kNumber;
}

bool IsNotAbove0(const Json& value) {
  return value.is_number() && value.number() <= 0;
}

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
    {"web_search_options", Never},
    // vLLM
    {"allowed_token_ids", Never},
    {"bad_words", IsEmpty},
    {"documents", IsEmpty},
    {"kv_transfer_params", Never},
    {"logits_processors", IsEmpty},
    {"return_tokens_as_token_ids", IsFalse},
    {"truncate_prompt_tokens", Never},
    {"use_beam_search", IsFalse},
    // llama.cpp
    {"dry_multiplier", Is<0>},
    {"dynatemp_range", Is<0>},
    {"mirostat", Is<0>},
    {"n_probs", Is<0>},
    {"repeat_penalty", Is<1>},
    {"top_n_sigma", IsNotAbove0},
    {"xtc_probability", Is<0>},
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
