#include "perf/serve_stream.h"

#include <array>
#include <utility>

#include "base/hex.h"

namespace fak::perf {
namespace {

// The text that a choice brings, wherever engines put it.
std::string_view ContentOf(const JsonView& choice) {
  if (const JsonView text = choice.Find("text")) {
    return text.string();
  }
  const JsonView delta = choice.Find("delta");
  for (const char* field : {"content", "reasoning_content", "reasoning"}) {
    if (const std::string_view text = delta.Find(field).string(); !text.empty()) {
      return text;
    }
  }
  return {};
}

}  // namespace

std::string_view ServeFaultName(ServeFault fault) {
  constexpr std::array<std::string_view, 10> kNames = {
      "",         "connect",   "timeout", "status",           "error_frame",
      "nonsense", "cut_short", "empty",   "usage_impossible", "cancelled"};
  return kNames[static_cast<size_t>(fault)];
}

void ServeStream::Feed(std::string_view bytes, int64_t now_ns) {
  if (record_.fault != ServeFault::kNone) {
    return;
  }
  const Status fed = splitter_.Feed(
      bytes, [this, now_ns](const wire::SseEvent& event) { OnEvent(event.data, now_ns); });
  if (!fed) {
    Break(ServeFault::kNonsense, fed.error().detail);
  }
}

void ServeStream::Finish(int64_t now_ns) {
  record_.done_ns = now_ns;
  if (record_.fault != ServeFault::kNone) {
    return;
  }
  splitter_.Finish([this, now_ns](const wire::SseEvent& event) { OnEvent(event.data, now_ns); });
  if (record_.fault != ServeFault::kNone) {
    return;
  }
  const Sha256::Digest digest = text_.Finish();
  record_.text_sha256 = ToHex(digest);
  if (record_.finish.empty()) {
    Break(ServeFault::kCutShort, "it ended without a finish reason");
  } else if (record_.chunks_ns.empty()) {
    Break(ServeFault::kEmpty, "it finished without a token");
  } else if (std::string doubt = UsageDoubt(); !doubt.empty()) {
    Break(ServeFault::kImpossible, std::move(doubt));
  }
}

void ServeStream::OnEvent(std::string_view data, int64_t now_ns) {
  if (done_ || record_.fault != ServeFault::kNone) {
    return;
  }
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  const Result<JsonView> read = reader_.Read(data);
  if (!read || !read->is_object()) {
    return Break(ServeFault::kNonsense, "an event that is no JSON object");
  }
  if (const JsonView error = read->Find("error"); error && !error.is_null()) {
    return Break(ServeFault::kErrorFrame, std::string(error.Find("message").string()));
  }
  if (const JsonView usage = read->Find("usage"); usage.is_object()) {
    OnUsage(usage);
  }
  for (const JsonView choice : read->Find("choices")) {
    if (const std::string_view text = ContentOf(choice); !text.empty()) {
      record_.chunks_ns.push_back(now_ns);
      text_.Update(text);
      text_bytes_ += static_cast<int64_t>(text.size());
    }
    if (const std::string_view finish = choice.Find("finish_reason").string(); !finish.empty()) {
      record_.finish = finish;
    }
  }
}

void ServeStream::OnUsage(const JsonView& usage) {
  const auto take = [&usage](const char* name, std::optional<int64_t>& into) {
    if (const auto value = usage.Find(name).AsInt(); value && *value >= 0) {
      into = value;
    }
  };
  take("prompt_tokens", record_.prompt_tokens);
  take("completion_tokens", record_.output_tokens);
  if (const auto cached = usage.Find("prompt_tokens_details").Find("cached_tokens").AsInt();
      cached && *cached >= 0) {
    record_.cached_tokens = cached;
  }
}

std::string ServeStream::UsageDoubt() const {
  // Around a prompt a template may put words of its own.
  constexpr int64_t kTemplateTokensMax = 16384;
  const int64_t output = record_.output_tokens.value_or(0);
  const int64_t prompt = record_.prompt_tokens.value_or(0);
  const int64_t cached = record_.cached_tokens.value_or(0);
  const auto prompt_bytes = static_cast<int64_t>(asked_.prompt_bytes);
  // A server may go on past what was asked for; its text shows that.
  if (output > asked_.output_tokens && output > text_bytes_) {
    return "its usage says " + std::to_string(output) + " output tokens, for a text of " +
           std::to_string(text_bytes_) + " bytes; " + std::to_string(asked_.output_tokens) +
           " were asked for";
  }
  if (prompt > prompt_bytes + kTemplateTokensMax) {
    return "its usage says " + std::to_string(prompt) + " prompt tokens, for a prompt of " +
           std::to_string(prompt_bytes) + " bytes";
  }
  if (record_.prompt_tokens && cached > prompt) {
    return "its usage says " + std::to_string(cached) + " cached tokens of " +
           std::to_string(prompt) + " in the prompt";
  }
  return "";
}

void ServeStream::Break(ServeFault fault, std::string why) {
  record_.fault = fault;
  record_.why = std::move(why);
}

}  // namespace fak::perf
