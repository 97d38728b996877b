#pragma once

#include <memory>
#include <optional>
#include <string>

#include "driver/prepared.h"
#include "net/event_loop.h"
#include "net/http_client.h"
#include "net/timer_wheel.h"
#include "ride/adapter.h"
#include "ride/relay.h"

namespace fak::ride {

class UpstreamDriver;

// One client's request at the upstream: its answer into a relay, its end to the driver. Loop
// thread; kept by the driver until it has ended, then by the HTTP client until the connection can
// be used again, for limits::kUpstreamTailMs at most.
class UpstreamRequest : public std::enable_shared_from_this<UpstreamRequest> {
 public:
  struct Bounds {
    int tail_ms;    // for what may follow a whole answer
    int choice_ms;  // for another choice to begin when those that have begun have ended
  };
  // `upstream_id`: ours, in the document of an engine that takes one; else empty.
  UpstreamRequest(UpstreamDriver& owner, net::EventLoop& loop, const Adapter& adapter,
                  std::string request_id, std::string upstream_id, std::unique_ptr<Relay> relay,
                  Bounds bounds);

  // The sink of the HTTP client for it.
  static std::unique_ptr<net::HttpResponseSink> MakeSink(std::shared_ptr<UpstreamRequest> request);
  void SetHandle(std::shared_ptr<net::HttpExchange> handle) { maybe_handle_ = std::move(handle); }
  // Ends it with kDeadlineExceeded then, if the turn has a deadline.
  void ArmDeadline(const driver::Prepared& prepared);

  // Closes the connection, tells engines that want to be told, ends the relay with this error.
  void Abort(Error error);

 private:
  class Sink;
  void OnHead(int status, const net::HttpHeaders& headers);
  void OnBody(std::string_view bytes);
  void OnReadEnd();
  void ListHot(HotLines& lines) const;
  void OnDone(Status status);
  // What a header of the engine's router says, fit for a log; empty: nothing.
  std::string SaidBy(std::string_view header, const net::HttpHeaders& headers) const;
  void OnErrorBody(std::string_view bytes);
  // Nothing but the tail can follow a whole answer, and only another choice one whose choices have
  // all ended: what says nothing (comments) doesn't make either wait longer.
  void BoundTail();
  // The time is over for what may follow such an answer, or an error's head.
  void OnTail();
  void FailByStatus();
  // The relay has ended: the driver need not know of it any more.
  void Leave();
  void CloseConnection();
  // And tells engines that want to be told.
  void Close();
  // A client that doesn't keep up holds the upstream back: once a window has come the client is
  // asked for room, and when another has come before it answers, nothing more is read.
  void KeepToWindow(size_t bytes);
  void OnRoom();

  UpstreamDriver& owner_;
  net::EventLoop& loop_;
  const Adapter& adapter_;
  const std::string request_id_;
  const std::string upstream_id_;
  const std::unique_ptr<Relay> relay_;
  const Bounds bounds_;
  std::shared_ptr<net::HttpExchange> maybe_handle_;
  std::optional<net::Timer> deadline_;
  net::Timer tail_;
  int tail_bound_ms_ = 0;  // that it was armed with for an answer; 0: it wasn't
  size_t tail_bytes_ = 0;  // after the relay's end, read so that the connection can be kept
  bool paused_ = false;
  bool left_ = false;
  bool in_batch_ = false;
  size_t since_asked_bytes_ = 0;
  bool asked_for_room_ = false;
  int status_ = 0;
  int retry_after_s_ = 0;
  std::string dropped_;  // why its router refused it
  std::string error_body_;
};

}  // namespace fak::ride
