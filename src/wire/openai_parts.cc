#include "wire/openai_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "base/utf8.h"

namespace fak::wire {
namespace {

using Logprobs = std::vector<TokenLogprobs>;

// OpenAI's form of a token that is no text of its own: else many would share the replacement
// character, and only one of a name can be in an object.
std::string TextOrBytes(std::string_view token) {
  if (IsValidUtf8(token)) {
    return std::string(token);
  }
  std::string out = "bytes:";
  for (const char byte : token) {
    out += fmt::format(R"(\x{:02x})", static_cast<unsigned char>(byte));
  }
  return out;
}

void WriteEntry(JsonWriter& json, const TokenLogprobs::Entry& entry) {
  json.Key("token").String(ReplaceInvalidUtf8(entry.bytes));
  json.Key("logprob").Float(entry.logprob);
  json.Key("bytes").BeginArray();
  for (const char byte : entry.bytes) {
    json.Int(static_cast<unsigned char>(byte));
  }
  json.EndArray();
}

void WriteDecoded(JsonWriter& json, const TokenLogprobs::Entry& entry) {
  json.Key(std::to_string(entry.token)).BeginObject();
  json.Key("logprob").Float(entry.logprob).Key("rank").Uint(entry.rank);
  json.Key("decoded_token").String(ReplaceInvalidUtf8(entry.bytes)).EndObject();
}

}  // namespace

std::string_view EchoedText(const Turn& turn, const PromptEcho& echo) {
  if (!turn.echo || turn.surface != Surface::kChat) {
    return turn.echo ? std::string_view(echo.text) : "";
  }
  if (!turn.messages.is_array() || turn.messages.array().empty()) {
    return "";
  }
  const Json& last = turn.messages.array().back();
  const Json* const role = last.Find("role");
  const Json* const content = last.Find("content");
  const bool goes_on = role != nullptr && role->is_string() && role->string() == "assistant";
  return goes_on && content != nullptr && content->is_string() ? std::string_view(content->string())
                                                               : "";
}

std::string_view FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kToolCalls: return "tool_calls";
    case FinishReason::kContentFilter: return "content_filter";
    case FinishReason::kError: return "error";
  }
  return "stop";
}

size_t CountCharacters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return (byte & '\xC0') != '\x80'; }));
}

void WriteUsage(JsonWriter& json, const Usage& usage) {
  json.BeginObject();
  json.Key("prompt_tokens").Int(usage.prompt_tokens);
  json.Key("completion_tokens").Int(usage.completion_tokens);
  json.Key("total_tokens").Int(int64_t{usage.prompt_tokens} + usage.completion_tokens);
  if (usage.cached_tokens >= 0) {
    json.Key("prompt_tokens_details").BeginObject();
    json.Key("cached_tokens").Int(usage.cached_tokens).EndObject();
  }
  if (usage.reasoning_tokens >= 0) {
    json.Key("completion_tokens_details").BeginObject();
    json.Key("reasoning_tokens").Int(usage.reasoning_tokens).EndObject();
  }
  json.EndObject();
}

void WriteChatLogprobs(JsonWriter& json, const std::vector<TokenLogprobs>& logprobs) {
  json.BeginObject().Key("content").BeginArray();
  for (const TokenLogprobs& token : logprobs) {
    json.BeginObject();
    WriteEntry(json, token.chosen);
    json.Key("top_logprobs").BeginArray();
    for (const TokenLogprobs::Entry& top : token.top) {
      json.BeginObject();
      WriteEntry(json, top);
      json.EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
}

void WriteCompletionLogprobs(JsonWriter& json, const Logprobs& logprobs, size_t text_offset) {
  json.BeginObject().Key("text_offset").BeginArray();
  for (const TokenLogprobs& token : logprobs) {
    json.Uint(text_offset);
    text_offset += CountCharacters(token.chosen.bytes);
  }
  json.EndArray().Key("token_logprobs").BeginArray();
  for (const TokenLogprobs& token : logprobs) {
    token.scored ? json.Float(token.chosen.logprob) : json.Null();
  }
  json.EndArray().Key("tokens").BeginArray();
  for (const TokenLogprobs& token : logprobs) {
    json.String(TextOrBytes(token.chosen.bytes));
  }
  json.EndArray().Key("top_logprobs").BeginArray();
  for (const TokenLogprobs& token : logprobs) {
    if (!token.scored) {
      json.Null();
      continue;
    }
    json.BeginObject();
    std::set<std::string> seen;  // two tokens may have the same text
    for (const TokenLogprobs::Entry& top : token.top) {
      const std::string text = TextOrBytes(top.bytes);
      if (seen.insert(text).second) {
        json.Key(text).Float(top.logprob);
      }
    }
    if (const std::string text = TextOrBytes(token.chosen.bytes); !seen.contains(text)) {
      json.Key(text).Float(token.chosen.logprob);
    }
    json.EndObject();
  }
  json.EndArray().EndObject();
}

void WritePromptLogprobs(JsonWriter& json, const Logprobs& logprobs) {
  json.BeginArray();
  for (const TokenLogprobs& token : logprobs) {
    if (!token.scored) {
      json.Null();
      continue;
    }
    json.BeginObject();
    bool listed = false;
    for (const TokenLogprobs::Entry& top : token.top) {
      WriteDecoded(json, top);
      listed = listed || top.token == token.chosen.token;
    }
    if (!listed) {
      WriteDecoded(json, token.chosen);
    }
    json.EndObject();
  }
  json.EndArray();
}

void WriteTokenIds(JsonWriter& json, std::string_view key, const std::vector<int32_t>& ids) {
  json.Key(key).BeginArray();
  for (const int32_t id : ids) {
    json.Int(id);
  }
  json.EndArray();
}

void WriteStopReason(JsonWriter& json, const Finish& finish) {
  json.Key("stop_reason");
  if (finish.stop_string) {
    json.String(*finish.stop_string);
  } else if (finish.stop_token) {
    json.Int(*finish.stop_token);
  } else {
    json.Null();
  }
}

}  // namespace fak::wire
