#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"

// The neutral request: what a client asked for, whichever wire it came on. Codecs (OpenAI,
// Anthropic) make it, the gateway prepares it, drivers answer it with Events (wire/event.h).
// Plain values; a Turn is immutable once decoded and is then shared.
namespace fak::wire {

enum class Surface : uint8_t {
  kChat,        // OpenAI chat completions
  kCompletion,  // OpenAI completions
  kMessages,    // Anthropic messages
  kResponses,   // OpenAI responses
  kEmbedding,
  kCountTokens,  // Anthropic's count_tokens
  kGenerate,     // SGLang's own /generate
  kTemplate,     // llama.cpp's own /apply-template
};

// Absent = the client said nothing: the model's own defaults apply, then the system's
// (docs: temperature 1, top_p 1, top_k off, min_p 0, typical_p 1, penalties off).
struct SamplingParams {
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<int32_t> top_k;
  std::optional<float> min_p;
  std::optional<float> typical_p;
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  std::optional<float> repetition_penalty;
  std::optional<uint64_t> seed;  // absent: drawn by the engine and reported back
  std::vector<std::pair<int32_t, float>> logit_bias;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;
  bool include_stop_str_in_output = false;
  bool ignore_eos = false;
  bool skip_special_tokens = true;  // control tokens give no text
  int32_t min_tokens = 0;
  std::optional<int32_t> max_tokens;  // absent: up to the context (chat), 16 (completions)
  int32_t logprobs = -1;              // -1 none; n likeliest beside the chosen one
  int32_t prompt_logprobs = -1;
};

// A prompt of the completions surface: text or token ids.
struct PromptInput {
  std::string text;
  std::vector<int32_t> tokens;
  bool is_tokens = false;
};

// An answer that was begun elsewhere, for the engine that goes on with it: it stands after the
// prompt as if this request had generated it, and only what follows is sent.
struct AnswerSoFar {
  std::vector<int32_t> tokens;  // at least one
  // When it was begun, in seconds since 1970: the date that a template shows. 0: not said.
  int64_t created_s = 0;
  // Of what began it (driver::Capabilities): another one refuses. Empty: not said.
  std::string artifact;
};

struct Turn {
  Surface surface = Surface::kChat;
  std::string model;  // as asked; empty: the served one

  // Chat-like surfaces. Messages as OpenAI chat spells them (role, content, tool_calls ...),
  // content parts flattened to strings where they are all text; other wires are mapped to this
  // form.
  Json messages;
  std::string image_field;  // the first part that is no text ("messages[0].content[1]"), or empty
  Json tools;               // null: none
  Json tool_choice;         // null: not said
  bool parallel_tool_calls = true;
  std::string tools_field = "tools";         // of the request, for errors; "functions" formerly
  Json chat_template_kwargs;                 // null or object
  std::optional<std::string> chat_template;  // of the request; honoured only when allowed
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  // "none", "low" ...: for templates that have a switch for it.
  std::optional<std::string> reasoning_effort;
  // BOS and EOS around the prompt, where the vocabulary asks for them. Absent: so, and in a chat
  // without a second BOS.
  std::optional<bool> add_special_tokens;

  // Completions.
  std::vector<PromptInput> prompts;
  std::optional<std::string> suffix;
  bool echo = false;

  SamplingParams sampling;
  int32_t n = 1;

  // A grammar as the client wrote it; compiled in the engine. kind: "json_schema", "json_object",
  // "regex", "grammar", "choice", "structural_tag".
  struct GrammarText {
    std::string kind;
    Json source;
    std::string field;  // of the request, for errors
  };
  std::optional<GrammarText> grammar;

  bool stream = false;
  bool stream_include_usage = false;
  bool continuous_usage_stats = false;
  bool return_token_ids = false;
  std::optional<AnswerSoFar> answer_so_far;  // "continue_answer"

  int32_t priority = 0;    // lower runs earlier, as vLLM has it
  std::string cache_salt;  // as the client gave it; the tenant is folded in by the gateway

  // The first field that asks for what none of our own parts does; empty: none. Upstreams may.
  std::string unserved_field;
  // Names of the fields nobody here knows. Never refused: counted, and passed through to an
  // upstream, whose raw document still has them.
  std::vector<std::string> unknown_fields;
};

}  // namespace fak::wire
