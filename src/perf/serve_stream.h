#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/json_view.h"
#include "wire/sse.h"

namespace fak::perf {

// Why a request counts as failed. Every request has one of these or a whole answer.
enum class ServeFault : uint8_t {
  kNone,
  kConnect,     // no connection, or none in time
  kTimeout,     // of the run's own --timeout
  kStatus,      // an HTTP status that isn't 2xx
  kErrorFrame,  // an error inside a stream that began with 200
  kNonsense,    // not the stream that was asked for
  kCutShort,    // it ended without a finish reason
  kEmpty,       // a finish reason, and no token before it
  kImpossible,  // a usage that can't be true
  kCancelled,   // the run was interrupted
};
std::string_view ServeFaultName(ServeFault fault);

// One request: times are ns since the run's start. What a request that failed had got by then
// stays in its record.
struct ServeRecord {
  uint32_t index = 0;      // in the workload
  int64_t planned_ns = 0;  // when it was due; in a closed loop, when it was sent
  int64_t sent_ns = 0;
  int64_t done_ns = 0;
  std::vector<int64_t> chunks_ns = {};  // arrivals of chunks with content
  ServeFault fault = ServeFault::kNone;
  int status = 0;                             // HTTP; 0: none came
  std::string why = {};                       // of a fault, for people
  std::string text_sha256 = {};               // of a whole answer's text
  std::string finish = {};                    // "length", "stop", ...
  std::optional<int64_t> prompt_tokens = {};  // of its usage
  std::optional<int64_t> output_tokens = {};
  std::optional<int64_t> cached_tokens = {};

  // By its usage; by its chunks where the server sends none.
  int64_t tokens() const { return output_tokens.value_or(static_cast<int64_t>(chunks_ns.size())); }
};

// What was asked for, which a usage is held against.
struct ServeAsked {
  int64_t output_tokens = 0;
  size_t prompt_bytes = 0;
};

// Reads the stream of a completion or chat completion into a record. One thread.
class ServeStream {
 public:
  ServeStream(ServeRecord& record, const ServeAsked& asked) : record_(record), asked_(asked) {}

  // Bytes of the body that came at `now_ns`.
  void Feed(std::string_view bytes, int64_t now_ns);
  // The body has ended. Sets the fault of what isn't whole.
  void Finish(int64_t now_ns);

 private:
  void OnEvent(std::string_view data, int64_t now_ns);
  void OnUsage(const JsonView& usage);
  // Why the usage can't be true; empty: it can.
  std::string UsageDoubt() const;
  void Break(ServeFault fault, std::string why);

  ServeRecord& record_;
  const ServeAsked asked_;
  wire::SseSplitter splitter_;
  JsonReader reader_;
  Sha256 text_;
  int64_t text_bytes_ = 0;
  bool done_ = false;
};

}  // namespace fak::perf
