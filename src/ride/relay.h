#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/json_view.h"
#include "driver/engine_driver.h"
#include "ride/answer_reader.h"
#include "ride/chunk_edits.h"
#include "ride/chunk_shape.h"
#include "wire/event.h"
#include "wire/sse.h"
#include "wire/turn.h"

namespace fak::ride {

// Turns an upstream's answer, streamed or whole, of any wire, into events: the chunk as it came
// (RawChunk), then what we understood of it. What isn't an answer becomes one Failed: an error
// frame under HTTP 200, a stream that ends before its wire says so (answer_reader.h), a body that
// isn't JSON. A "[DONE]" ends the stream there, well or not, and only an event whose whole data it
// is counts. Owned by one request; one thread. Holds one unfinished event, or a whole answer.
class Relay {
 public:
  struct Options {
    wire::Surface surface = wire::Surface::kChat;
    bool streamed = false;
    bool withhold_usage = false;  // the client didn't ask for the chunk that we asked for
    size_t choices = 1;           // asked for: n of each prompt
    ChunkEdits edits = {};        // of the chunks that the client gets
    std::string key = {};         // ours at the upstream, kept out of what it says of an error
  };
  Relay(std::shared_ptr<driver::EventSink> sink, const Options& options);

  // What the head says that the body is, for an error. Before Feed().
  void SetContentType(std::string_view type) {
    if (!type.starts_with(UsualType())) {
      maybe_odd_type_ = std::make_unique<const std::string>(type);
    }
  }
  void Feed(std::string_view bytes);
  // The response is complete.
  void Finish();
  // The response broke off. Where all of the answer had come before, and only the end of its
  // framing is missing, the client has it whole, and an error would take it back.
  void Break(Error error);
  // Ends the request with this error unless it has ended.
  void Fail(Error error);
  void AwaitRoom(std::function<void()> on_room) { sink_->AwaitRoom(std::move(on_room)); }
  void Emit(wire::Event&& event) { sink_->OnEvent(std::move(event)); }
  // Around the Feed()s of what came in one read.
  void BeginBatch() { sink_->BeginBatch(); }
  void EndBatch() { sink_->EndBatch(); }
  void ListHot(HotLines& lines) const {
    lines.AddObject(*this);
    lines.Add(reader_.get(), AnswerReader::kHotBytes);
    shape_.ListHot(lines);
    sink_->ListHot(lines);
  }
  bool ended() const { return ended_; }
  bool succeeded() const { return succeeded_; }
  // Whether all of the answer has come, so that Break() would be no error.
  bool whole() const;
  // Whether every choice that has begun has ended; of those asked for, some may be yet to begin.
  bool settled() const { return options_.streamed && reader_->complete(); }

 private:
  void TakeEvent(const wire::SseEvent& event);
  // Whether it is a chunk as one before, with another text.
  bool TakeOfShape(std::string_view raw);
  void TakeDocument(const JsonView& whole, std::string_view raw, std::string_view type);
  void TakeWhole();
  std::string_view UsualType() const {
    return options_.streamed ? "text/event-stream" : "application/json";
  }
  // " (Content-Type text/html: <!doctype ...)": what came instead of an answer.
  std::string WhatCame() const;
  // Nothing more is to come.
  void Conclude();
  void Succeed();

  const std::shared_ptr<driver::EventSink> sink_;
  const Options options_;
  const std::unique_ptr<AnswerReader> reader_;
  wire::SseSplitter splitter_;
  ChunkShape shape_;
  int32_t shape_choice_ = 0;
  std::unique_ptr<const std::string> maybe_odd_type_;  // null: the usual one
  std::string body_;  // of a whole answer; of a stream, what came before its first event
  bool has_event_ = false;
  bool ended_ = false;
  bool succeeded_ = false;
};

}  // namespace fak::ride
