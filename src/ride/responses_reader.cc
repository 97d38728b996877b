#include "base/limits.h"
#include "base/printable.h"
#include "ride/answer_reader.h"
#include "ride/json_reads.h"
#include "ride/upstream_error.h"

// OpenAI's responses.
namespace fak::ride {
namespace {

bool IsBegin(std::string_view type) {
  return type == "response.created" || type == "response.queued" || type == "response.in_progress";
}

// response.failed, the third, is an error wherever it comes.
bool IsEnd(std::string_view type) {
  return type == "response.completed" || type == "response.incomplete";
}

class ResponsesReader final : public AnswerReader {
 public:
  explicit ResponsesReader(bool streamed) : streamed_(streamed) {}

  Status CheckPlace(const AnswerDocument& answer) const override {
    const std::string_view type = answer.type.string();
    if (!streamed_ || !type.starts_with("response.") || type == "response.failed") {
      return {};
    }
    const JsonView response = ObjectAt(answer.whole, "response");
    // llama.cpp was seen to send the last event alone, with all of the answer.
    const bool alone = IsEnd(type) && !ArrayAt(response, "output").empty();
    if (!begun_ && !IsBegin(type) && !alone) {
      constexpr size_t kShown = 64;
      return OutOfOrder(Printable(type.substr(0, kShown)) + " before response.created");
    }
    return IsEnd(type) && StringAt(response, "status").empty()
               ? OutOfOrder(std::string(type) + " without a status")
               : Status();
  }

  Status Take(const AnswerDocument& answer, Emit emit) override {
    const JsonView& document = answer.whole;
    if (!streamed_) {
      return TakeResponse(document, true, emit);
    }
    const std::string_view type = answer.type.string();
    if (type == "response.output_text.delta" || type == "response.refusal.delta") {
      emit(wire::TextDelta{0, StringAt(document, "delta"), {}, {}});
    } else if (type == "response.reasoning_text.delta" ||
               type == "response.reasoning_summary_text.delta") {
      emit(wire::ReasoningDelta{0, StringAt(document, "delta")});
    } else if (type == "response.output_item.added") {
      TRY(StartItem(ObjectAt(document, "item"), emit));
    } else if (type == "response.function_call_arguments.delta" && tools_ > 0) {
      emit(wire::ToolCallDelta{0, tools_ - 1, "", "", StringAt(document, "delta")});
    } else if (IsEnd(type) || type == "response.failed") {
      // Where it comes alone its text has not been seen.
      TRY(TakeResponse(ObjectAt(document, "response"), !text_seen_, emit));
    }
    begun_ = begun_ || IsBegin(type);
    text_seen_ = text_seen_ || type == "response.output_text.delta";
    return {};
  }

  bool complete() const override { return finished_; }
  bool ended() const override { return streamed_ && finished_; }
  std::string_view missing() const override { return "response.completed"; }

 private:
  Status TakeResponse(const JsonView& response, bool with_output, Emit emit) {
    const std::string status = StringAt(response, "status");
    if (status == "failed") {
      Json shown = Json::Object{};
      shown.Set("error", ObjectAt(response, "error").Copy());
      return Fail(ErrorUnder200(shown, "the response failed"));
    }
    if (with_output) {
      for (const JsonView item : ArrayAt(response, "output")) {
        TRY(TakeItem(item, emit));
      }
    }
    const JsonView usage = ObjectAt(response, "usage");
    if (usage) {
      wire::Usage out;
      out.prompt_tokens = CountAt(usage, "input_tokens", 0);
      out.completion_tokens = CountAt(usage, "output_tokens", 0);
      out.cached_tokens = CountAt(ObjectAt(usage, "input_tokens_details"), "cached_tokens", -1);
      out.reasoning_tokens =
          CountAt(ObjectAt(usage, "output_tokens_details"), "reasoning_tokens", -1);
      emit(wire::UsageReport{out});
    }
    // "queued" and "in_progress" are whole answers too, to a request for the background.
    finished_ = !status.empty();
    const wire::FinishReason reason = status == "incomplete" ? wire::FinishReason::kLength
                                      : tools_ > 0           ? wire::FinishReason::kToolCalls
                                                             : wire::FinishReason::kStop;
    if (finished_) {
      emit(wire::Finish{0, reason, {}, {}});
    }
    return {};
  }

  Status TakeItem(const JsonView& item, Emit emit) {
    if (item.Find("type").string() == "function_call") {
      TRY(StartItem(item, emit));
      emit(wire::ToolCallDelta{0, tools_ - 1, "", "", StringAt(item, "arguments")});
      return {};
    }
    for (const JsonView part : ArrayAt(item, "content")) {
      if (part.Find("type").string() == "output_text") {
        emit(wire::TextDelta{0, StringAt(part, "text"), {}, {}});
      }
    }
    return {};
  }

  Status StartItem(const JsonView& item, Emit emit) {
    if (item.Find("type").string() != "function_call") {
      return {};
    }
    if (tools_ >= limits::kToolCallsMax) {
      return Fail(Code::kUpstreamError, "the upstream sent more than " +
                                            std::to_string(limits::kToolCallsMax) + " tool calls");
    }
    emit(wire::ToolCallDelta{0, tools_++, StringAt(item, "call_id"), StringAt(item, "name"), ""});
    return {};
  }

  const bool streamed_;
  bool begun_ = false;
  bool text_seen_ = false;
  bool finished_ = false;
  int32_t tools_ = 0;
};

}  // namespace

std::unique_ptr<AnswerReader> MakeResponsesReader(bool streamed) {
  return std::make_unique<ResponsesReader>(streamed);
}

}  // namespace fak::ride
