#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/limits.h"
#include "base/result.h"
#include "net/http_client.h"
#include "net/url.h"
#include "ride/adapter.h"

namespace fak::ride {

// Where an upstream is, and how to make our own requests to it.
struct UpstreamTarget {
  net::Origin origin;
  std::string prefix;  // of every path; "" or "/somewhere"
  std::string api_key;
  net::HttpTimeouts timeouts = {};        // of clients' requests
  int call_ms = limits::kProbeTimeoutMs;  // a call of our own, all of it

  // `url` may end in /v1 or not. kInvalidArgument: it's no URL.
  [[nodiscard]] static Result<UpstreamTarget> Parse(const std::string& url, std::string api_key);
  // Adds what every request of that engine needs: the key in its header, default headers.
  net::HttpClientRequest Request(const Adapter& adapter, const Call& call) const;
};

// Makes calls one after the other and gives each reply. A call has target.call_ms and
// limits::kProbeBytesMax: beyond them, and where nobody answers, its reply is the status 0 and the
// reason. Calls `done` once, on the client's loop, unless it is destroyed before: then never. Loop
// thread only.
class CallSequence {
 public:
  using Done = std::function<void(Replies)>;
  // `client` outlives it. `stop_when` ends it early after a reply; null: never.
  CallSequence(net::HttpClient& client, const UpstreamTarget& target, const Adapter& adapter,
               std::vector<Call> calls, Done done,
               std::function<bool(const Call&, const Reply&)> stop_when = nullptr);
  ~CallSequence();
  CallSequence(const CallSequence&) = delete;
  CallSequence& operator=(const CallSequence&) = delete;

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

// 401 and 403: what would be answered with a key that is taken isn't known.
inline bool RefusesKey(int status) {
  return status == 401 || status == 403;
}
// "GET /v1/models answered 401: give --upstream-api-key ...", as a reason not to be ready. `key`:
// that was sent.
std::string AnsweredInWords(const std::string& asked, int status, std::string_view key);

// Which engine replies to IdentifyCalls() like that. kUnavailable: nobody answers there, with
// net::kUnreachedField where no connection could be made.
// kUpstreamError: somebody does, and it's no engine that we know, or doesn't take our key.
struct Identified {
  const Adapter* adapter = nullptr;
  std::string why;
};
[[nodiscard]] Result<Identified> Identify(const Replies& replies, std::string_view key = {});

// What else a probe of this engine asks.
std::vector<Call> CallsOf(const Adapter& adapter);
// All of it, read; what refusals say without our key.
Endpoint Conclude(const Identified& engine, const Replies& replies, std::string_view key = {});

// Finds out what is behind a target: which engine, unless `maybe_adapter` says so, and what it has.
// On the client's loop; `done` as in CallSequence. Costs about a dozen small requests.
class Prober {
 public:
  using Done = std::function<void(Result<Endpoint>)>;
  Prober(net::HttpClient& client, UpstreamTarget target, const Adapter* maybe_adapter, Done done);

 private:
  void AskAll(Replies known);

  net::HttpClient& client_;
  const UpstreamTarget target_;
  const Done done_;
  Identified engine_;
  std::unique_ptr<CallSequence> calls_;
};

// The same for a caller that may block; on a loop of its own.
[[nodiscard]] Result<Endpoint> ProbeAndWait(const UpstreamTarget& target,
                                            const Adapter* maybe_adapter,
                                            const net::TlsClientOptions& tls);

}  // namespace fak::ride
