// Hot path: bench/micro/http_bench.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "net/client_connection.h"
#include "net/client_impl.h"
#include "net/http_client.h"
#include "net/http_head.h"
#include "wire/http_body.h"

namespace fak::net {

// One request to an upstream and its response, from waiting for a connection to giving it back.
// The client and open operations keep it alive. Loop thread only.
class UpstreamExchange : public std::enable_shared_from_this<UpstreamExchange> {
 public:
  UpstreamExchange(std::shared_ptr<HttpClient::Impl> client, HttpClientRequest request,
                   std::unique_ptr<HttpResponseSink> sink);

  void Start();
  // From the pool. Connecting: `connection` isn't usable before Use().
  void Connecting(std::shared_ptr<ClientConnection> connection);
  void Use(std::shared_ptr<ClientConnection> connection);
  // Ends it with an error.
  void Fail(Error error);

  void Cancel();
  void Pause();
  void Resume();
  bool ended() const { return stage_ == Stage::kEnded; }
  bool request_bytes_sent() const { return maybe_sent_; }
  bool response_started() const { return response_started_; }

 private:
  enum class Stage : uint8_t { kConnecting, kHead, kBody, kEnded };

  void SendRequest();
  void WriteSome();
  void OnWrite(const error_code& error, size_t bytes);
  void MaybeRead();
  void OnRead(const error_code& error, size_t bytes);
  void OnReadEnd(const error_code& error);
  void TakeHead();
  void TakeBody();
  void ListHot();
  // The connection ended before a response: sends again where that can't do harm.
  void ConnectionLost(const error_code& error);
  void Complete();
  void Finish(Status status);
  // Lets go of connection, pool and timer.
  void Detach(bool reusable);
  template <class Call>
  void Deliver(Call call);

  void SetStageDeadline(int ms);
  void Rearm();
  void OnTimer();
  std::string Where() const { return request_.origin.ToString(); }

  const std::shared_ptr<HttpClient::Impl> client_;
  HttpClientRequest request_;
  std::unique_ptr<HttpResponseSink> sink_;
  bool in_sink_ = false;

  Stage stage_ = Stage::kConnecting;
  std::shared_ptr<ClientConnection> connection_;
  std::string head_;  // of the request, and its body when that is short
  size_t sent_ = 0;   // of head_ and request_.body, on this connection
  bool maybe_sent_ = false;
  bool resent_ = false;
  bool writing_ = false;
  bool reading_ = false;
  bool paused_ = false;
  bool response_started_ = false;
  bool keep_alive_ = false;
  int interim_responses_ = 0;
  HeadFinder finder_;
  wire::HttpBodyDecoder decoder_;

  int64_t stage_deadline_ns_ = INT64_MAX;
  int64_t total_deadline_ns_ = INT64_MAX;
  int64_t timer_due_ns_ = INT64_MAX;
  Timer timer_;

  uint64_t body_reads_ = 0;
  std::unique_ptr<HotLines> maybe_hot_;  // of what a read of the body touches, once some have come
};

}  // namespace fak::net
