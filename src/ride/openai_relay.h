#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "driver/engine_driver.h"
#include "wire/event.h"
#include "wire/sse.h"

namespace fak::ride {

// Turns an upstream's OpenAI answer, streamed or whole, into events: the chunk as it came
// (RawChunk), then what we understood of it. What isn't an answer becomes one Failed: an error
// frame under HTTP 200, a stream that ends without a finish reason for a choice that began, a body
// that isn't JSON. Only an event whose whole data is [DONE] ends a stream.
// Owned by one exchange; one thread. Holds one unfinished event.
class OpenAiRelay {
 public:
  // withhold_usage: the client didn't ask for the usage chunk that we asked the upstream for.
  OpenAiRelay(std::shared_ptr<driver::EventSink> sink, bool streamed, bool withhold_usage);

  void Feed(std::string_view bytes);
  // The response is complete.
  void Finish();
  // Ends the request with this error unless it has ended.
  void Fail(Error error);
  bool ended() const { return ended_; }

 private:
  void TakeEvent(std::string_view data);
  void TakeWhole();
  // False when the document is an error and the request has ended with it.
  bool TakeDocument(const Json& document, std::string_view raw);
  void TakeChoice(const Json& choice);
  void Emit(wire::Event event) { sink_->OnEvent(std::move(event)); }

  const std::shared_ptr<driver::EventSink> sink_;
  const bool streamed_;
  const bool withhold_usage_;
  wire::SseSplitter splitter_;
  std::string body_;                  // of a whole answer
  std::map<int64_t, bool> finished_;  // by choice
  bool done_ = false;                 // [DONE] came
  bool ended_ = false;
};

// The error in a response body: its message where it has one, else the beginning of the text.
Error UpstreamError(int status, std::string_view body);

}  // namespace fak::ride
