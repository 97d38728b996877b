#include "wire/passed.h"

#include <utility>

#include "base/limits.h"
#include "wire/fields.h"
#include "wire/openai_encode.h"
#include "wire/sse.h"

namespace fak::wire {
namespace {

std::string_view AnthropicType(const Error& error, int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    case 504: return "timeout_error";
    default: break;
  }
  if (error.code == Code::kUnavailable || error.code == Code::kResourceExhausted) {
    return "overloaded_error";
  }
  return status < 500 ? "invalid_request_error" : "api_error";
}

// The members that make up what the model reads, in the order in which engines render them.
constexpr std::string_view kPromptMembers[] = {"tools", "system", "instructions", "messages",
                                               "input"};

std::string_view NeededMember(Surface surface) {
  return surface == Surface::kResponses || surface == Surface::kEmbedding ? "input" : "messages";
}

// How deep a list of kGenerate's member is nested when it is a list of prompts.
int DepthOfSeveral(std::string_view member) {
  return member == "text" ? 1 : member == "input_ids" ? 2 : 3;  // input_embeds: rows of numbers
}

int DepthOf(const Json& value) {
  int depth = 0;
  for (const Json* at = &value; at->is_array() && !at->array().empty(); ++depth) {
    at = &at->array().front();
  }
  return depth;
}

std::vector<PromptInput> PromptsOf(const Json& given, std::string_view member) {
  std::vector<PromptInput> prompts;
  const auto add = [&prompts](const Json& one) {
    PromptInput prompt;
    one.DumpTo(prompt.text);
    prompts.push_back(std::move(prompt));
  };
  if (DepthOf(given) < DepthOfSeveral(member)) {
    add(given);
    return prompts;
  }
  for (const Json& one : given.array()) {
    add(one);
  }
  return prompts;
}

Result<Turn> DecodeGenerate(const Json& document) {
  Fields fields(document);
  Turn turn;
  turn.surface = Surface::kGenerate;
  turn.model = fields.String("model").value_or("");
  turn.stream = fields.Bool("stream").value_or(false);
  if (const Json* key = fields.Take("extra_key"); key != nullptr && key->is_string()) {
    turn.cache_salt = key->string();
  }
  if (turn.cache_salt.size() > limits::kCacheSaltBytesMax) {
    fields.Fail("extra_key", "at most " + std::to_string(limits::kCacheSaltBytesMax) + " bytes");
  }
  const Json* sampling = fields.Take("sampling_params");
  if (sampling != nullptr && sampling->is_array() && !sampling->array().empty()) {
    sampling = &sampling->array().front();  // n is the same in all
  }
  if (sampling != nullptr && sampling->is_object()) {
    Fields inner(*sampling);
    turn.n = static_cast<int32_t>(inner.Int("n", 1, limits::kChoicesMax).value_or(1));
    TRY(inner.status());
  }
  for (const std::string_view name : {"text", "input_ids", "input_embeds"}) {
    if (const Json* given = fields.Take(name); given != nullptr && turn.prompts.empty()) {
      turn.prompts = PromptsOf(*given, name);
    }
  }
  if (turn.prompts.empty()) {
    fields.Fail("text", "is missing");
  }
  TRY(fields.status());
  if (turn.prompts.size() > limits::kPromptsMax) {
    return Fail(Code::kInvalidArgument,
                "text: at most " + std::to_string(limits::kPromptsMax) + " prompts", "text");
  }
  return turn;
}

}  // namespace

Result<Turn> DecodePassedRequest(const Json& document, Surface surface) {
  if (!document.is_object()) {
    return Fail(Code::kInvalidArgument, "the body must be a JSON object");
  }
  if (surface == Surface::kGenerate) {
    return DecodeGenerate(document);
  }
  Fields fields(document);
  Turn turn;
  turn.surface = surface;
  turn.model = fields.String("model").value_or("");
  const bool streams = surface == Surface::kMessages || surface == Surface::kResponses;
  turn.stream = fields.Bool("stream").value_or(false) && streams;
  turn.cache_salt = fields.String("cache_salt").value_or("");
  if (turn.cache_salt.size() > limits::kCacheSaltBytesMax) {
    fields.Fail("cache_salt", "at most " + std::to_string(limits::kCacheSaltBytesMax) + " bytes");
  }
  const std::string_view needed = NeededMember(surface);
  // A prompt may also come from a stored response or prompt.
  const bool stored = fields.Take("previous_response_id") != nullptr ||
                      fields.Take("prompt") != nullptr || fields.Take("conversation") != nullptr;
  if (fields.Take(needed) == nullptr && !(surface == Surface::kResponses && stored)) {
    fields.Fail(needed, "is missing");
  }
  TRY(fields.status());
  PromptInput prompt;
  for (const std::string_view name : kPromptMembers) {
    if (const Json* member = document.Find(name)) {
      member->DumpTo(prompt.text);
    }
  }
  turn.prompts.push_back(std::move(prompt));
  return turn;
}

void PassedStream::Encode(const Event& event, std::string& out) {
  if (ended_) {
    return;
  }
  if (const auto* raw = std::get_if<RawChunk>(&event)) {
    failure_sent_ = failure_sent_ || raw->type == "response.failed";
    if (surface_ == Surface::kResponses) {
      last_ = raw->json;
      ++passed_;
    }
    AppendSseEvent(out, raw->type, raw->json);
  } else if (std::holds_alternative<Done>(event)) {
    ended_ = true;
    if (surface_ == Surface::kGenerate) {
      AppendSseEvent(out, "", "[DONE]");
    }
  } else if (const auto* failed = std::get_if<Failed>(&event)) {
    ended_ = true;
    if (failure_sent_) {
      return;
    }
    if (surface_ == Surface::kMessages) {
      AppendSseEvent(out, "error", ErrorBody(surface_, failed->error, 500, ""));
      return;
    }
    if (surface_ == Surface::kGenerate) {
      AppendSseEvent(out, "", OpenAiErrorBody(failed->error));
      return;
    }
    std::string data;
    JsonWriter json(data);
    json.BeginObject().Key("type").String("error");
    json.Key("code").String(CodeName(failed->error.code));
    json.Key("message").String(failed->error.detail).Key("param").Null();
    json.Key("sequence_number").Int(NextSequenceNumber()).EndObject();
    AppendSseEvent(out, "error", data);
  }
}

// One more than that of the last event; where it has none, as many as came.
int64_t PassedStream::NextSequenceNumber() const {
  const Json last = ParseJson(last_).value_or(Json());
  const Json* number = last.Find("sequence_number");
  const auto said = number != nullptr && number->is_number() ? number->AsInt() : std::nullopt;
  return said && *said >= 0 && *said < INT64_MAX ? *said + 1 : passed_;
}

std::string ErrorBody(Surface surface, const Error& error, int status,
                      std::string_view request_id) {
  if (surface != Surface::kMessages && surface != Surface::kCountTokens) {
    return OpenAiErrorBody(error);
  }
  std::string body;
  JsonWriter json(body);
  json.BeginObject().Key("type").String("error").Key("error").BeginObject();
  json.Key("type").String(AnthropicType(error, status));
  json.Key("message").String(error.detail).EndObject();
  if (!request_id.empty()) {
    json.Key("request_id").String(request_id);
  }
  json.EndObject();
  return body;
}

}  // namespace fak::wire
