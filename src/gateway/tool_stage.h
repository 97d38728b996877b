#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "driver/engine_driver.h"
#include "text/tool_call_parser.h"
#include "wire/turn.h"

namespace fak::gateway {

// Between a driver that emits a model's text as it is (Capabilities::tool_calls false) and the sink
// that answers the client: tool calls in the text become ToolCallDelta. Tokens and log
// probabilities pass, those of calls too, each no later than its text. A choice that called tools
// finishes with kToolCalls, unless its last call's arguments were cut off: then with the reason
// that cut them. Thread: as EventSink.
class ToolStage final : public driver::EventSink {
 public:
  // names: of the turn's tools. call_id: the ids begin with it. parallel: more than the first call
  // of a choice is passed on.
  ToolStage(std::vector<std::string> names, std::string call_id, bool parallel,
            std::shared_ptr<driver::EventSink> next);

  void OnEvent(wire::Event&& event) noexcept override;
  void BeginBatch() noexcept override { next_->BeginBatch(); }
  void EndBatch() noexcept override { next_->EndBatch(); }
  void ListHot(HotLines& lines) const noexcept override { next_->ListHot(lines); }
  void OnPlaced(const driver::Placement& placement) override { next_->OnPlaced(placement); }
  void AwaitRoom(std::function<void()> on_room) override { next_->AwaitRoom(std::move(on_room)); }

 private:
  text::ToolCallParser& ParserOf(int32_t choice);
  void Take(wire::TextDelta delta);
  void Take(wire::Finish finish);
  // delta: what the parts came from, without its text.
  void Pass(wire::TextDelta delta, std::vector<text::ToolCallPart> parts, size_t calls_before);

  const std::vector<std::string> names_;
  const std::string call_id_;
  const bool parallel_;
  const std::shared_ptr<driver::EventSink> next_;
  std::map<int32_t, text::ToolCallParser> parsers_;  // by choice
};

}  // namespace fak::gateway
