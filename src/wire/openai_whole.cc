#include <utility>

#include "wire/openai_encode.h"
#include "wire/openai_parts.h"

namespace fak::wire {
namespace {

// The names of the SDKs' exceptions, as vLLM has them.
std::string_view ErrorType(const Error& error) {
  switch (error.code) {
    case Code::kInvalidArgument:
    case Code::kAlreadyExists:
    case Code::kContextTooLong:
    case Code::kUnsupported:
    case Code::kCancelled: return "BadRequestError";
    case Code::kUnauthenticated: return "AuthenticationError";
    case Code::kPermissionDenied: return "PermissionDeniedError";
    case Code::kNotFound: return "NotFoundError";
    case Code::kPayloadTooLarge: return "RequestTooLargeError";
    case Code::kRateLimited: return "RateLimitError";
    case Code::kResourceExhausted:
    case Code::kUnavailable: return "ServiceUnavailableError";
    case Code::kDeadlineExceeded: return "TimeoutError";
    case Code::kUpstreamError:
      // A status that it keeps is one of the client's doing.
      return error.upstream_status != 0 ? "BadRequestError" : "InternalServerError";
    case Code::kDataCorrupt:
    case Code::kIoError:
    case Code::kInternal: return "InternalServerError";
  }
  return "InternalServerError";
}

}  // namespace

OpenAiWhole::OpenAiWhole(AnswerHead head, const Turn& turn) : head_(std::move(head)), turn_(turn) {}

void OpenAiWhole::Add(const Event& event) {
  if (const auto* started = std::get_if<Started>(&event)) {
    started_ = *started;
  } else if (const auto* echo = std::get_if<PromptEcho>(&event)) {
    Choice& choice = choices_[echo->choice];
    choice.echo = EchoedText(turn_, *echo);
    choice.prompt_tokens = echo->tokens;
    choice.prompt_logprobs = echo->logprobs;
  } else if (const auto* text = std::get_if<TextDelta>(&event)) {
    Choice& choice = choices_[text->choice];
    choice.text += text->text;
    choice.tokens.insert(choice.tokens.end(), text->tokens.begin(), text->tokens.end());
    choice.logprobs.insert(choice.logprobs.end(), text->logprobs.begin(), text->logprobs.end());
  } else if (const auto* reasoning = std::get_if<ReasoningDelta>(&event)) {
    choices_[reasoning->choice].reasoning += reasoning->text;
  } else if (const auto* tool = std::get_if<ToolCallDelta>(&event)) {
    ToolCall& call = choices_[tool->choice].tool_calls[tool->index];
    call.id += tool->id;
    call.name += tool->name;
    call.arguments += tool->arguments;
  } else if (const auto* finish = std::get_if<Finish>(&event)) {
    choices_[finish->choice].finish = *finish;
  } else if (const auto* usage = std::get_if<UsageReport>(&event)) {
    usage_ = usage->usage;
  } else if (const auto* raw = std::get_if<RawChunk>(&event)) {
    raw_ = raw->json;
  } else if (const auto* failed = std::get_if<Failed>(&event)) {
    error_ = failed->error;
  } else if (std::holds_alternative<Done>(event)) {
    done_ = true;
  }
}

void OpenAiWhole::WriteFinish(JsonWriter& json, const Choice& choice) const {
  const Finish finish = choice.finish.value_or(Finish{});
  json.Key("finish_reason").String(FinishReasonName(finish.reason));
  WriteStopReason(json, finish);
  if (turn_.return_token_ids) {
    WriteTokenIds(json, "token_ids", choice.tokens);
  }
}

void OpenAiWhole::WriteChatChoice(JsonWriter& json, int32_t index, const Choice& choice) const {
  json.BeginObject().Key("index").Int(index).Key("message").BeginObject();
  json.Key("role").String("assistant").Key("content");
  if (choice.text.empty() && !choice.tool_calls.empty()) {
    json.Null();
  } else {
    json.String(choice.echo + choice.text);
  }
  json.Key("refusal").Null();
  if (!choice.reasoning.empty()) {
    json.Key("reasoning_content").String(choice.reasoning);
  }
  if (!choice.tool_calls.empty()) {
    json.Key("tool_calls").BeginArray();
    for (const auto& [place, call] : choice.tool_calls) {
      json.BeginObject().Key("id").String(call.id).Key("type").String("function");
      json.Key("function").BeginObject().Key("name").String(call.name);
      json.Key("arguments").String(call.arguments).EndObject().EndObject();
    }
    json.EndArray();
  }
  json.EndObject().Key("logprobs");
  if (turn_.sampling.logprobs < 0) {
    json.Null();
  } else {
    WriteChatLogprobs(json, choice.logprobs);
  }
  WriteFinish(json, choice);
  json.EndObject();
}

void OpenAiWhole::WriteCompletionChoice(JsonWriter& json, int32_t index,
                                        const Choice& choice) const {
  json.BeginObject().Key("index").Int(index);
  json.Key("text").String(choice.echo + choice.text).Key("logprobs");
  if (turn_.sampling.logprobs < 0) {
    json.Null();
  } else {
    std::vector<TokenLogprobs> all;
    if (turn_.echo) {
      all = choice.prompt_logprobs;
    }
    all.insert(all.end(), choice.logprobs.begin(), choice.logprobs.end());
    WriteCompletionLogprobs(json, all, 0);
  }
  WriteFinish(json, choice);
  if (turn_.sampling.prompt_logprobs >= 0) {
    json.Key("prompt_logprobs");
    WritePromptLogprobs(json, choice.prompt_logprobs);
  }
  if (turn_.return_token_ids) {
    WriteTokenIds(json, "prompt_token_ids", choice.prompt_tokens);
  }
  json.EndObject();
}

std::string OpenAiWhole::Body() const {
  if (raw_) {
    return *raw_;
  }
  const bool chat = turn_.surface == Surface::kChat;
  std::string body;
  JsonWriter json(body);
  json.BeginObject().Key("id").String(head_.id);
  json.Key("object").String(chat ? "chat.completion" : "text_completion");
  json.Key("created").Int(head_.created).Key("model").String(head_.model);
  json.Key("choices").BeginArray();
  for (const auto& [index, choice] : choices_) {
    chat ? WriteChatChoice(json, index, choice) : WriteCompletionChoice(json, index, choice);
  }
  json.EndArray().Key("usage");
  WriteUsage(json, usage_);
  if (started_.seed) {
    json.Key("seed").Int(static_cast<int64_t>(*started_.seed));
  }
  if (chat && turn_.return_token_ids && !choices_.empty()) {
    WriteTokenIds(json, "prompt_token_ids", choices_.begin()->second.prompt_tokens);
  }
  if (chat && turn_.sampling.prompt_logprobs >= 0 && !choices_.empty()) {
    json.Key("prompt_logprobs");
    WritePromptLogprobs(json, choices_.begin()->second.prompt_logprobs);
  }
  json.EndObject();
  return body;
}

std::string OpenAiErrorBody(const Error& error) {
  std::string body;
  JsonWriter json(body);
  json.BeginObject().Key("error").BeginObject();
  json.Key("message").String(error.detail);
  json.Key("type").String(ErrorType(error));
  json.Key("param");
  error.field.empty() ? json.Null() : json.String(error.field);
  json.Key("code").String(CodeName(error.code));
  json.EndObject().EndObject();
  return body;
}

}  // namespace fak::wire
