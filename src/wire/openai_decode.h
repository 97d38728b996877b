#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "wire/turn.h"

namespace fak::wire {

// Request bodies of the OpenAI wire, with vLLM's and llama.cpp's extra fields under their names.
// kInvalidArgument names the field; what nobody knows is listed in Turn::unknown_fields. A known
// field that only some engines can honour (tools, images, grammars) is decoded here and refused, if
// at all, by the driver. Pure.
[[nodiscard]] Result<Turn> DecodeChatRequest(const Json& document);
[[nodiscard]] Result<Turn> DecodeCompletionRequest(const Json& document);

// The body of /tokenize: vLLM's ("prompt", or "messages" as in a chat) or llama.cpp's ("content").
struct TokenizeRequest {
  std::optional<Turn> chat;  // absent: the text
  std::string text;
  bool add_special = true;
  bool parse_special = true;
};
[[nodiscard]] Result<TokenizeRequest> DecodeTokenizeRequest(const Json& document);

}  // namespace fak::wire
