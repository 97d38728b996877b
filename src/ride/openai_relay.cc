#include "ride/openai_relay.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/limits.h"
#include "base/utf8.h"

namespace fak::ride {
namespace {

std::string StringAt(const Json& object, std::string_view key) {
  const Json* value = object.Find(key);
  return value != nullptr && value->is_string() ? value->string() : std::string();
}

int32_t IntAt(const Json& object, std::string_view key, int32_t absent) {
  const Json* value = object.Find(key);
  const auto number = value != nullptr && value->is_number() ? value->AsInt() : std::nullopt;
  const bool fits = number && *number >= std::numeric_limits<int32_t>::min() &&
                    *number <= std::numeric_limits<int32_t>::max();
  return fits ? static_cast<int32_t>(*number) : absent;
}

wire::FinishReason ReasonOf(std::string_view name) {
  if (name == "length") {
    return wire::FinishReason::kLength;
  }
  if (name == "tool_calls" || name == "function_call") {
    return wire::FinishReason::kToolCalls;
  }
  if (name == "content_filter") {
    return wire::FinishReason::kContentFilter;
  }
  return name == "error" ? wire::FinishReason::kError : wire::FinishReason::kStop;
}

wire::Usage UsageOf(const Json& usage) {
  wire::Usage out;
  out.prompt_tokens = IntAt(usage, "prompt_tokens", 0);
  out.completion_tokens = IntAt(usage, "completion_tokens", 0);
  if (const Json* details = usage.Find("prompt_tokens_details")) {
    out.cached_tokens = IntAt(*details, "cached_tokens", -1);
  }
  return out;
}

}  // namespace

Error UpstreamError(int status, std::string_view body) {
  Error error{Code::kUpstreamError, "", ""};
  // The upstream's refusal of our own credentials is no statement about the client's.
  if (status >= 400 && status < 500 && status != 401 && status != 403) {
    error.upstream_status = status;
  }
  if (const Result<Json> document = ParseJson(body)) {
    const Json* inner = document->Find("error");
    const Json& holder = inner != nullptr && inner->is_object() ? *inner : *document;
    error.detail =
        inner != nullptr && inner->is_string() ? inner->string() : StringAt(holder, "message");
    error.field = StringAt(holder, "param");
    if (error.detail.empty()) {
      error.detail = StringAt(*document, "detail");
    }
  }
  if (error.detail.empty()) {
    constexpr size_t kShown = 200;
    error.detail = ReplaceInvalidUtf8(body.substr(0, std::min(body.size(), kShown)));
  }
  if (error.detail.empty() || error.upstream_status == 0) {
    const std::string what = status == 200 ? "the upstream reported an error"
                                           : "the upstream answered " + std::to_string(status);
    error.detail = what + (error.detail.empty() ? "" : ": " + error.detail);
  }
  return error;
}

OpenAiRelay::OpenAiRelay(std::shared_ptr<driver::EventSink> sink, bool streamed,
                         bool withhold_usage)
    : sink_(std::move(sink)), streamed_(streamed), withhold_usage_(withhold_usage) {}

void OpenAiRelay::Feed(std::string_view bytes) {
  if (ended_) {
    return;
  }
  if (!streamed_) {
    if (body_.size() + bytes.size() > limits::kUpstreamBodyBytesMax) {
      Fail({Code::kUpstreamError, "the upstream's answer is larger than " +
                                      std::to_string(limits::kUpstreamBodyBytesMax) + " bytes"});
      return;
    }
    body_ += bytes;
    return;
  }
  const Status fed =
      splitter_.Feed(bytes, [this](const wire::SseEvent& event) { TakeEvent(event.data); });
  if (!fed) {
    Fail({Code::kUpstreamError, fed.error().detail});
  }
}

void OpenAiRelay::TakeEvent(std::string_view data) {
  if (ended_ || done_) {
    return;
  }
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  const Result<Json> document = ParseJson(data);
  if (!document) {
    Fail({Code::kUpstreamError,
          "the upstream sent an event that is no JSON: " + document.error().detail});
    return;
  }
  TakeDocument(*document, data);
}

void OpenAiRelay::TakeWhole() {
  const Result<Json> document = ParseJson(body_);
  if (!document) {
    Fail({Code::kUpstreamError, "the upstream's answer is no JSON: " + document.error().detail});
    return;
  }
  if (TakeDocument(*document, body_) && finished_.empty()) {
    Fail({Code::kUpstreamError, "the upstream's answer has no choices"});
  }
}

bool OpenAiRelay::TakeDocument(const Json& document, std::string_view raw) {
  const Json* error = document.Find("error");
  if (error != nullptr && !error->is_null()) {
    Fail(UpstreamError(200, raw));
    return false;
  }
  const Json* choices = document.Find("choices");
  const Json* usage = document.Find("usage");
  const bool has_choices = choices != nullptr && choices->is_array() && !choices->array().empty();
  const bool has_usage = usage != nullptr && usage->is_object();
  if (has_choices || !has_usage || !withhold_usage_) {
    Emit(wire::RawChunk{std::string(raw)});
  }
  if (has_choices) {
    for (const Json& choice : choices->array()) {
      TakeChoice(choice);
      if (ended_) {
        return false;
      }
    }
  }
  if (has_usage) {
    Emit(wire::UsageReport{UsageOf(*usage)});
  }
  return true;
}

void OpenAiRelay::TakeChoice(const Json& choice) {
  const int32_t index = IntAt(choice, "index", 0);
  if (index < 0 || index >= limits::kChoicesMax) {
    Fail({Code::kUpstreamError,
          "the upstream sent a choice with the index " + std::to_string(index)});
    return;
  }
  bool& finished = finished_[index];
  const Json* delta = choice.Find(streamed_ ? "delta" : "message");
  const std::string text =
      delta != nullptr ? StringAt(*delta, "content") : StringAt(choice, "text");
  const std::string reasoning = delta == nullptr ? "" : StringAt(*delta, "reasoning_content");
  if (!reasoning.empty()) {
    Emit(wire::ReasoningDelta{index, reasoning});
  }
  if (!text.empty()) {
    Emit(wire::TextDelta{index, text, {}, {}});
  }
  const Json* calls = delta == nullptr ? nullptr : delta->Find("tool_calls");
  if (calls != nullptr && calls->is_array()) {
    int32_t place = 0;
    for (const Json& call : calls->array()) {
      const Json* function = call.Find("function");
      const int32_t at = IntAt(call, "index", place++);
      if (at < 0 || at >= limits::kToolCallsMax) {
        Fail({Code::kUpstreamError,
              "the upstream sent a tool call with the index " + std::to_string(at)});
        return;
      }
      Emit(wire::ToolCallDelta{index, at, StringAt(call, "id"),
                               function == nullptr ? "" : StringAt(*function, "name"),
                               function == nullptr ? "" : StringAt(*function, "arguments")});
    }
  }
  const std::string reason = StringAt(choice, "finish_reason");
  if (!reason.empty() && !finished) {
    finished = true;
    Emit(wire::Finish{index, ReasonOf(reason), {}, {}});
  }
}

void OpenAiRelay::Finish() {
  if (ended_) {
    return;
  }
  if (streamed_) {
    splitter_.Finish([this](const wire::SseEvent& event) { TakeEvent(event.data); });
  } else {
    TakeWhole();
  }
  if (ended_) {
    return;
  }
  const bool all = std::all_of(finished_.begin(), finished_.end(),
                               [](const auto& choice) { return choice.second; });
  if (finished_.empty() || !all) {
    Fail({Code::kUpstreamError, "the upstream's answer ended without a finish reason"});
    return;
  }
  ended_ = true;
  Emit(wire::Done{});
}

void OpenAiRelay::Fail(Error error) {
  if (!std::exchange(ended_, true)) {
    Emit(wire::Failed{std::move(error)});
  }
}

}  // namespace fak::ride
