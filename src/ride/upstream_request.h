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
// thread; kept by the driver until it has ended.
class UpstreamRequest {
 public:
  // `upstream_id`: ours, in the document of an engine that takes one; else empty.
  UpstreamRequest(UpstreamDriver& owner, const Adapter& adapter, std::string request_id,
                  std::string upstream_id, std::unique_ptr<Relay> relay);

  // The sink of the HTTP client for it.
  static std::unique_ptr<net::HttpResponseSink> MakeSink(std::shared_ptr<UpstreamRequest> request);
  void SetHandle(std::shared_ptr<net::HttpExchange> handle) { maybe_handle_ = std::move(handle); }
  // Ends it with kDeadlineExceeded then, if the turn has a deadline.
  void ArmDeadline(net::EventLoop& loop, const driver::Prepared& prepared);

  // Closes the connection, tells engines that want to be told, ends the relay with this error.
  void Abort(Error error);

 private:
  class Sink;
  void OnHead(int status, const net::HttpHeaders& headers);
  void OnBody(std::string_view bytes);
  void OnDone(Status status);
  void Close();

  UpstreamDriver& owner_;
  const Adapter& adapter_;
  const std::string request_id_;
  const std::string upstream_id_;
  const std::unique_ptr<Relay> relay_;
  std::shared_ptr<net::HttpExchange> maybe_handle_;
  std::optional<net::Timer> deadline_;
  int status_ = 0;
  int retry_after_s_ = 0;
  std::string error_body_;
};

}  // namespace fak::ride
