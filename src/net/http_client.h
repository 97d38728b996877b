#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/hot_lines.h"
#include "base/limits.h"
#include "base/result.h"
#include "net/event_loop.h"
#include "net/http_message.h"
#include "net/proxy.h"
#include "net/tls.h"
#include "net/url.h"

namespace fak::net {

class UpstreamExchange;

struct HttpTimeouts {
  int connect_ms = limits::kUpstreamConnectTimeoutMs;  // waiting for a connection, DNS, TCP, TLS
  int first_byte_ms = limits::kUpstreamFirstByteTimeoutMs;  // request sent to first response byte
  int idle_ms = limits::kUpstreamIdleTimeoutMs;  // between two reads of the body; not while paused
  int total_ms = 0;                              // of everything; 0: no bound
};

struct HttpClientRequest {
  std::string method = "GET";
  Origin origin;
  std::string target = "/";
  // Host and Content-Length are the client's own unless Host is given; hop-by-hop fields are
  // dropped (HttpHeaders::RemoveHopByHop).
  HttpHeaders headers = {};
  std::string body = {};
  HttpTimeouts timeouts = {};
  bool keep_connection = true;  // false: for this answer alone, and the upstream is told so
};

// The field of an error that says that nobody was there to speak with: no address for the host, or
// no connection to one. TLS that fails, and a proxy that refuses, are something else.
inline constexpr std::string_view kUnreachedField = "host";

// Receives one response; on the loop, one call at a time. May be told nothing but OnDone.
class HttpResponseSink {
 public:
  virtual ~HttpResponseSink() = default;
  // The final status (1xx are skipped); hop-by-hop fields are gone from the headers.
  virtual void OnHead(int status, HttpHeaders headers) = 0;
  // Content as it comes, without its framing; the view is valid during the call.
  virtual void OnBody(std::string_view bytes) = 0;
  // After the OnBody() calls of one read, unless OnDone() follows: nothing more has come yet.
  virtual void OnReadEnd() {}
  // Adds what the next OnBody() will touch. Asked for now and then, as long as a body comes.
  virtual void ListHot(HotLines& lines) const { (void)lines; }
  // Once, last. Ok: the response is complete. Otherwise kUnavailable (no connection could be
  // made; kUnreachedField), kResourceExhausted (too many wait already, none came free in time, or
  // we have no descriptor left for one), kDeadlineExceeded, kUpstreamError (it closed early, or
  // broke the protocol).
  virtual void OnDone(Status status) = 0;
};

// A request on its way. Loop thread only. Dropping it changes nothing.
class HttpExchange {
 public:
  explicit HttpExchange(std::shared_ptr<UpstreamExchange> exchange);
  ~HttpExchange();

  // Closes the connection at once and frees the sink, which is not called any more. May be called
  // from inside the sink. Nothing happens when the exchange has ended.
  void Cancel();
  // Stops reading from the upstream after what has been read, so that its sending window fills;
  // Resume() goes on. For consumers that are slower than the upstream.
  void Pause();
  void Resume();

  // False while it is certain that the upstream has seen nothing of the request: it may be sent
  // elsewhere.
  bool request_bytes_sent() const;
  // Whether a byte of the response has come.
  bool response_started() const;

 private:
  const std::shared_ptr<UpstreamExchange> exchange_;
};

struct HttpClientOptions {
  size_t connections_per_origin_max = limits::kUpstreamConnectionsMax;
  size_t idle_per_origin_max = limits::kUpstreamIdleConnectionsMax;
  size_t waiting_per_origin_max = limits::kUpstreamWaitingMax;
  size_t head_bytes_max = limits::kHttpHeadBytesMax;
  // How long an unused connection is kept. Below the 5 s after which uvicorn, and with it every
  // Python engine, closes it: a request sent into a closing connection can't be repeated.
  int keep_idle_ms = limits::kUpstreamKeepIdleMs;
  TlsClientOptions tls = {};
  // Reads the certificates in Make() and not with the first connection that needs them.
  bool tls_at_once = false;
  ProxyRules proxies = {};  // none: the environment is not read here
};

struct HttpClientStats {
  size_t connections = 0;  // open, all origins
  size_t idle = 0;
  size_t waiting = 0;  // requests that wait for a connection
  uint64_t connects_total = 0;
  uint64_t reuses_total = 0;
  uint64_t resends_total = 0;  // on a connection that turned out to be closed
};

// An HTTP/1.1 client on one loop, with a pool of kept connections for each origin. Redirects are
// not followed, bodies not decompressed.
//
// A request that finds its kept connection closed is sent once more on a new one when that can't
// do harm: none of its bytes had left, or its method is GET, HEAD or OPTIONS and no byte of a
// response had come.
//
// Loop thread only, but for making and destroying it (any thread). Without tls_at_once the first
// connection with TLS holds the loop up for about 0.1 s, in which the system's certificates are
// read.
class HttpClient {
 public:
  // kInvalidArgument when the CA file can't be used.
  [[nodiscard]] static Result<std::unique_ptr<HttpClient>> Make(EventLoop& loop,
                                                                HttpClientOptions options = {});
  // Cancels what is open; no sink is called after it.
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Sends a request. The sink is not called before this returns; it is freed after OnDone.
  std::shared_ptr<HttpExchange> Send(HttpClientRequest request,
                                     std::unique_ptr<HttpResponseSink> sink);

  HttpClientStats stats() const;

 private:
  class Impl;
  explicit HttpClient(std::shared_ptr<Impl> impl);
  const std::shared_ptr<Impl> impl_;
  friend class UpstreamExchange;
};

// For callers that may block: sends on the loop, waits, gives the whole response. Not on the loop
// (CHECKed). kPayloadTooLarge beyond `body_bytes_max`.
[[nodiscard]] Result<HttpResponse> FetchAndWait(EventLoop& loop, HttpClient& client,
                                                HttpClientRequest request, size_t body_bytes_max);

}  // namespace fak::net
