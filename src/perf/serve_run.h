#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/url.h"
#include "perf/serve_stream.h"
#include "perf/serve_workload.h"

namespace fak::perf {

// Requests that a run has open at once, at most: an open loop doesn't wait for answers.
inline constexpr uint32_t kServeOpenMax = 8192;
// Bytes of an error's body that are looked at.
inline constexpr size_t kServeErrorBytesMax = 4096;

struct ServeTarget {
  std::string name = {};
  net::Origin origin = {};
  std::string base = {};   // path in front of /v1, without a slash at its end
  std::string model = {};  // what requests ask for
  std::string key = {};    // empty: none is sent
};

// "NAME=URL" or "URL" (its name is its host and port); a "/v1" at the end is dropped.
// kInvalidArgument.
[[nodiscard]] Result<ServeTarget> ParseServeTarget(const std::string& text);

struct ServeOptions {
  // Requests that are open at once; in an open loop a bound on them (0: kServeOpenMax), in a
  // closed loop what is kept open.
  uint32_t concurrency = 0;
  bool closed_loop = false;
  bool chat = false;       // /v1/chat/completions and not /v1/completions
  bool ignore_eos = true;  // answers go on until their length: a field that engines know
  double temperature = 0;
  int64_t timeout_ns = 0;  // of one request, from when it was sent
  std::string ca_file = {};
};

struct ServeProgress {
  uint32_t sent = 0;
  uint32_t done = 0;
  uint32_t failed = 0;
};

struct ServeRun {
  std::vector<ServeRecord> records;  // by index
  int64_t duration_ns = 0;           // from the start to the last answer's end
  bool interrupted = false;
};

// Which models a target has: GET /v1/models. Blocks. Errors: the client's, kUpstreamError.
[[nodiscard]] Result<std::vector<std::string>> AskModels(const ServeTarget& target,
                                                         const std::string& ca_file);

// The body that a request sends.
std::string ServeBody(const ServeTarget& target, const ServeOptions& options,
                      const ServeRequest& request);

// Sends a workload to a target and waits for all answers. Requests leave at their planned times
// whatever the answers do (an open loop), unless `concurrency` are open. The caller's thread keeps
// the time, one other does the reading. `stop` ends it early: what is open is cancelled and counts
// as kCancelled, what wasn't sent isn't in the records. `on_progress` is called after every answer
// and ten times a second, on the caller's thread; may be null.
[[nodiscard]] Result<ServeRun> RunServe(
    const ServeTarget& target, std::span<const ServeRequest> workload, const ServeOptions& options,
    const std::function<void(const ServeProgress&)>& on_progress, const std::atomic<bool>& stop);

}  // namespace fak::perf
