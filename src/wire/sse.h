// Hot path: bench/micro/sse_bench.cc.
#pragma once

#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "base/result.h"

namespace fak::wire {

struct SseEvent {
  std::string_view type;  // of its "event:" line; empty: "message"
  std::string_view data;  // its "data:" lines, joined by LF
  std::string_view id;    // of its own "id:" line
};

// Splits a stream of server-sent events (WHATWG HTML, section 9.2) into events. Feed() may be
// called with any cut of the stream, even inside a UTF-8 sequence or between CR and LF; events
// come out whole. Takes LF, CR LF and CR ends of line, a byte order mark at the start, comments,
// data of several lines, and fields without a blank behind the colon. An event without data is
// dropped, as the standard says.
//
// Holds at most limits::kSseEventBytesMax of unfinished event; beyond that Feed() gives
// kPayloadTooLarge and the stream must be dropped. Bytes aren't checked for UTF-8.
// Not thread-safe: owned by one exchange, on one loop. No allocation for an event of one data
// line that arrives whole.
class SseSplitter {
 public:
  // The views of an event are valid during the call only.
  [[nodiscard]] Status Feed(std::string_view bytes, FunctionRef<void(const SseEvent&)> on_event);
  // The stream has ended: hands out an event that only lacked its blank line. (The standard drops
  // it; servers exist that leave the last blank line out.) What follows is a new stream.
  void Finish(FunctionRef<void(const SseEvent&)> on_event);

 private:
  void TakeLine(std::string_view line, FunctionRef<void(const SseEvent&)> on_event);
  void TakeField(std::string_view name, std::string_view value);
  void Dispatch(FunctionRef<void(const SseEvent&)> on_event);
  void KeepData();

  std::string line_;  // beginning of a line whose end hasn't come
  std::string type_;
  std::string id_;
  std::string data_;
  std::string_view whole_data_;  // the only data line so far, still in the caller's bytes
  int data_lines_ = 0;
  bool after_cr_ = false;
  bool at_start_ = true;
};

// Appends an event as every client reads it: `data: ` once a line of `data`, LF only, a blank
// line. `type` empty: no "event:" line.
void AppendSseEvent(std::string& out, std::string_view type, std::string_view data);
inline void AppendSseData(std::string& out, std::string_view data) {
  AppendSseEvent(out, {}, data);
}
// A line that clients skip, for keeping a connection alive.
void AppendSseComment(std::string& out, std::string_view text);

// The event that ends an OpenAI stream.
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

}  // namespace fak::wire
