#pragma once

#include <string_view>
#include <vector>

#include "base/json.h"
#include "wire/event.h"
#include "wire/turn.h"

// Pieces that streamed and whole answers of the OpenAI wire have in common.
namespace fak::wire {

// What `echo` puts before an answer: of a completion its prompt; of a chat what its last message
// says if that is the assistant's, which the answer goes on from, as vLLM has it.
std::string_view EchoedText(const Turn& turn, const PromptEcho& echo);
void WriteUsage(JsonWriter& json, const Usage& usage);
// {"content": [{"token", "logprob", "bytes", "top_logprobs"}]}
void WriteChatLogprobs(JsonWriter& json, const std::vector<TokenLogprobs>& logprobs);
// Code points. Of a text cut into tokens anywhere, even inside a character, the sum stays the same.
size_t CountCharacters(std::string_view text);
// {"text_offset", "token_logprobs", "tokens", "top_logprobs"}, offsets in characters, as OpenAI and
// vLLM count them; null for what is not scored; "bytes:\xe2\x82" where a token is no valid UTF-8.
void WriteCompletionLogprobs(JsonWriter& json, const std::vector<TokenLogprobs>& logprobs,
                             size_t text_offset);
// vLLM's form: a list of null or {"<id>": {"logprob", "rank", "decoded_token"}}.
void WritePromptLogprobs(JsonWriter& json, const std::vector<TokenLogprobs>& logprobs);
void WriteTokenIds(JsonWriter& json, std::string_view key, const std::vector<int32_t>& ids);
// "stop_reason", as vLLM has it: the string or token that matched, else null.
void WriteStopReason(JsonWriter& json, const Finish& finish);

}  // namespace fak::wire
