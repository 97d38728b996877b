#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "wire/event.h"
#include "wire/turn.h"

namespace fak::wire {

// What every answer of a request carries. Values that don't change while it is answered.
struct AnswerHead {
  std::string id;       // "chatcmpl-..." or "cmpl-..."
  std::string model;    // as it is shown
  int64_t created = 0;  // seconds since 1970
};

// The streamed answer of chat completions and completions: neutral events in, SSE bytes out, as
// facts of real clients demand: exactly "data: {json}\n\n", a role chunk first, finish_reason once
// a choice, a usage chunk with no choices when asked, "[DONE]" only after success. A failure after
// bytes were sent is one error chunk and then the end, without "[DONE]".
// Owned by one exchange; not thread-safe. Hot path: bench/micro/openai_encode_bench.cc.
class OpenAiStream {
 public:
  // turn must outlive the encoder.
  OpenAiStream(AnswerHead head, const Turn& turn);

  // Appends the bytes of this event, possibly none.
  void Encode(const Event& event, std::string& out);
  bool ended() const { return ended_; }

 private:
  struct ChoiceState {
    bool begun = false;                  // a chunk of it was sent
    size_t characters = 0;               // of its text so far: completions' text_offset
    std::vector<int32_t> prompt_tokens;  // where they are to be returned
  };

  void Encode(const PromptEcho& echo, std::string& out);
  void Encode(const TextDelta& delta, std::string& out);
  void Encode(const ReasoningDelta& delta, std::string& out);
  void Encode(const ToolCallDelta& delta, std::string& out);
  void Encode(const Finish& finish, std::string& out);
  // In a chat the first chunk of a choice holds its role alone.
  ChoiceState& Begin(int32_t choice, std::string& out);
  // Starts an event and gives a writer on it, inside "choices".
  JsonWriter BeginChunk(std::string& out);
  // Of a completion, the first chunk of a choice carries its prompt's tokens in it.
  void EndChoice(JsonWriter& json, const ChoiceState& state);
  // What stands behind "choices", and the end of the event. The first chunk of a choice carries the
  // seed, and a chat's its prompt's tokens where they are asked for; a chunk without choices
  // carries the usage.
  void EndChunk(JsonWriter& json, ChoiceState* maybe_choice, std::string& out);

  const AnswerHead head_;
  const Turn& turn_;
  std::map<int32_t, ChoiceState> choices_;
  Started started_;
  std::optional<Usage> usage_;
  int32_t tokens_sent_ = 0;
  bool raw_ = false;  // an upstream's own chunks are passed on
  bool ended_ = false;
};

// The whole answer at once. Collects events; Body() after Done. Not thread-safe.
class OpenAiWhole {
 public:
  OpenAiWhole(AnswerHead head, const Turn& turn);

  void Add(const Event& event);
  // Set by Failed.
  const std::optional<Error>& error() const { return error_; }
  bool done() const { return done_; }
  // Precondition: done() and no error().
  std::string Body() const;

 private:
  struct ToolCall {
    std::string id;
    std::string name;
    std::string arguments;
  };
  struct Choice {
    std::string text;
    std::string reasoning;
    std::string echo;
    std::map<int32_t, ToolCall> tool_calls;  // by index
    std::vector<int32_t> tokens;
    std::vector<int32_t> prompt_tokens;
    std::vector<TokenLogprobs> logprobs;
    std::vector<TokenLogprobs> prompt_logprobs;
    std::optional<Finish> finish;
  };

  void WriteChatChoice(JsonWriter& json, int32_t index, const Choice& choice) const;
  void WriteCompletionChoice(JsonWriter& json, int32_t index, const Choice& choice) const;
  void WriteFinish(JsonWriter& json, const Choice& choice) const;

  const AnswerHead head_;
  const Turn& turn_;
  std::map<int32_t, Choice> choices_;
  Started started_;
  Usage usage_;
  std::optional<std::string> raw_;
  std::optional<Error> error_;
  bool done_ = false;
};

// {"error": {"message", "type", "param", "code"}}; the type follows from the code.
std::string OpenAiErrorBody(const Error& error);

}  // namespace fak::wire
