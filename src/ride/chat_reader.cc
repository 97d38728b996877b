#include <algorithm>
#include <map>

#include "base/limits.h"
#include "ride/answer_reader.h"
#include "ride/json_reads.h"

namespace fak::ride {
namespace {

constexpr size_t kShownBytes = 64;  // of what makes no sense

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
  // vLLM's "abort" and "repetition" are no ends that a model chose.
  return name == "error" || name == "abort" || name == "repetition" ? wire::FinishReason::kError
                                                                    : wire::FinishReason::kStop;
}

// Whether it is there and can't be a number of tokens.
bool IsNonsense(const JsonView& usage, std::string_view key) {
  const JsonView value = usage.Find(key);
  return value && !value.is_null() && CountAt(usage, key, -1) < 0;
}

// llama.cpp's own words, beside a usage that older ones leave the cached tokens out of.
int32_t CachedByTimings(const JsonView& document) {
  return CountAt(ObjectAt(document, "timings"), "cache_n", -1);
}

// Says nothing where the engine says nonsense: what isn't known isn't 0.
void Report(const AnswerDocument& document, AnswerReader::Emit emit) {
  const JsonView usage = ObjectOf(document.usage);
  if (!usage || IsNonsense(usage, "prompt_tokens") || IsNonsense(usage, "completion_tokens")) {
    return;
  }
  wire::Usage out;
  out.prompt_tokens = CountAt(usage, "prompt_tokens", 0);
  out.completion_tokens = CountAt(usage, "completion_tokens", 0);
  out.cached_tokens = CountAt(ObjectAt(usage, "prompt_tokens_details"), "cached_tokens", -1);
  if (out.cached_tokens < 0) {
    out.cached_tokens = CachedByTimings(document.whole);
  }
  if (out.cached_tokens > out.prompt_tokens) {
    out.cached_tokens = -1;
  }
  out.reasoning_tokens =
      CountAt(ObjectAt(usage, "completion_tokens_details"), "reasoning_tokens", -1);
  emit(wire::UsageReport{out});
}

class ChatReader final : public AnswerReader {
 public:
  explicit ChatReader(bool streamed) : streamed_(streamed) {}

  Status Take(const AnswerDocument& document, Emit emit) override {
    for (const JsonView choice : ArrayOf(document.choices)) {
      TRY(TakeChoice(choice, emit));
    }
    Report(document, emit);
    return {};
  }

  bool IsUsageOnly(const AnswerDocument& document) const override {
    return ArrayOf(document.choices).empty() && document.usage.is_object();
  }

  bool tells_text_by_place() const override { return streamed_; }

  bool complete() const override { return !finished_.empty() && open_ == 0; }
  size_t begun() const override { return finished_.size(); }
  std::string_view missing() const override { return "a finish reason"; }

 private:
  Status TakeChoice(const JsonView& choice, Emit emit) {
    const auto [said, said_delta, plain_text, token_ids, prompt_ids, said_reason] =
        choice.FindEach({"index", streamed_ ? "delta" : "message", "text", "token_ids",
                         "prompt_token_ids", "finish_reason"});
    const int32_t index = !said || said.is_null() ? 0 : IntOf(said, -1);
    if (index < 0 || index >= kAnswerChoicesMax) {
      return Fail(Code::kUpstreamError,
                  "the upstream sent a choice with the index " +
                      (said.is_number() ? said.Copy().number_text().substr(0, kShownBytes)
                                        : "of another kind than a number"));
    }
    const auto [choice_finished, began] = finished_.try_emplace(index, false);
    bool& finished = choice_finished->second;
    open_ += began ? 1 : 0;
    const JsonView delta = ObjectOf(said_delta);
    // The second is vLLM's and mlx-lm's name.
    const auto [reasoning_content, reasoning, content, tool_calls] =
        delta.FindEach({"reasoning_content", "reasoning", "content", "tool_calls"});
    const std::string_view thought =
        reasoning_content.string().empty() ? reasoning.string() : reasoning_content.string();
    if (!thought.empty()) {
      emit(wire::ReasoningDelta{index, std::string(thought)});
    }
    wire::TextDelta text{index, std::string((delta ? content : plain_text).string()), {}, {}};
    text.tokens = IdsOf(token_ids);
    if (std::vector<int32_t> ids = IdsOf(prompt_ids); !ids.empty()) {
      emit(wire::PromptEcho{index, {}, std::move(ids), {}});
    }
    if (!text.text.empty() || !text.tokens.empty()) {
      emit(std::move(text));
    }
    TRY(TakeToolCalls(index, ArrayOf(tool_calls), emit));
    const std::string_view reason = said_reason.string();
    if (!reason.empty() && !finished) {
      finished = true;
      --open_;
      emit(wire::Finish{index, ReasonOf(reason), {}, {}});
    }
    return {};
  }

  static std::vector<int32_t> IdsOf(const JsonView& list) {
    std::vector<int32_t> ids;
    for (const JsonView id : ArrayOf(list)) {
      ids.push_back(IntOf(id, -1));
    }
    return ids;
  }

  static Status TakeToolCalls(int32_t index, const JsonView& calls, Emit emit) {
    int32_t place = 0;
    for (const JsonView call : calls) {
      const JsonView function = ObjectAt(call, "function");
      const int32_t at = IntAt(call, "index", place++);
      if (at < 0 || at >= limits::kToolCallsMax) {
        return Fail(Code::kUpstreamError,
                    "the upstream sent a tool call with the index " + std::to_string(at));
      }
      emit(wire::ToolCallDelta{index, at, StringAt(call, "id"), StringAt(function, "name"),
                               StringAt(function, "arguments")});
    }
    return {};
  }

  const bool streamed_;
  std::map<int32_t, bool> finished_;  // by choice
  size_t open_ = 0;                   // choices that have begun and not finished
};

class DocumentReader final : public AnswerReader {
 public:
  explicit DocumentReader(std::string_view member) : member_(member) {}

  Status Take(const AnswerDocument& document, Emit emit) override {
    complete_ = static_cast<bool>(document.whole.Find(member_));
    Report(document, emit);
    return {};
  }
  bool complete() const override { return complete_; }
  std::string_view missing() const override { return member_; }

 private:
  const std::string_view member_;
  bool complete_ = false;
};

}  // namespace

std::unique_ptr<AnswerReader> MakeChatReader(bool streamed) {
  return std::make_unique<ChatReader>(streamed);
}

std::unique_ptr<AnswerReader> MakeDocumentReader(std::string_view member) {
  return std::make_unique<DocumentReader>(member);
}

std::unique_ptr<AnswerReader> MakeAnswerReader(wire::Surface surface, bool streamed) {
  switch (surface) {
    case wire::Surface::kChat:
    case wire::Surface::kCompletion: break;
    case wire::Surface::kMessages: return MakeMessagesReader(streamed);
    case wire::Surface::kResponses: return MakeResponsesReader(streamed);
    case wire::Surface::kGenerate: return MakeGenerateReader();
    case wire::Surface::kEmbedding: return MakeDocumentReader("data");
    case wire::Surface::kCountTokens: return MakeDocumentReader("input_tokens");
    case wire::Surface::kTemplate: return MakeDocumentReader("prompt");
  }
  return MakeChatReader(streamed);
}

}  // namespace fak::ride
