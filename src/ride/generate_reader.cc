#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "base/limits.h"
#include "ride/answer_reader.h"
#include "ride/json_reads.h"

// SGLang's own generate. A document a choice: {"text", "meta_info": {"finish_reason",
// "prompt_tokens", "completion_tokens", "cached_tokens"}}, in a stream of several with its "index";
// the whole answer to several is a list of them. A stream's text is all of it so far, unless the
// server was told to send what is new; a client can't tell it, so it is seen: what doesn't go on
// from all before is new.
namespace fak::ride {
namespace {

// {"type": "stop" | "length" | "abort", ...}; once it was the name alone.
std::optional<wire::FinishReason> ReasonOf(const JsonView& meta) {
  const JsonView reason = meta.Find("finish_reason");
  if (!reason || reason.is_null()) {
    return std::nullopt;
  }
  const std::string_view name = reason.is_string() ? reason.string() : reason.Find("type").string();
  return name == "stop"     ? wire::FinishReason::kStop
         : name == "length" ? wire::FinishReason::kLength
                            : wire::FinishReason::kError;
}

class GenerateReader final : public AnswerReader {
 public:
  bool takes_lists() const override { return true; }

  Status Take(const AnswerDocument& answer, Emit emit) override {
    const JsonView& document = answer.whole;
    if (!document.is_array()) {
      return TakeOne(document, IndexOf(document), emit);
    }
    int32_t index = 0;
    for (const JsonView one : document) {
      TRY(TakeOne(one, index++, emit));
    }
    return {};
  }

  bool complete() const override {
    return !choices_.empty() && std::all_of(choices_.begin(), choices_.end(),
                                            [](const auto& each) { return each.second.finished; });
  }
  size_t begun() const override { return choices_.size(); }
  std::string_view missing() const override { return "a finish reason"; }

 private:
  struct Choice {
    std::string text;  // so far, while every text went on from it
    bool cumulative = true;
    bool finished = false;
  };

  static int32_t IndexOf(const JsonView& document) {
    return !document.Find("index") ? 0 : IntAt(document, "index", -1);
  }

  Status TakeOne(const JsonView& document, int32_t index, Emit emit) {
    if (index < 0 || index >= kAnswerChoicesMax || !document.is_object()) {
      return Fail(Code::kUpstreamError, "the upstream sent an answer that is of no choice");
    }
    Choice& choice = choices_[index];
    if (std::string fresh = FreshOf(choice, StringAt(document, "text")); !fresh.empty()) {
      emit(wire::TextDelta{index, std::move(fresh), {}, {}});
    }
    const JsonView meta = ObjectAt(document, "meta_info");
    const std::optional<wire::FinishReason> reason = ReasonOf(meta);
    if (!reason || choice.finished) {
      return {};
    }
    choice.finished = true;
    emit(wire::Finish{index, *reason, {}, {}});
    Count(meta, emit);
    return {};
  }

  static std::string FreshOf(Choice& choice, std::string text) {
    if (choice.cumulative && text.starts_with(choice.text)) {
      std::string fresh = text.substr(choice.text.size());
      choice.text = std::move(text);
      return fresh;
    }
    choice.cumulative = false;
    choice.text.clear();
    return text;
  }

  // Those of all choices that have ended; not known where one of them doesn't say.
  void Count(const JsonView& meta, Emit emit) {
    const int32_t prompt = CountAt(meta, "prompt_tokens", -1);
    const int32_t completion = CountAt(meta, "completion_tokens", -1);
    const int32_t cached = CountAt(meta, "cached_tokens", -1);
    constexpr int32_t kMax = std::numeric_limits<int32_t>::max();
    counted_ = counted_ && prompt >= 0 && completion >= 0 &&
               usage_.prompt_tokens <= kMax - prompt &&
               usage_.completion_tokens <= kMax - completion;
    if (!counted_) {
      return;
    }
    usage_.prompt_tokens += prompt;
    usage_.completion_tokens += completion;
    cached_known_ = cached_known_ && cached >= 0 && cached_ <= kMax - cached;
    cached_ += cached_known_ ? cached : 0;
    usage_.cached_tokens = cached_known_ ? cached_ : -1;
    emit(wire::UsageReport{usage_});
  }

  std::map<int32_t, Choice> choices_;
  wire::Usage usage_;
  int32_t cached_ = 0;
  bool counted_ = true;
  bool cached_known_ = true;
};

}  // namespace

std::unique_ptr<AnswerReader> MakeGenerateReader() {
  return std::make_unique<GenerateReader>();
}

}  // namespace fak::ride
