#include "wire/openai_encode.h"

#include <utility>

#include "wire/openai_parts.h"
#include "wire/sse.h"

namespace fak::wire {

OpenAiStream::OpenAiStream(AnswerHead head, const Turn& turn)
    : head_(std::move(head)), turn_(turn) {}

JsonWriter OpenAiStream::BeginChunk(std::string& out) {
  const bool chat = turn_.surface == Surface::kChat;
  out += "data: ";  // one such line: JSON text of ours has no ends of line
  JsonWriter json(out);
  json.BeginObject();
  json.Key("id").String(head_.id);
  json.Key("object").String(chat ? "chat.completion.chunk" : "text_completion");
  json.Key("created").Int(head_.created);
  json.Key("model").String(head_.model);
  json.Key("choices").BeginArray();
  return json;
}

void OpenAiStream::EndChunk(JsonWriter& json, ChoiceState* maybe_choice, std::string& out) {
  json.EndArray();
  if (maybe_choice != nullptr && !std::exchange(maybe_choice->begun, true)) {
    if (turn_.return_token_ids && turn_.surface == Surface::kChat) {
      WriteTokenIds(json, "prompt_token_ids", maybe_choice->prompt_tokens);
    }
    if (started_.seed) {
      json.Key("seed").Int(static_cast<int64_t>(*started_.seed));  // as it may be given again
    }
  }
  if (maybe_choice == nullptr) {
    json.Key("usage");
    WriteUsage(json, *usage_);
  } else if (turn_.continuous_usage_stats) {
    Usage so_far;
    so_far.prompt_tokens = started_.prompt_tokens < 0 ? 0 : started_.prompt_tokens;
    so_far.completion_tokens = tokens_sent_;
    json.Key("usage");
    WriteUsage(json, so_far);
  } else if (turn_.stream_include_usage) {
    json.Key("usage").Null();  // as OpenAI has it: the last chunk alone carries it
  }
  json.EndObject();
  out += "\n\n";
}

void OpenAiStream::EndChoice(JsonWriter& json, const ChoiceState& state) {
  if (turn_.return_token_ids && !state.begun && turn_.surface == Surface::kCompletion) {
    WriteTokenIds(json, "prompt_token_ids", state.prompt_tokens);
  }
  json.EndObject();
}

OpenAiStream::ChoiceState& OpenAiStream::Begin(int32_t choice, std::string& out) {
  ChoiceState& state = choices_[choice];
  if (turn_.surface == Surface::kChat && !state.begun) {
    JsonWriter json = BeginChunk(out);
    json.BeginObject().Key("index").Int(choice).Key("delta").BeginObject();
    json.Key("role").String("assistant").Key("content").String("");
    json.EndObject().Key("logprobs").Null().Key("finish_reason").Null();
    json.EndObject();
    EndChunk(json, &state, out);
  }
  return state;
}

void OpenAiStream::Encode(const PromptEcho& echo, std::string& out) {
  if (turn_.return_token_ids) {
    choices_[echo.choice].prompt_tokens = echo.tokens;
  }
  const std::string_view text = EchoedText(turn_, echo);
  if (!turn_.echo || (turn_.surface == Surface::kChat && text.empty())) {
    return;
  }
  ChoiceState& state = Begin(echo.choice, out);
  JsonWriter json = BeginChunk(out);
  json.BeginObject().Key("index").Int(echo.choice);
  if (turn_.surface == Surface::kChat) {
    json.Key("delta").BeginObject().Key("content").String(text).EndObject();
    json.Key("logprobs").Null();
  } else {
    json.Key("text").String(text).Key("logprobs");
    if (echo.logprobs.empty() || turn_.sampling.logprobs < 0) {
      json.Null();
    } else {
      WriteCompletionLogprobs(json, echo.logprobs, 0);
    }
  }
  json.Key("finish_reason").Null();
  EndChoice(json, state);
  EndChunk(json, &state, out);
  state.characters += CountCharacters(text);
}

void OpenAiStream::Encode(const TextDelta& delta, std::string& out) {
  ChoiceState& state = Begin(delta.choice, out);
  tokens_sent_ += static_cast<int32_t>(delta.tokens.size());
  const bool tells_ids = turn_.return_token_ids && !delta.tokens.empty();
  if (delta.text.empty() && delta.logprobs.empty() && !tells_ids) {
    return;
  }
  JsonWriter json = BeginChunk(out);
  json.BeginObject().Key("index").Int(delta.choice);
  if (turn_.surface == Surface::kChat) {
    json.Key("delta").BeginObject().Key("content").String(delta.text).EndObject();
    json.Key("logprobs");
    if (delta.logprobs.empty()) {
      json.Null();
    } else {
      WriteChatLogprobs(json, delta.logprobs);
    }
  } else {
    json.Key("text").String(delta.text).Key("logprobs");
    if (delta.logprobs.empty()) {
      json.Null();
    } else {
      WriteCompletionLogprobs(json, delta.logprobs, state.characters);
    }
  }
  json.Key("finish_reason").Null();
  if (turn_.return_token_ids) {
    WriteTokenIds(json, "token_ids", delta.tokens);
  }
  EndChoice(json, state);
  EndChunk(json, &state, out);
  if (turn_.surface != Surface::kChat) {
    state.characters += CountCharacters(delta.text);
  }
}

void OpenAiStream::Encode(const ReasoningDelta& delta, std::string& out) {
  ChoiceState& state = Begin(delta.choice, out);
  JsonWriter json = BeginChunk(out);
  json.BeginObject().Key("index").Int(delta.choice).Key("delta").BeginObject();
  json.Key("reasoning_content").String(delta.text).EndObject();
  json.Key("logprobs").Null().Key("finish_reason").Null().EndObject();
  EndChunk(json, &state, out);
}

void OpenAiStream::Encode(const ToolCallDelta& delta, std::string& out) {
  ChoiceState& state = Begin(delta.choice, out);
  JsonWriter json = BeginChunk(out);
  json.BeginObject().Key("index").Int(delta.choice).Key("delta").BeginObject();
  json.Key("tool_calls").BeginArray().BeginObject().Key("index").Int(delta.index);
  if (!delta.id.empty()) {
    json.Key("id").String(delta.id).Key("type").String("function");
  }
  json.Key("function").BeginObject();
  if (!delta.name.empty()) {
    json.Key("name").String(delta.name);
  }
  json.Key("arguments").String(delta.arguments).EndObject().EndObject().EndArray().EndObject();
  json.Key("logprobs").Null().Key("finish_reason").Null().EndObject();
  EndChunk(json, &state, out);
}

void OpenAiStream::Encode(const Finish& finish, std::string& out) {
  ChoiceState& state = Begin(finish.choice, out);
  JsonWriter json = BeginChunk(out);
  json.BeginObject().Key("index").Int(finish.choice);
  if (turn_.surface == Surface::kChat) {
    json.Key("delta").BeginObject().EndObject();
  } else {
    json.Key("text").String("");
  }
  json.Key("logprobs").Null();
  json.Key("finish_reason").String(FinishReasonName(finish.reason));
  WriteStopReason(json, finish);
  EndChoice(json, state);
  EndChunk(json, &state, out);
}

void OpenAiStream::Encode(const Event& event, std::string& out) {
  if (ended_) {
    return;
  }
  if (const auto* failed = std::get_if<Failed>(&event)) {
    AppendSseData(out, OpenAiErrorBody(failed->error));
    ended_ = true;
  } else if (const auto* raw = std::get_if<RawChunk>(&event)) {
    raw_ = true;
    AppendSseData(out, raw->json);
  } else if (std::holds_alternative<Done>(event)) {
    if (!raw_ && turn_.stream_include_usage && usage_) {
      JsonWriter json = BeginChunk(out);
      EndChunk(json, nullptr, out);
    }
    out += kSseDone;
    ended_ = true;
  } else if (raw_ || std::holds_alternative<UpstreamHeaders>(event)) {
    return;  // the upstream's own chunks said it; headers are no part of a stream
  } else if (const auto* started = std::get_if<Started>(&event)) {
    started_ = *started;
    if (started->said_tokens > 0) {  // another stream has begun it
      ChoiceState& state = choices_[0];
      state.begun = true;
      state.characters = CountCharacters(started->said);
      tokens_sent_ = started->said_tokens;
    }
  } else if (const auto* usage = std::get_if<UsageReport>(&event)) {
    usage_ = usage->usage;
  } else if (const auto* echo = std::get_if<PromptEcho>(&event)) {
    Encode(*echo, out);
  } else if (const auto* text = std::get_if<TextDelta>(&event)) {
    Encode(*text, out);
  } else if (const auto* reasoning = std::get_if<ReasoningDelta>(&event)) {
    Encode(*reasoning, out);
  } else if (const auto* tool = std::get_if<ToolCallDelta>(&event)) {
    Encode(*tool, out);
  } else {
    Encode(std::get<Finish>(event), out);
  }
}

}  // namespace fak::wire
