// Hot path: bench/micro/http_bench.cc.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "net/http_head.h"
#include "net/http_server.h"
#include "net/input_buffer.h"
#include "net/server_impl.h"
#include "net/stream.h"
#include "wire/http_body.h"

namespace fak::net {

// One client's connection: reads requests one after the other, hands them out, writes the answers.
// A read is open nearly always, so that the client's going is seen at once. Alive while an
// operation, a writer or the server holds it. Loop thread only, but for what says otherwise.
//
// Reading (server_connection.cc) and answering (server_answer.cc) meet in `state_`:
//
//   handshake -> idle -> head -> body -> answering -> idle ...
//                          any of them -> (answering a fault) -> lingering -> closed
class ServerConnection : public std::enable_shared_from_this<ServerConnection> {
 public:
  ServerConnection(std::shared_ptr<HttpServer::Impl> server, Stream stream,
                   const tcp::endpoint& peer);

  void Start();
  // The server drains: closes without a whole head, refuses without a whole body, or answers first.
  void Drain();
  // Ends it. The callback of a request that was open is called before this returns.
  void CloseNow(const Error& why);

  // The writers' side. `exchange` names the request; calls for another than the one being
  // answered do nothing.
  void Send(uint64_t exchange, const HttpResponse& response);
  void StartStream(uint64_t exchange, int status, HttpHeaders headers);
  void FlushHead(uint64_t exchange);
  void ListHot(HotLines& lines) const;
  void Write(uint64_t exchange, std::string_view bytes);
  void End(uint64_t exchange, std::string_view bytes);
  void Abort(uint64_t exchange);
  void Drop(uint64_t exchange);
  void OnClientGone(uint64_t exchange, UniqueFunction<void(const Error&)> on_gone);
  void OnDrained(uint64_t exchange, size_t low_bytes, UniqueFunction<void()> on_drained);

  // Any thread.
  size_t buffered_bytes() const { return buffered_.load(std::memory_order_relaxed); }
  EventLoop& loop() const { return server_->loop; }

 private:
  enum class State : uint8_t { kHandshake, kIdle, kHead, kBody, kAnswering, kLingering, kClosed };
  enum class Answer : uint8_t { kNone, kHeadHeld, kStreaming, kDone };
  enum class Body : uint8_t { kNone, kLength, kChunked, kUntilClose };

  // Reading.
  void BeginRequest();
  void Process();
  bool Step();
  bool StepIdle();
  bool TakeHead();
  bool TakeBody();
  void Dispatch();
  void Refuse(const HttpResponse& response);
  void Fault(int status, Error error);
  void RefusePlainHttp();
  void Identify(HttpRequest& request) const;
  void MaybeRead();
  void OnRead(const error_code& error, size_t bytes);
  void OnReadEnd();

  // Answering.
  bool IsAnswering(uint64_t exchange) const;
  void AppendHead(int status, const HttpHeaders& headers, Body body, size_t length);
  void SendHeldHead();
  bool AddBody(std::string_view bytes);
  void AppendWhole(const HttpResponse& response);
  void FinishAnswer();
  void AfterAnswer();
  void Flush();
  bool WriteAtOnce();
  void DropFront();
  void WriteSome();
  void OnWrite(const error_code& error, size_t bytes);
  void UpdateBuffered();
  void MaybeDrained();

  // Ending.
  void ClientGone(Code code, std::string detail, bool reset);
  void Linger();
  void Close(bool reset);

  // Deadlines.
  void SetReadDeadline(int ms);
  void SetWriteDeadline(int ms);
  void Rearm();
  void OnTimer();
  void OnReadTimeout();

  const std::shared_ptr<HttpServer::Impl> server_;
  Stream stream_;
  const std::string peer_;
  const bool peer_is_loopback_;

  State state_ = State::kHandshake;
  bool processing_ = false;
  bool reading_ = false;
  bool read_ended_ = false;
  InputBuffer in_;
  HeadFinder finder_;
  HttpRequest request_;
  int64_t request_begun_ns_ = 0;
  wire::HttpBodyDecoder decoder_;
  uint64_t body_bytes_ = 0;  // that the head announces; 0: it doesn't say

  uint64_t exchange_ = 0;
  Answer answer_ = Answer::kDone;
  bool keep_alive_ = true;
  bool cut_ = false;        // close without an orderly end of the body
  bool head_only_ = false;  // HEAD
  int minor_version_ = 1;
  Body body_ = Body::kNone;
  int held_status_ = 0;
  HttpHeaders held_headers_;
  UniqueFunction<void(const Error&)> on_gone_;
  Error gone_;  // why, once closed
  size_t drained_low_bytes_ = 0;
  UniqueFunction<void()> on_drained_;

  bool writing_ = false;
  std::string front_;  // being written
  size_t front_at_ = 0;
  std::string back_;  // waits
  std::atomic<size_t> buffered_{0};
  size_t oversized_bytes_ = 0;  // of what waits: the largest single write beyond the bound

  int64_t read_deadline_ns_ = INT64_MAX;
  int64_t write_deadline_ns_ = INT64_MAX;
  int64_t timer_due_ns_ = INT64_MAX;
  Timer timer_;
};

}  // namespace fak::net
