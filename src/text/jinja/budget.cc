#include "text/jinja/budget.h"

namespace fak::text::jinja {

namespace {

Status OverBound(std::string_view what, std::string_view name, size_t bound) {
  return Fail(Code::kPayloadTooLarge, std::string(what) + " more than " + std::string(name) + " (" +
                                          std::to_string(bound) + ")");
}

}  // namespace

Status Budget::CheckSize(size_t bytes) const {
  if (bytes > limits::kTemplateOutputBytesMax) {
    return OverBound("the template makes a text of", "kTemplateOutputBytesMax",
                     limits::kTemplateOutputBytesMax);
  }
  return {};
}

Status Budget::Write(size_t bytes) {
  TRY(CheckSize(bytes));
  return Steps(bytes / kWrittenBytesAStep);
}

Status Budget::Write(const Text& text) {
  TRY(Pieces(text.user.size()));
  return Write(text.bytes.size());
}

Status Budget::WriteRepeated(size_t bytes, size_t count) {
  if (count != 0 && bytes > limits::kTemplateOutputBytesMax / count) {
    return CheckSize(limits::kTemplateOutputBytesMax + 1);
  }
  TRY(Pieces(count));
  return Write(bytes * count);
}

Status Budget::TooManySteps() {
  return OverBound("the template takes", "kTemplateStepsMax",
                   static_cast<size_t>(limits::kTemplateStepsMax));
}

Status Budget::TooDeep() {
  return OverBound("the template nests", "kTemplateEvalDepthMax",
                   static_cast<size_t>(limits::kTemplateEvalDepthMax));
}

Result<Value> MakeText(Budget& budget, Text text) {
  TRY(budget.Write(text));
  return Value(std::move(text));
}

Result<Value> MakeListValue(Budget& budget, std::vector<Value> items, List::Form form) {
  TRY(budget.Steps(items.size()));
  return MakeList(std::move(items), form);
}

tl::unexpected<Error> Raise(std::string message) {
  return Fail(Code::kInvalidArgument, std::move(message));
}

}  // namespace fak::text::jinja
