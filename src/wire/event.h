#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "wire/http_headers.h"

// The neutral answer: what drivers emit and codecs encode. The events of one request come in order
// on one thread at a time; choices interleave. A request ends with exactly one Done or one Failed,
// and nothing follows it. Done comes only after every choice had its Finish.
namespace fak::wire {

struct TokenLogprobs {
  struct Entry {
    int32_t token = 0;
    std::string bytes;  // of the token; may be part of a character
    float logprob = 0.0f;
    uint32_t rank = 0;
  };

  // The first token of a prompt: nothing precedes it, so it has bytes and no log probability.
  static TokenLogprobs First(int32_t token, std::string bytes) {
    return {.scored = false, .chosen = {.token = token, .bytes = std::move(bytes)}, .top = {}};
  }

  bool scored = true;
  Entry chosen = {};
  std::vector<Entry> top = {};
};

// Admitted and started. First event of a native request; a driver that can't know leaves it out.
struct Started {
  std::optional<uint64_t> seed;  // the one in force
  int32_t prompt_tokens = -1;    // -1: not known
  int32_t cached_tokens = -1;
  // Of an answer that was begun elsewhere (Turn::answer_so_far): its text, as it was sent then, and
  // its tokens. What follows in the events goes on after them.
  std::string said = {};
  int32_t said_tokens = 0;
};

// Prompt log probabilities and, with echo, the prompt itself: the whole characters of it. At most
// once a choice, before text.
struct PromptEcho {
  int32_t choice = 0;
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<TokenLogprobs> logprobs;  // one a token, the first not scored
};

// Text of an answer. Text is whole UTF-8; tokens are those whose bytes it completes (may be empty
// for a driver that doesn't know them).
struct TextDelta {
  int32_t choice = 0;
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<TokenLogprobs> logprobs;  // one a token, when asked for
};

struct ReasoningDelta {
  int32_t choice = 0;
  std::string text;
};

// A tool call, in pieces: the first of an index has id and name, later ones add to arguments.
struct ToolCallDelta {
  int32_t choice = 0;
  int32_t index = 0;
  std::string id;
  std::string name;
  std::string arguments;
};

enum class FinishReason : uint8_t { kStop, kLength, kToolCalls, kContentFilter, kError };
std::string_view FinishReasonName(FinishReason reason);  // OpenAI's words

struct Finish {
  int32_t choice = 0;
  FinishReason reason = FinishReason::kStop;
  std::optional<std::string> stop_string;  // the one that matched
  std::optional<int32_t> stop_token;
};

struct Usage {
  int32_t prompt_tokens = 0;
  int32_t completion_tokens = 0;
  int32_t cached_tokens = -1;  // -1: the engine doesn't say
  int32_t reasoning_tokens = -1;
};

struct UsageReport {
  Usage usage;
};

struct Done {};

struct Failed {
  Error error;
};

// A ridden engine's chunk on the client's own wire, to be passed on as it came (after the edits of
// docs/engines.md). A driver that emits these also emits the events above for the parts it
// understood: the codec of the same wire sends the raw text instead of them, every other codec
// ignores it.
struct RawChunk {
  std::string json;
  std::string type = {};  // of its "event:" line, on wires that have one
};

// Headers of a ridden engine's answer that the client shall see (rate limits). At most once, before
// anything else, also before a Failed.
struct UpstreamHeaders {
  HttpHeaders headers;
  std::string served_by = {};  // an endpoint behind the engine's router; for logs alone
};

using Event = std::variant<Started, PromptEcho, TextDelta, ReasoningDelta, ToolCallDelta, Finish,
                           UsageReport, UpstreamHeaders, RawChunk, Done, Failed>;

}  // namespace fak::wire
