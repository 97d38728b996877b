#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/limits.h"
#include "ride/answer_reader.h"
#include "ride/json_reads.h"

// Anthropic's messages.
namespace fak::ride {
namespace {

wire::FinishReason ReasonOf(std::string_view name) {
  if (name == "max_tokens" || name == "model_context_window_exceeded") {
    return wire::FinishReason::kLength;
  }
  if (name == "tool_use") {
    return wire::FinishReason::kToolCalls;
  }
  return name == "refusal" ? wire::FinishReason::kContentFilter : wire::FinishReason::kStop;
}

class MessagesReader final : public AnswerReader {
 public:
  explicit MessagesReader(bool streamed) : streamed_(streamed) {}

  Status CheckPlace(const AnswerDocument& answer) const override {
    const std::string_view type = answer.type.string();
    const bool content = type == "content_block_start" || type == "content_block_delta";
    const bool ordered = content || type == "content_block_stop" || type == "message_delta" ||
                         type == "message_stop";
    if (!streamed_ || (type != "message_start" && !ordered)) {
      return {};
    }
    if (ordered != started_) {
      return OutOfOrder(std::string(type) + (started_ ? " twice" : " before message_start"));
    }
    if (content && finished_) {
      return OutOfOrder(std::string(type) + " after the stop reason");
    }
    return type == "message_stop" && !finished_ ? OutOfOrder("message_stop before a stop reason")
                                                : Status();
  }

  Status Take(const AnswerDocument& answer, Emit emit) override {
    const JsonView& document = answer.whole;
    if (!streamed_) {
      return TakeMessage(document, emit);
    }
    const std::string_view type = answer.type.string();
    if (type == "message_start") {
      started_ = true;
      TakeUsage(ObjectAt(ObjectAt(document, "message"), "usage"));
    } else if (type == "content_block_start") {
      const JsonView block = ObjectAt(document, "content_block");
      if (StringAt(block, "type") == "tool_use") {
        TRY(StartTool(block, emit));
      }
    } else if (type == "content_block_delta") {
      TakeDelta(ObjectAt(document, "delta"), emit);
    } else if (type == "message_delta") {
      TakeUsage(ObjectOf(answer.usage));
      TakeStop(ObjectAt(document, "delta"), emit);
    } else if (type == "message_stop") {
      emit(wire::UsageReport{usage_});
      stopped_ = true;
    }
    return {};
  }

  bool complete() const override { return finished_ && (stopped_ || !streamed_); }
  bool ended() const override { return stopped_; }
  std::string_view missing() const override { return finished_ ? "message_stop" : "a stop reason"; }

 private:
  Status TakeMessage(const JsonView& message, Emit emit) {
    for (const JsonView block : ArrayAt(message, "content")) {
      const std::string_view type = block.Find("type").string();
      if (type == "text") {
        emit(wire::TextDelta{0, StringAt(block, "text"), {}, {}});
      } else if (type == "thinking") {
        emit(wire::ReasoningDelta{0, StringAt(block, "thinking")});
      } else if (type == "tool_use") {
        TRY(StartTool(block, emit));
        emit(wire::ToolCallDelta{0, tools_ - 1, "", "", ObjectAt(block, "input").Copy().Dump()});
      }
    }
    TakeUsage(ObjectAt(message, "usage"));
    TakeStop(message, emit);
    emit(wire::UsageReport{usage_});
    return {};
  }

  Status StartTool(const JsonView& block, Emit emit) {
    if (tools_ >= limits::kToolCallsMax) {
      return Fail(Code::kUpstreamError, "the upstream sent more than " +
                                            std::to_string(limits::kToolCallsMax) + " tool calls");
    }
    emit(wire::ToolCallDelta{0, tools_++, StringAt(block, "id"), StringAt(block, "name"), ""});
    return {};
  }

  void TakeDelta(const JsonView& delta, Emit emit) const {
    const std::string_view type = delta.Find("type").string();
    if (type == "text_delta") {
      emit(wire::TextDelta{0, StringAt(delta, "text"), {}, {}});
    } else if (type == "thinking_delta") {
      emit(wire::ReasoningDelta{0, StringAt(delta, "thinking")});
    } else if (type == "input_json_delta" && tools_ > 0) {
      emit(wire::ToolCallDelta{0, tools_ - 1, "", "", StringAt(delta, "partial_json")});
    }
  }

  void TakeStop(const JsonView& holder, Emit emit) {
    const std::string reason = StringAt(holder, "stop_reason");
    if (reason.empty() || finished_) {
      return;
    }
    finished_ = true;
    wire::Finish finish{0, ReasonOf(reason), {}, {}};
    if (const std::string stop = StringAt(holder, "stop_sequence"); !stop.empty()) {
      finish.stop_string = stop;
    }
    emit(std::move(finish));
  }

  // input_tokens doesn't count cached ones. Later reports replace earlier ones where they say
  // something: Dynamo's first says 1.
  void TakeUsage(const JsonView& usage) {
    if (!usage) {
      return;
    }
    const int32_t fresh = IntAt(usage, "input_tokens", -1);
    const int32_t read = IntAt(usage, "cache_read_input_tokens", -1);
    const int32_t created = IntAt(usage, "cache_creation_input_tokens", 0);
    if (fresh >= 0) {
      const int64_t all = int64_t{fresh} + std::max(read, 0) + std::max(created, 0);
      usage_.prompt_tokens =
          static_cast<int32_t>(std::min<int64_t>(all, std::numeric_limits<int32_t>::max()));
    }
    if (read >= 0) {
      usage_.cached_tokens = read;
    }
    usage_.completion_tokens = CountAt(usage, "output_tokens", usage_.completion_tokens);
  }

  const bool streamed_;
  wire::Usage usage_;
  int32_t tools_ = 0;
  bool started_ = false;
  bool finished_ = false;
  bool stopped_ = false;
};

}  // namespace

std::unique_ptr<AnswerReader> MakeMessagesReader(bool streamed) {
  return std::make_unique<MessagesReader>(streamed);
}

}  // namespace fak::ride
