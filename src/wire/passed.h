#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "wire/event.h"
#include "wire/turn.h"

// Requests whose engine speaks the client's own wire: their documents pass, and no more of them is
// read than choosing an engine needs. Pure but for PassedStream.
namespace fak::wire {

// A request of any surface but chats and completions as a turn: model,
// stream, cache_salt, and as its one prompt the text that caches would find again (tools,
// instructions, messages). kInvalidArgument names a field of a wrong type, or the one that is
// missing without which no engine could answer. Of kGenerate, whose answers tell prompts and
// choices apart by a number alone, there is a prompt for each that it has, n, and as its cache_salt
// what it calls extra_key.
[[nodiscard]] Result<Turn> DecodePassedRequest(const Json& document, Surface surface);

// The streamed answer of kMessages, kResponses and kGenerate: the upstream's events as they came,
// each under its own name; that of kGenerate ends with "[DONE]". A failure after bytes were sent is
// one error event of the dialect and then the end. Owned by one exchange; not thread-safe.
class PassedStream {
 public:
  explicit PassedStream(Surface surface) : surface_(surface) {}

  // Appends the bytes of this event, possibly none.
  void Encode(const Event& event, std::string& out);
  bool ended() const { return ended_; }

 private:
  int64_t NextSequenceNumber() const;

  const Surface surface_;
  // Of kResponses: what numbers our own event, after the upstream's.
  std::string last_;           // its last event
  int64_t passed_ = 0;         // its events
  bool failure_sent_ = false;  // the upstream's own response.failed
  bool ended_ = false;
};

// The body of an error answer in the dialect of a surface; status is the HTTP status it goes with.
//   kMessages, kCountTokens: {"type": "error", "error": {"type", "message"}, "request_id"}
//   all others: OpenAiErrorBody()
std::string ErrorBody(Surface surface, const Error& error, int status, std::string_view request_id);

}  // namespace fak::wire
