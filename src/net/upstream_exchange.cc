#include "net/upstream_exchange.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/clock.h"
#include "base/strings.h"
#include "net/tls_context.h"

namespace fak::net {
namespace {

constexpr size_t kReadBytes = 16 * 1024;
// A body up to this size leaves in one write with the head.
constexpr size_t kJoinedBodyBytes = 64 * 1024;
// Of a larger one at a time: the kernel would take megabytes in one call, and everybody else on the
// loop would wait for their copy.
constexpr size_t kWriteBytes = 32 * 1024;
constexpr int kInterimResponsesMax = 16;  // 1xx

bool IsSafe(std::string_view method) {
  return method == "GET" || method == "HEAD" || method == "OPTIONS";
}

bool HasBodyByNature(std::string_view method) {
  return method == "POST" || method == "PUT" || method == "PATCH";
}

bool IsVisible(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

bool IsFieldText(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7F;
  });
}

// The request's head. Errors: kInvalidArgument for text that would end a line.
Result<std::string> MakeHead(const HttpClientRequest& request, const Proxy* maybe_proxy) {
  if (!IsVisible(request.method) || !IsVisible(request.target)) {
    return Fail(Code::kInvalidArgument, "HTTP request: a method or target with blanks or controls");
  }
  HttpHeaders headers = request.headers;
  headers.RemoveHopByHop();
  headers.Remove("Content-Length");
  const bool in_full = maybe_proxy != nullptr && !request.origin.tls;
  std::string head = request.method + " " + (in_full ? request.origin.ToString() : "") +
                     request.target + " HTTP/1.1\r\n";
  if (in_full && !maybe_proxy->authorization.empty()) {
    head += "Proxy-Authorization: " + maybe_proxy->authorization + "\r\n";
  }
  if (!headers.Has("Host")) {
    head += "Host: " + request.origin.HostHeader() + "\r\n";
  }
  for (const auto& [name, value] : headers) {
    if (!IsVisible(name) || name.find(':') != std::string::npos || !IsFieldText(value)) {
      return Fail(Code::kInvalidArgument, "HTTP request: header \"" + name + "\" can't be sent");
    }
    head += name;
    head += ": ";
    head += value;
    head += "\r\n";
  }
  if (!request.keep_connection) {
    head += "Connection: close\r\n";
  }
  if (!request.body.empty() || HasBodyByNature(request.method)) {
    head += "Content-Length: " + std::to_string(request.body.size()) + "\r\n";
  }
  head += "\r\n";
  return head;
}

}  // namespace

UpstreamExchange::UpstreamExchange(std::shared_ptr<HttpClient::Impl> client,
                                   HttpClientRequest request,
                                   std::unique_ptr<HttpResponseSink> sink)
    : client_(std::move(client)),
      request_(std::move(request)),
      sink_(std::move(sink)),
      timer_(client_->loop.timers(), [this] {
        const auto self = shared_from_this();
        OnTimer();
      }) {}

void UpstreamExchange::Start() {
  Result<std::string> head = MakeHead(request_, client_->options.proxies.For(request_.origin));
  if (!head) {
    client_->loop.Post(
        [self = shared_from_this(), error = std::move(head).error()] { self->Fail(error); });
    return;
  }
  head_ = *std::move(head);
  if (request_.body.size() <= kJoinedBodyBytes) {
    head_ += request_.body;
    request_.body.clear();
  }
  if (request_.timeouts.total_ms > 0) {
    total_deadline_ns_ = client_->loop.NowNs() + request_.timeouts.total_ms * kNsPerMs;
  }
  SetStageDeadline(request_.timeouts.connect_ms);
  client_->Acquire(shared_from_this(), request_.origin, /*fresh=*/false);
}

void UpstreamExchange::Connecting(std::shared_ptr<ClientConnection> connection) {
  connection_ = std::move(connection);
}

void UpstreamExchange::Use(std::shared_ptr<ClientConnection> connection) {
  connection_ = std::move(connection);
  SendRequest();
}

void UpstreamExchange::SendRequest() {
  stage_ = Stage::kHead;
  sent_ = 0;
  maybe_sent_ = true;
  finder_.Reset();
  SetStageDeadline(request_.timeouts.first_byte_ms);
  WriteSome();
  MaybeRead();
}

void UpstreamExchange::WriteSome() {
  writing_ = true;
  const bool in_head = sent_ < head_.size();
  const std::string_view rest = in_head
                                    ? std::string_view(head_).substr(sent_)
                                    : std::string_view(request_.body).substr(sent_ - head_.size());
  connection_->stream.AsyncWrite(
      asio::buffer(rest.data(), std::min(rest.size(), kWriteBytes)),
      [self = shared_from_this(), connection = connection_](const error_code& error, size_t bytes) {
        if (connection == self->connection_) {
          self->OnWrite(error, bytes);
        }
      });
}

void UpstreamExchange::OnWrite(const error_code& error, size_t bytes) {
  writing_ = false;
  sent_ += bytes;
  if (error) {
    // The upstream may have answered before it closed: what reading finds decides.
    maybe_sent_ = sent_ > 0 || resent_;
    return;
  }
  if (sent_ < head_.size() + request_.body.size()) {
    WriteSome();
  } else if (stage_ == Stage::kHead && !response_started_) {
    SetStageDeadline(request_.timeouts.first_byte_ms);
  }
}

void UpstreamExchange::MaybeRead() {
  if (reading_ || ended() || (paused_ && stage_ == Stage::kBody)) {
    return;
  }
  reading_ = true;
  const std::span<char> room = connection_->in.Prepare(kReadBytes);
  connection_->stream.AsyncRead(
      asio::buffer(room.data(), room.size()),
      [self = shared_from_this(), connection = connection_](const error_code& error, size_t bytes) {
        connection->in.Commit(bytes);
        if (connection == self->connection_) {
          self->OnRead(error, bytes);
        }
      },
      maybe_hot_.get());
}

void UpstreamExchange::OnRead(const error_code& error, size_t bytes) {
  reading_ = false;
  response_started_ = response_started_ || bytes > 0;
  if (error) {
    OnReadEnd(error);
  } else if (stage_ == Stage::kHead) {
    TakeHead();
  } else {
    SetStageDeadline(request_.timeouts.idle_ms);
    TakeBody();
    ListHot();
  }
}

void UpstreamExchange::OnReadEnd(const error_code& error) {
  if (!response_started_) {
    ConnectionLost(error);
    return;
  }
  if (stage_ == Stage::kHead) {
    Fail({Code::kUpstreamError, Where() + ": closed in the middle of a response's head"});
    return;
  }
  // A reset, or TLS without its goodbye, may have cut a body whose end is the connection's.
  Status finished = error == asio::error::eof ? decoder_.Finish()
                                              : fak::Fail(Code::kUpstreamError,
                                                          "the connection broke in the middle of a "
                                                          "body: " +
                                                              ErrorText(error));
  if (finished) {
    keep_alive_ = false;
    Complete();
  } else {
    Fail(Within(Where(), std::move(finished).error()));
  }
}

void UpstreamExchange::TakeHead() {
  const auto connection = connection_;
  while (stage_ == Stage::kHead) {
    const Result<size_t> size = finder_.Find(connection->in.view());
    const size_t head_max = client_->options.head_bytes_max;
    if (!size) {
      Fail({Code::kUpstreamError, Where() + ": " + size.error().detail});
      return;
    }
    if (*size > head_max || (*size == 0 && connection->in.size() > head_max)) {
      Fail({Code::kUpstreamError,
            Where() + ": a response head of more than " + std::to_string(head_max) + " bytes"});
      return;
    }
    if (*size == 0) {
      MaybeRead();
      return;
    }
    Result<ResponseHead> head =
        ParseResponseHead(connection->in.view().substr(0, *size), request_.method == "HEAD");
    if (head && (head->status == 101 ||
                 (head->status < 200 && ++interim_responses_ > kInterimResponsesMax))) {
      head = fak::Fail(Code::kUpstreamError,
                       "HTTP response: status " + std::to_string(head->status) + " isn't expected");
    }
    if (!head) {
      Fail(Within(Where(), std::move(head).error()));
      return;
    }
    connection->in.Consume(*size);
    finder_.Reset();
    if (head->status < 200) {
      continue;
    }
    stage_ = Stage::kBody;
    keep_alive_ = head->keep_alive && request_.keep_connection;
    decoder_ = wire::HttpBodyDecoder(head->framing, head->length);
    SetStageDeadline(request_.timeouts.idle_ms);
    head->headers.RemoveHopByHop();
    Deliver(
        [&head](HttpResponseSink& sink) { sink.OnHead(head->status, std::move(head->headers)); });
  }
  TakeBody();
}

void UpstreamExchange::TakeBody() {
  if (ended()) {
    return;
  }
  const auto connection = connection_;  // Cancel() inside the sink lets go of it
  const Result<size_t> used = decoder_.Feed(connection->in.view(), [this](std::string_view bytes) {
    if (!ended()) {
      Deliver([bytes](HttpResponseSink& sink) { sink.OnBody(bytes); });
    }
  });
  if (ended()) {
    return;
  }
  if (!used) {
    Fail({Code::kUpstreamError, Where() + ": " + used.error().detail});
    return;
  }
  connection->in.Consume(*used);
  if (decoder_.done()) {
    Complete();
    return;
  }
  Deliver([](HttpResponseSink& sink) { sink.OnReadEnd(); });
  MaybeRead();
}

// Buffers move while they grow, so the list is made anew each time twice as much has come.
void UpstreamExchange::ListHot() {
  constexpr uint64_t kReadsBefore = 4;  // errors, and answers that are whole, end before
  ++body_reads_;
  if (ended() || body_reads_ < kReadsBefore || !std::has_single_bit(body_reads_)) {
    return;
  }
  if (maybe_hot_ == nullptr) {
    maybe_hot_ = std::make_unique<HotLines>();
  }
  maybe_hot_->Clear();
  maybe_hot_->AddObject(*this);
  maybe_hot_->AddObject(*connection_);
  maybe_hot_->AddBuffer(connection_->in.room());
  sink_->ListHot(*maybe_hot_);
}

void UpstreamExchange::ConnectionLost(const error_code& error) {
  const bool harmless = !maybe_sent_ || (IsSafe(request_.method) && !response_started_);
  if (connection_->used_before && harmless && !resent_) {
    resent_ = true;
    ++client_->totals.resends_total;
    client_->Release(std::exchange(connection_, nullptr), /*reusable=*/false);
    writing_ = reading_ = false;
    stage_ = Stage::kConnecting;
    SetStageDeadline(request_.timeouts.connect_ms);
    client_->Acquire(shared_from_this(), request_.origin, /*fresh=*/true);
    return;
  }
  Fail({Code::kUpstreamError, Where() + ": closed without a response: " + ErrorText(error)});
}

void UpstreamExchange::Complete() {
  const bool reusable = keep_alive_ && !writing_ && !reading_ && connection_->in.size() == 0;
  Detach(reusable);
  Deliver([](HttpResponseSink& sink) { sink.OnDone({}); });
}

void UpstreamExchange::Fail(Error error) {
  if (!ended()) {
    Detach(/*reusable=*/false);
    Deliver([&error](HttpResponseSink& sink) { sink.OnDone(fak::Fail(std::move(error))); });
  }
}

void UpstreamExchange::Cancel() {
  if (!ended()) {
    Detach(/*reusable=*/false);
    if (!in_sink_) {
      sink_.reset();
    }
  }
}

void UpstreamExchange::Detach(bool reusable) {
  const auto self = shared_from_this();
  stage_ = Stage::kEnded;
  timer_.Disarm();
  if (connection_ != nullptr) {
    client_->Release(std::exchange(connection_, nullptr), reusable);
  }
  client_->Forget(this, request_.origin);
}

template <class Call>
void UpstreamExchange::Deliver(Call call) {
  const auto self = shared_from_this();
  in_sink_ = true;
  call(*sink_);
  in_sink_ = false;
  if (ended()) {
    sink_.reset();
  }
}

void UpstreamExchange::Pause() {
  paused_ = true;
  if (stage_ == Stage::kBody) {
    SetStageDeadline(0);
  }
}

void UpstreamExchange::Resume() {
  if (!std::exchange(paused_, false) || stage_ != Stage::kBody) {
    return;
  }
  SetStageDeadline(request_.timeouts.idle_ms);
  if (!in_sink_) {
    MaybeRead();
  }
}

void UpstreamExchange::SetStageDeadline(int ms) {
  const bool never = ms <= 0 || (paused_ && stage_ == Stage::kBody);
  stage_deadline_ns_ = never ? INT64_MAX : client_->loop.NowNs() + ms * kNsPerMs;
  Rearm();
}

// As in ServerConnection: a deadline that moves away doesn't move the timer.
void UpstreamExchange::Rearm() {
  const int64_t due_ns = std::min(stage_deadline_ns_, total_deadline_ns_);
  if (due_ns == INT64_MAX || (timer_.armed() && timer_due_ns_ <= due_ns)) {
    return;
  }
  timer_due_ns_ = due_ns;
  timer_.ArmMs(std::max<int64_t>(0, (due_ns - client_->loop.NowNs() + kNsPerMs - 1) / kNsPerMs));
}

void UpstreamExchange::OnTimer() {
  const int64_t now_ns = client_->loop.NowNs();
  const HttpTimeouts& timeouts = request_.timeouts;
  const auto after = [](int ms) { return std::to_string(ms) + " ms"; };
  if (now_ns >= total_deadline_ns_) {
    Fail({Code::kDeadlineExceeded, Where() + ": not done after " + after(timeouts.total_ms)});
  } else if (now_ns < stage_deadline_ns_) {
    Rearm();
  } else if (stage_ == Stage::kConnecting && connection_ == nullptr) {
    Fail({Code::kResourceExhausted,
          Where() + ": none of its connections came free in " + after(timeouts.connect_ms)});
  } else if (stage_ == Stage::kConnecting) {
    Fail({Code::kUnavailable, Where() + ": no connection after " + after(timeouts.connect_ms),
          std::string(kUnreachedField)});
  } else if (!response_started_) {
    Fail({Code::kDeadlineExceeded,
          Where() + ": no response after " + after(timeouts.first_byte_ms)});
  } else {
    const int ms = stage_ == Stage::kHead ? timeouts.first_byte_ms : timeouts.idle_ms;
    Fail({Code::kDeadlineExceeded, Where() + ": silent in a response for " + after(ms)});
  }
}

// HttpExchange.

HttpExchange::HttpExchange(std::shared_ptr<UpstreamExchange> exchange)
    : exchange_(std::move(exchange)) {}
HttpExchange::~HttpExchange() = default;
void HttpExchange::Cancel() {
  exchange_->Cancel();
}
void HttpExchange::Pause() {
  exchange_->Pause();
}
void HttpExchange::Resume() {
  exchange_->Resume();
}
bool HttpExchange::request_bytes_sent() const {
  return exchange_->request_bytes_sent();
}
bool HttpExchange::response_started() const {
  return exchange_->response_started();
}

}  // namespace fak::net
