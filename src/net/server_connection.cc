#include "net/server_connection.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/limits.h"
#include "net/tls_context.h"

namespace fak::net {
namespace {

constexpr size_t kHeadReadBytes = 4 * 1024;
constexpr size_t kBodyReadBytes = 32 * 1024;
// A client that only says how much will come gets no more memory than this for it; who sends half
// of this gets the rest.
constexpr uint64_t kBodyReserveBytes = 1024 * 1024;
// limits::kHttpLingerMs, once the server drains: nobody's process is to wait for the other's end.
constexpr int kDrainLingerMs = 500;

std::string PeerText(const tcp::endpoint& peer) {
  const std::string address = peer.address().to_string();
  return (peer.address().is_v6() ? "[" + address + "]" : address) + ":" +
         std::to_string(peer.port());
}

bool IsLoopback(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
  }
  return address.is_loopback();
}

}  // namespace

ServerConnection::ServerConnection(std::shared_ptr<HttpServer::Impl> server, Stream stream,
                                   const tcp::endpoint& peer)
    : server_(std::move(server)),
      stream_(std::move(stream)),
      peer_(PeerText(peer)),
      peer_is_loopback_(IsLoopback(peer.address())),
      timer_(server_->loop.timers(), [this] {
        const auto self = shared_from_this();
        OnTimer();
      }) {}

void ServerConnection::Start() {
  if (!stream_.tls()) {
    BeginRequest();
    return;
  }
  SetReadDeadline(server_->options.limits.head_timeout_ms);
  stream_.tls_stream().async_handshake(asio::ssl::stream_base::server,
                                       [self = shared_from_this()](const error_code& error) {
                                         if (self->state_ == State::kClosed) {
                                           return;
                                         }
                                         if (IsPlainHttp(error)) {
                                           self->RefusePlainHttp();
                                         } else if (error) {
                                           self->Close(/*reset=*/false);
                                         } else {
                                           self->BeginRequest();
                                         }
                                       });
}

// As plain HTTP, which is what the client understands.
void ServerConnection::RefusePlainHttp() {
  stream_.StopTls();
  request_begun_ns_ = loop().NowNs();
  Fault(400, {Code::kInvalidArgument, "plain HTTP on a port of TLS: use https://", "scheme"});
  MaybeRead();
}

void ServerConnection::Drain() {
  keep_alive_ = false;
  switch (state_) {
    case State::kHandshake:
    case State::kIdle:
    case State::kHead: Close(/*reset=*/false); break;
    case State::kBody:
      Fault(503, {Code::kUnavailable, "the server is shutting down", "", 0, 1});
      MaybeRead();
      break;
    case State::kLingering: SetReadDeadline(kDrainLingerMs); break;
    case State::kAnswering:
    case State::kClosed: break;
  }
}

void ServerConnection::CloseNow(const Error& why) {
  if (IsAnswering(exchange_)) {
    gone_ = why;
  }
  UniqueFunction<void(const Error&)> on_gone = std::move(on_gone_);
  Close(/*reset=*/state_ == State::kAnswering);
  if (on_gone) {
    on_gone(why);
  }
}

void ServerConnection::BeginRequest() {
  if (server_->draining && in_.size() == 0) {
    Close(/*reset=*/false);
    return;
  }
  state_ = State::kIdle;
  finder_.Reset();
  minor_version_ = 1;
  head_only_ = false;
  SetReadDeadline(server_->options.limits.idle_timeout_ms);
  Process();
}

// Takes what has come as far as it goes. A handler may answer at once, and the next request is then
// taken by this loop and not by calling itself.
void ServerConnection::Process() {
  if (processing_) {
    return;
  }
  processing_ = true;
  while (Step()) {
  }
  processing_ = false;
  MaybeRead();
}

// One step; false when more bytes, or the answer, must come first.
bool ServerConnection::Step() {
  switch (state_) {
    case State::kIdle: return StepIdle();
    case State::kHead: return TakeHead();
    case State::kBody: return TakeBody();
    case State::kHandshake:
    case State::kAnswering:
    case State::kLingering:
    case State::kClosed: break;
  }
  return false;
}

bool ServerConnection::StepIdle() {
  // Blank lines before a request are skipped (RFC 9112 2.2).
  while (in_.view().starts_with("\r\n")) {
    in_.Consume(2);
  }
  if (in_.size() == 0 || in_.view() == "\r") {
    return false;
  }
  state_ = State::kHead;
  request_begun_ns_ = loop().NowNs();
  SetReadDeadline(server_->options.limits.head_timeout_ms);
  return true;
}

bool ServerConnection::TakeHead() {
  constexpr char kTlsHandshake = 0x16;  // the first byte of a TLS client
  if (in_.view().front() == kTlsHandshake) {
    Fault(400,
          {Code::kInvalidArgument, "a TLS client on a port of plain HTTP: use http://", "scheme"});
    return false;
  }
  const size_t head_max = server_->options.limits.head_bytes_max;
  const Result<size_t> size = finder_.Find(in_.view());
  if (!size) {
    Fault(400, size.error());
    return false;
  }
  if (*size > head_max || (*size == 0 && in_.size() > head_max)) {
    Fault(431, {Code::kPayloadTooLarge,
                "HTTP request: a head of more than " + std::to_string(head_max) + " bytes"});
    return false;
  }
  if (*size == 0) {
    return false;
  }
  auto head = ParseRequestHead(in_.view().substr(0, *size));
  if (!head) {
    request_ = std::move(head.error().request);
    Fault(head.error().status, std::move(head.error().error));
    return false;
  }
  in_.Consume(*size);
  request_ = std::move(head->request);
  Identify(request_);
  minor_version_ = request_.minor_version;
  head_only_ = request_.method == "HEAD";
  keep_alive_ = head->keep_alive && !server_->draining;
  if (std::optional<HttpResponse> refusal = server_->handler.OnHead(request_)) {
    Refuse(*std::move(refusal));
    return false;
  }
  const size_t body_max = server_->options.limits.body_bytes_max;
  if (head->length > body_max) {
    Fault(413, {Code::kPayloadTooLarge, "HTTP request: a body of " + std::to_string(head->length) +
                                            " bytes, at most " + std::to_string(body_max) +
                                            " are taken"});
    return false;
  }
  decoder_ = wire::HttpBodyDecoder(head->framing, head->length, body_max);
  if (decoder_.done()) {
    Dispatch();
    return true;
  }
  state_ = State::kBody;
  SetReadDeadline(server_->options.limits.body_timeout_ms);
  body_bytes_ = head->length;
  request_.body.reserve(std::min(body_bytes_, kBodyReserveBytes));
  if (head->expects_continue && minor_version_ >= 1 && in_.size() == 0) {
    back_ += "HTTP/1.1 100 Continue\r\n\r\n";
    Flush();
  }
  return true;
}

bool ServerConnection::TakeBody() {
  const Result<size_t> used =
      decoder_.Feed(in_.view(), [this](std::string_view bytes) { request_.body += bytes; });
  if (!used) {
    const int status = used.error().code == Code::kPayloadTooLarge ? 413 : 400;
    Fault(status, Within("HTTP request", used.error()));
    return false;
  }
  in_.Consume(*used);
  if (!decoder_.done()) {
    // What comes in earnest gets all its room: growing by doubling would copy megabytes, again and
    // again, while everybody else on this loop waits.
    if (request_.body.size() > kBodyReserveBytes / 2 && request_.body.capacity() < body_bytes_) {
      request_.body.reserve(body_bytes_);
    }
    return false;
  }
  Dispatch();
  return true;
}

void ServerConnection::Dispatch() {
  state_ = State::kAnswering;
  answer_ = Answer::kNone;
  ++exchange_;
  SetReadDeadline(0);
  in_.Shrink(kHeadReadBytes);
  server_->requests_open.fetch_add(1, std::memory_order_relaxed);
  HttpRequest request = std::exchange(request_, {});
  request.age_ns = loop().NowNs() - request_begun_ns_;
  server_->handler.OnRequest(std::move(request),
                             std::make_shared<ResponseWriter>(shared_from_this(), exchange_));
}

// Answers by itself, and closes.
void ServerConnection::Refuse(const HttpResponse& response) {
  state_ = State::kAnswering;
  answer_ = Answer::kNone;
  ++exchange_;
  SetReadDeadline(0);
  server_->requests_open.fetch_add(1, std::memory_order_relaxed);
  keep_alive_ = false;
  request_ = {};
  AppendWhole(response);
}

void ServerConnection::Identify(HttpRequest& request) const {
  request.peer = peer_;
  request.peer_is_loopback = peer_is_loopback_;
  request.tls = stream_.tls();
  request.age_ns = loop().NowNs() - request_begun_ns_;
}

void ServerConnection::Fault(int status, Error error) {
  server_->faults_total.fetch_add(1, std::memory_order_relaxed);
  Identify(request_);
  request_.body = {};
  Refuse(server_->handler.OnFault({status, std::move(error), std::exchange(request_, {})}));
}

void ServerConnection::MaybeRead() {
  const bool full = state_ == State::kAnswering && in_.size() >= limits::kHttpReadAheadBytesMax;
  if (reading_ || read_ended_ || full || state_ == State::kHandshake || state_ == State::kClosed) {
    return;
  }
  reading_ = true;
  const std::span<char> room =
      in_.Prepare(state_ == State::kBody ? kBodyReadBytes : kHeadReadBytes);
  stream_.AsyncRead(asio::buffer(room.data(), room.size()),
                    [self = shared_from_this()](const error_code& error, size_t bytes) {
                      self->OnRead(error, bytes);
                    });
}

void ServerConnection::OnRead(const error_code& error, size_t bytes) {
  reading_ = false;
  in_.Commit(bytes);
  if (state_ == State::kClosed) {
    return;
  }
  if (error) {
    OnReadEnd();
    return;
  }
  if (state_ == State::kLingering) {
    in_.Consume(in_.size());
    MaybeRead();
    return;
  }
  Process();
}

void ServerConnection::OnReadEnd() {
  read_ended_ = true;
  if (state_ != State::kAnswering) {
    Close(/*reset=*/false);
  } else if (answer_ != Answer::kDone) {
    ClientGone(Code::kCancelled, "the client closed the connection", /*reset=*/false);
  } else {
    keep_alive_ = false;  // what is left of the answer may still be wanted
  }
}

void ServerConnection::ClientGone(Code code, std::string detail, bool reset) {
  gone_ = {code, std::move(detail)};
  if (on_gone_) {
    // Never from inside a writer's call.
    loop().Post([on_gone = std::move(on_gone_), error = gone_]() mutable { on_gone(error); });
    on_gone_ = nullptr;
  }
  Close(reset);
}

// The last bytes of an answer are on their way. Closing now would make the kernel send a reset if
// the client has sent anything that we didn't read, and the answer could be lost.
void ServerConnection::Linger() {
  if (read_ended_) {
    Close(/*reset=*/false);
    return;
  }
  state_ = State::kLingering;
  SetReadDeadline(server_->draining ? kDrainLingerMs : limits::kHttpLingerMs);
  in_.Consume(in_.size());
  error_code ignored;
  if (stream_.tls()) {
    stream_.tls_stream().async_shutdown([self = shared_from_this()](const error_code&) {
      if (self->state_ == State::kLingering) {
        error_code ignored_too;
        self->stream_.socket().shutdown(Socket::shutdown_send, ignored_too);
      }
    });
  } else {
    stream_.socket().shutdown(Socket::shutdown_send, ignored);
  }
  MaybeRead();
}

void ServerConnection::Close(bool reset) {
  if (state_ == State::kClosed) {
    return;
  }
  const auto self = shared_from_this();
  if (state_ == State::kAnswering) {
    server_->requests_open.fetch_sub(1, std::memory_order_relaxed);
  }
  state_ = State::kClosed;
  answer_ = Answer::kDone;
  timer_.Disarm();
  stream_.Close(reset);
  back_.clear();
  if (!writing_) {
    front_.clear();
  }
  buffered_.store(0, std::memory_order_relaxed);
  const UniqueFunction<void(const Error&)> no_gone = std::move(on_gone_);
  const UniqueFunction<void()> no_drained = std::move(on_drained_);
  server_->Remove(this);
}

void ServerConnection::SetReadDeadline(int ms) {
  read_deadline_ns_ = ms > 0 ? loop().NowNs() + ms * kNsPerMs : INT64_MAX;
  Rearm();
}

void ServerConnection::SetWriteDeadline(int ms) {
  write_deadline_ns_ = ms > 0 ? loop().NowNs() + ms * kNsPerMs : INT64_MAX;
  Rearm();
}

// A deadline that moves away leaves the timer where it is: it fires in vain once and is set anew
// then, which is cheaper than moving it with every write.
void ServerConnection::Rearm() {
  const int64_t due_ns = std::min(read_deadline_ns_, write_deadline_ns_);
  if (due_ns == INT64_MAX || (timer_.armed() && timer_due_ns_ <= due_ns)) {
    return;
  }
  timer_due_ns_ = due_ns;
  timer_.ArmMs(std::max<int64_t>(0, (due_ns - loop().NowNs() + kNsPerMs - 1) / kNsPerMs));
}

void ServerConnection::OnTimer() {
  const int64_t now_ns = loop().NowNs();
  if (now_ns >= read_deadline_ns_) {
    OnReadTimeout();
  } else if (now_ns >= write_deadline_ns_) {
    ClientGone(Code::kCancelled,
               "the client read nothing for " +
                   std::to_string(server_->options.limits.write_stall_ms) + " ms",
               /*reset=*/true);
  } else {
    Rearm();
  }
}

void ServerConnection::OnReadTimeout() {
  read_deadline_ns_ = INT64_MAX;
  if (state_ == State::kHead || state_ == State::kBody) {
    const HttpServerLimits& limits = server_->options.limits;
    const bool head = state_ == State::kHead;
    Fault(408,
          {Code::kDeadlineExceeded,
           std::string("HTTP request: the ") + (head ? "head" : "body") + " took longer than " +
               std::to_string(head ? limits.head_timeout_ms : limits.body_timeout_ms) + " ms"});
    MaybeRead();
  } else {
    Close(/*reset=*/false);
  }
}

}  // namespace fak::net
