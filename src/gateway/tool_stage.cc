#include "gateway/tool_stage.h"

#include <utility>

namespace fak::gateway {

using Kind = text::ToolCallPart::Kind;

ToolStage::ToolStage(std::vector<std::string> names, std::string call_id, bool parallel,
                     std::shared_ptr<driver::EventSink> next)
    : names_(std::move(names)),
      call_id_(std::move(call_id)),
      parallel_(parallel),
      next_(std::move(next)) {}

text::ToolCallParser& ToolStage::ParserOf(int32_t choice) {
  return parsers_.try_emplace(choice, names_).first->second;
}

void ToolStage::Pass(wire::TextDelta delta, std::vector<text::ToolCallPart> parts,
                     size_t calls_before) {
  const int32_t choice = delta.choice;
  size_t next = 0;
  if (!parts.empty() && parts.front().kind == Kind::kText) {
    delta.text = std::move(parts.front().text);
    next = 1;
  }
  if (!delta.text.empty() || !delta.tokens.empty() || !delta.logprobs.empty()) {
    next_->OnEvent(std::move(delta));
  }
  auto index = static_cast<int32_t>(calls_before) - 1;  // of the call that is open
  for (; next < parts.size(); ++next) {
    text::ToolCallPart& part = parts[next];
    if (part.kind == Kind::kText) {
      next_->OnEvent(wire::TextDelta{choice, std::move(part.text), {}, {}});
      continue;
    }
    wire::ToolCallDelta call;
    call.choice = choice;
    if (part.kind == Kind::kCall) {
      ++index;
      call.id = call_id_ + "-" + std::to_string(choice) + "-" + std::to_string(index);
      call.name = std::move(part.text);
    } else {
      call.arguments = std::move(part.text);
    }
    call.index = index;
    if (parallel_ || index == 0) {
      next_->OnEvent(std::move(call));
    }
  }
}

void ToolStage::Take(wire::TextDelta delta) {
  text::ToolCallParser& parser = ParserOf(delta.choice);
  const size_t calls_before = parser.calls();
  std::vector<text::ToolCallPart> parts;
  parser.Feed(std::exchange(delta.text, {}), parts);
  Pass(std::move(delta), std::move(parts), calls_before);
}

void ToolStage::Take(wire::Finish finish) {
  text::ToolCallParser& parser = ParserOf(finish.choice);
  const size_t calls_before = parser.calls();
  std::vector<text::ToolCallPart> parts;
  parser.Finish(parts);
  Pass({finish.choice, {}, {}, {}}, std::move(parts), calls_before);
  if (finish.reason == wire::FinishReason::kStop && parser.calls() > 0 && !parser.in_arguments()) {
    finish.reason = wire::FinishReason::kToolCalls;
  }
  next_->OnEvent(std::move(finish));
}

void ToolStage::OnEvent(wire::Event&& event) noexcept {
  if (auto* text = std::get_if<wire::TextDelta>(&event)) {
    Take(std::move(*text));
  } else if (auto* finish = std::get_if<wire::Finish>(&event)) {
    Take(std::move(*finish));
  } else if (auto* started = std::get_if<wire::Started>(&event);
             started != nullptr && !started->said.empty()) {
    // What was said before it went on here was told then.
    std::vector<text::ToolCallPart> told;
    ParserOf(0).Feed(started->said, told);
    next_->OnEvent(std::move(event));
  } else {
    next_->OnEvent(std::move(event));
  }
}

}  // namespace fak::gateway
