#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/hot_lines.h"
#include "base/limits.h"
#include "base/result.h"
#include "base/unique_function.h"
#include "net/event_loop.h"
#include "net/http_message.h"
#include "net/tls.h"

namespace fak::net {

class ServerConnection;

// Answers one request, whole with Send() or streamed with StartStream(), Write()..., End(). Any
// thread: calls off the loop are posted to it and keep the order of the thread that made them.
// Calls after the client has gone, or after the end, do nothing. Dropping the last reference
// without an answer sends a 500 (or cuts the stream, if one was started).
class ResponseWriter {
 public:
  ResponseWriter(std::shared_ptr<ServerConnection> connection, uint64_t exchange);
  ~ResponseWriter();
  ResponseWriter(const ResponseWriter&) = delete;
  ResponseWriter& operator=(const ResponseWriter&) = delete;

  EventLoop& loop() const;
  // Adds what the next Write() will touch. On the loop.
  void ListHot(HotLines& lines) const;

  void Send(HttpResponse response);

  // The head leaves with the first Write() or with FlushHead(), whichever is first.
  void StartStream(int status, HttpHeaders headers);
  void FlushHead();
  // Bytes of the body. Leaves at once, in one write of its own, when nothing waits before it;
  // otherwise together with what waits. When more than stream_buffer_bytes_max wait, beside one
  // write that is larger by itself, the client reads too slowly: the connection is cut and
  // OnClientGone's callback is called.
  void Write(std::string_view bytes);
  // With the last bytes of the body, which leave in one write with its end.
  void End(std::string_view bytes = {});
  // Cuts the connection, so that the client can't take what it got for a whole answer.
  void Abort();

  // `on_gone` is called once, on the loop, when this request can't be answered any more: its
  // client closed the connection (seen within milliseconds, also while nothing is written; a
  // half-close counts), didn't read for write_stall_ms, reads too slowly, or the server was
  // stopped. Never after Send() or End() have been called. If that has happened already it is
  // called soon. Replaces an earlier one. What it holds is freed when the request has ended, either
  // way.
  void OnClientGone(UniqueFunction<void(const Error&)> on_gone);

  // For producers that can wait: bytes written that the kernel hasn't taken yet. Off the loop it
  // doesn't count what is still on its way there.
  size_t buffered_bytes() const;
  // Calls `on_drained` once, on the loop, when buffered_bytes() is at most `low_bytes`; soon, when
  // it already is. Replaces an earlier one; dropped uncalled when the client goes.
  void OnDrained(size_t low_bytes, UniqueFunction<void()> on_drained);

 private:
  template <class Call>
  void OnLoop(Call call);

  const std::shared_ptr<ServerConnection> connection_;
  const uint64_t exchange_;
};

// What the server calls; on the loop only.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;

  // Called when the head is there and before a body is read (and before "100 Continue"). A
  // response refuses the request: it is sent and the connection closed, so that nobody can make
  // us take in 64 MB to be told that his key is wrong. `head.body` is empty.
  virtual std::optional<HttpResponse> OnHead(const HttpRequest& head) {
    (void)head;
    return std::nullopt;
  }
  // Called when the body is there. `response` may be kept for as long as the answer takes. The
  // requests of one connection come one after the other, each when the one before is answered.
  virtual void OnRequest(HttpRequest&& request, std::shared_ptr<ResponseWriter> response) = 0;
  // Turns a fault into a response in the caller's dialect. The connection is closed after it.
  virtual HttpResponse OnFault(const HttpFault& fault) = 0;
};

struct HttpServerLimits {
  size_t head_bytes_max = limits::kHttpHeadBytesMax;
  size_t body_bytes_max = limits::kHttpBodyBytesMax;
  size_t stream_buffer_bytes_max = limits::kStreamBufferBytesMax;
  size_t connections_max = limits::kHttpConnectionsMax;  // more are closed as they come
  // So is one whose descriptor has this number or a higher one (base/descriptor_limit.h).
  int descriptors_max = std::numeric_limits<int>::max();
  int head_timeout_ms = limits::kHttpHeadTimeoutMs;  // first byte to end of head
  int body_timeout_ms = limits::kHttpBodyTimeoutMs;  // end of head to end of body
  int idle_timeout_ms = limits::kHttpIdleTimeoutMs;  // between two requests
  int write_stall_ms = limits::kHttpWriteStallTimeoutMs;
};

struct HttpServerOptions {
  std::string address = "127.0.0.1";  // numeric, v4 or v6
  uint16_t port = 0;                  // 0: any free one, see port()
  // Several servers (on several loops) share the port and the kernel spreads connections.
  bool share_port = false;
  std::optional<TlsServerOptions> tls = {};
  HttpServerLimits limits = {};
};

struct HttpServerStats {
  size_t connections = 0;  // open now
  size_t requests = 0;     // being answered now
  uint64_t accepted_total = 0;
  uint64_t refused_total = 0;  // over connections_max or descriptors_max
  uint64_t faults_total = 0;
};

// An HTTP/1.1 server on one loop: keep-alive, pipelining, HEAD, Expect: 100-continue, chunked
// requests, TLS, HTTP/1.0. Message shapes on which two servers could disagree are refused (the
// table in http_head.h). Every fallible thing that a client does ends in HttpHandler::OnFault or
// in a closed connection.
class HttpServer {
 public:
  // Any thread. Listens when it returns. Fails with kAlreadyExists (address in use),
  // kPermissionDenied, kInvalidArgument (address, certificate, key) ... `loop` and `handler` must
  // outlive the server.
  [[nodiscard]] static Result<std::unique_ptr<HttpServer>> Start(EventLoop& loop,
                                                                 HttpServerOptions options,
                                                                 HttpHandler& handler);
  // Any thread. Closes everything at once; no handler is called after it, except the OnClientGone
  // callbacks of requests that were open, before it returns.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  bool tls() const;

  // Any thread. Stops accepting, closes connections without a whole head, refuses (503) what lacks
  // its body, lets requests in hand finish (with "Connection: close") and calls `on_drained` on the
  // loop when the last has; after `timeout_ms` it cuts what is left first. Once.
  void Drain(int64_t timeout_ms, UniqueFunction<void()> on_drained);

  // Any thread.
  HttpServerStats stats() const;

 private:
  class Impl;
  explicit HttpServer(std::shared_ptr<Impl> impl);
  const std::shared_ptr<Impl> impl_;
  friend class ServerConnection;
};

}  // namespace fak::net
