// Hot path: bench/micro/http_bench.cc.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/spare_buffer.h"
#include "base/strings.h"
#include "net/server_connection.h"

namespace fak::net {
namespace {

bool IsServersOwn(std::string_view name) {
  constexpr std::array<std::string_view, 5> kOwn = {"Content-Length", "Transfer-Encoding",
                                                    "Connection", "Keep-Alive", "Date"};
  return std::any_of(kOwn.begin(), kOwn.end(),
                     [name](std::string_view own) { return EqualsIgnoringCase(own, name); });
}

// Appends text in which no control character survives, so that nothing in it ends the field.
void AppendFieldText(std::string& out, std::string_view text) {
  const size_t start = out.size();
  out += text;
  std::replace_if(
      out.begin() + static_cast<ptrdiff_t>(start), out.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, ' ');
}

}  // namespace

bool ServerConnection::IsAnswering(uint64_t exchange) const {
  return state_ == State::kAnswering && exchange == exchange_ && answer_ != Answer::kDone;
}

void ServerConnection::Send(uint64_t exchange, const HttpResponse& response) {
  if (IsAnswering(exchange) && answer_ == Answer::kNone) {
    AppendWhole(response);
  }
}

void ServerConnection::StartStream(uint64_t exchange, int status, HttpHeaders headers) {
  if (IsAnswering(exchange) && answer_ == Answer::kNone) {
    answer_ = Answer::kHeadHeld;
    held_status_ = status;
    held_headers_ = std::move(headers);
    body_ = minor_version_ >= 1 ? Body::kChunked : Body::kUntilClose;
    keep_alive_ = keep_alive_ && body_ == Body::kChunked;
  }
}

void ServerConnection::FlushHead(uint64_t exchange) {
  if (IsAnswering(exchange) && answer_ == Answer::kHeadHeld) {
    SendHeldHead();
    Flush();
    UpdateBuffered();
  }
}

void ServerConnection::Write(uint64_t exchange, std::string_view bytes) {
  if (!IsAnswering(exchange) || answer_ == Answer::kNone || bytes.empty()) {
    return;
  }
  if (AddBody(bytes)) {
    Flush();
    UpdateBuffered();
  }
}

// Behind what waits; false when too much does, and the client was given up.
bool ServerConnection::AddBody(std::string_view bytes) {
  const size_t bytes_max = server_->options.limits.stream_buffer_bytes_max;
  if (buffered_bytes() <= bytes_max) {
    oversized_bytes_ = 0;
  }
  if (!bytes.empty() && buffered_bytes() > bytes_max + oversized_bytes_) {
    ClientGone(Code::kCancelled,
               "the client reads too slowly: more than " + std::to_string(bytes_max) +
                   " bytes wait for it",
               /*reset=*/true);
    return false;
  }
  TakeSpare(back_);
  SendHeldHead();
  if (head_only_) {
    return true;  // a HEAD request gets the head alone
  }
  if (body_ == Body::kChunked) {
    wire::AppendHttpChunk(back_, bytes);
  } else {
    back_ += bytes;
  }
  if (bytes.size() > bytes_max) {
    oversized_bytes_ = std::max(oversized_bytes_, bytes.size());
  }
  return true;
}

void ServerConnection::End(uint64_t exchange, std::string_view bytes) {
  if (!IsAnswering(exchange) || answer_ == Answer::kNone) {
    return;
  }
  if (!AddBody(bytes)) {
    return;
  }
  if (!head_only_ && body_ == Body::kChunked) {
    back_ += wire::kHttpLastChunk;
  }
  FinishAnswer();
}

void ServerConnection::Abort(uint64_t exchange) {
  if (IsAnswering(exchange)) {
    cut_ = true;
    keep_alive_ = false;
    FinishAnswer();
  }
}

void ServerConnection::Drop(uint64_t exchange) {
  if (!IsAnswering(exchange)) {
    return;
  }
  if (answer_ != Answer::kNone) {
    Abort(exchange);
    return;
  }
  server_->faults_total.fetch_add(1, std::memory_order_relaxed);
  keep_alive_ = false;
  HttpFault fault{500, {Code::kInternal, "the request was dropped without an answer"}, {}};
  Identify(fault.request);
  AppendWhole(server_->handler.OnFault(fault));
}

void ServerConnection::OnClientGone(uint64_t exchange, UniqueFunction<void(const Error&)> on_gone) {
  if (IsAnswering(exchange)) {
    on_gone_ = std::move(on_gone);
  } else if (state_ == State::kClosed && exchange == exchange_ && !gone_.detail.empty()) {
    loop().Post([on_gone = std::move(on_gone), error = gone_]() mutable { on_gone(error); });
  }
}

void ServerConnection::OnDrained(uint64_t exchange, size_t low_bytes,
                                 UniqueFunction<void()> on_drained) {
  if (!IsAnswering(exchange)) {
    return;
  }
  if (buffered_bytes() <= low_bytes) {
    on_drained_ = nullptr;
    loop().Post(std::move(on_drained));
    return;
  }
  drained_low_bytes_ = low_bytes;
  on_drained_ = std::move(on_drained);
}

void ServerConnection::AppendHead(int status, const HttpHeaders& headers, Body body,
                                  size_t length) {
  back_ += "HTTP/1.1 ";
  back_ += std::to_string(status);
  back_ += ' ';
  back_ += HttpReason(status);
  back_ += "\r\nDate: ";
  back_ += server_->DateNow();
  back_ += "\r\n";
  for (const auto& [name, value] : headers) {
    if (IsServersOwn(name)) {
      continue;
    }
    AppendFieldText(back_, name);
    back_ += ": ";
    AppendFieldText(back_, value);
    back_ += "\r\n";
  }
  if (body == Body::kLength) {
    back_ += "Content-Length: ";
    back_ += std::to_string(length);
    back_ += "\r\n";
  } else if (body == Body::kChunked) {
    back_ += "Transfer-Encoding: chunked\r\n";
  }
  if (!keep_alive_) {
    back_ += "Connection: close\r\n";
  } else if (minor_version_ == 0) {
    back_ += "Connection: keep-alive\r\n";
  }
  back_ += "\r\n";
}

void ServerConnection::SendHeldHead() {
  if (answer_ == Answer::kHeadHeld) {
    answer_ = Answer::kStreaming;
    AppendHead(held_status_, held_headers_, body_, 0);
    held_headers_ = {};
  }
}

void ServerConnection::AppendWhole(const HttpResponse& response) {
  const bool bodiless = response.status < 200 || response.status == 204 || response.status == 304;
  body_ = bodiless ? Body::kNone : Body::kLength;
  AppendHead(response.status, response.headers, body_, response.body.size());
  if (!bodiless && !head_only_) {
    back_ += response.body;
  }
  FinishAnswer();
}

// All of the answer has been handed over; it may still be on its way.
void ServerConnection::FinishAnswer() {
  answer_ = Answer::kDone;
  const UniqueFunction<void(const Error&)> no_gone = std::move(on_gone_);
  const UniqueFunction<void()> no_drained = std::move(on_drained_);
  Flush();
  UpdateBuffered();
  if (writing_) {
    return;
  }
  if (in_.size() == 0 || processing_) {
    AfterAnswer();
    return;
  }
  // A request that waits is not handed out from inside the writer's call.
  loop().Post([self = shared_from_this(), exchange = exchange_] {
    if (self->state_ == State::kAnswering && self->exchange_ == exchange) {
      self->AfterAnswer();
    }
  });
}

// All of the answer has left.
void ServerConnection::AfterAnswer() {
  server_->requests_open.fetch_sub(1, std::memory_order_relaxed);
  if (cut_) {
    state_ = State::kLingering;  // counted already
    // Without a length or chunks an orderly close would look like a whole answer.
    Close(/*reset=*/body_ == Body::kUntilClose);
  } else if (!keep_alive_) {
    Linger();
  } else {
    BeginRequest();
  }
}

void ServerConnection::Flush() {
  if (writing_ || back_.empty() || state_ == State::kClosed) {
    return;
  }
  std::swap(front_, back_);
  front_at_ = 0;
  if (WriteAtOnce()) {
    DropFront();
    return;
  }
  writing_ = true;
  WriteSome();
}

// What the kernel takes now, which is nearly always all of it, needs no operation of Asio's and no
// deadline. Whether it took all; that a connection has ended is found by the operation then.
bool ServerConnection::WriteAtOnce() {
  front_at_ += stream_.TryWrite({front_.data(), front_.size()});
  return front_at_ == front_.size();
}

void ServerConnection::DropFront() {
  front_at_ = 0;
  GiveSpare(front_);
}

void ServerConnection::WriteSome() {
  SetWriteDeadline(server_->options.limits.write_stall_ms);
  stream_.AsyncWrite(asio::buffer(front_.data() + front_at_, front_.size() - front_at_),
                     [self = shared_from_this()](const error_code& error, size_t bytes) {
                       self->OnWrite(error, bytes);
                     });
}

void ServerConnection::OnWrite(const error_code& error, size_t bytes) {
  if (state_ == State::kClosed) {
    writing_ = false;
    return;
  }
  if (error) {
    writing_ = false;
    ClientGone(Code::kCancelled, "the client closed the connection", /*reset=*/false);
    return;
  }
  front_at_ += bytes;
  if (front_at_ < front_.size()) {
    WriteSome();
    UpdateBuffered();
    MaybeDrained();
    return;
  }
  writing_ = false;
  DropFront();
  Flush();
  UpdateBuffered();
  if (!writing_) {
    SetWriteDeadline(0);
    if (state_ == State::kAnswering && answer_ == Answer::kDone) {
      AfterAnswer();
      return;
    }
  }
  MaybeDrained();
}

void ServerConnection::ListHot(HotLines& lines) const {
  lines.AddObject(*this);
}

void ServerConnection::UpdateBuffered() {
  buffered_.store(front_.size() - front_at_ + back_.size(), std::memory_order_relaxed);
}

void ServerConnection::MaybeDrained() {
  if (on_drained_ && buffered_bytes() <= drained_low_bytes_) {
    UniqueFunction<void()> on_drained = std::move(on_drained_);
    on_drained();
  }
}

// ResponseWriter.

ResponseWriter::ResponseWriter(std::shared_ptr<ServerConnection> connection, uint64_t exchange)
    : connection_(std::move(connection)), exchange_(exchange) {}

template <class Call>
void ResponseWriter::OnLoop(Call call) {
  if (loop().InLoop()) {
    call(*connection_, exchange_);
  } else {
    loop().Post([connection = connection_, exchange = exchange_, call = std::move(call)]() mutable {
      call(*connection, exchange);
    });
  }
}

ResponseWriter::~ResponseWriter() {
  // Posted even from the loop itself: another thread may have answered, and its call may still be
  // on its way when the loop drops the last reference.
  loop().Post([connection = connection_, exchange = exchange_] { connection->Drop(exchange); });
}

EventLoop& ResponseWriter::loop() const {
  return connection_->loop();
}

void ResponseWriter::Send(HttpResponse response) {
  OnLoop([response = std::move(response)](ServerConnection& connection, uint64_t exchange) {
    connection.Send(exchange, response);
  });
}

void ResponseWriter::StartStream(int status, HttpHeaders headers) {
  OnLoop([status, headers = std::move(headers)](ServerConnection& connection,
                                                uint64_t exchange) mutable {
    connection.StartStream(exchange, status, std::move(headers));
  });
}

void ResponseWriter::FlushHead() {
  OnLoop([](ServerConnection& connection, uint64_t exchange) { connection.FlushHead(exchange); });
}

void ResponseWriter::Write(std::string_view bytes) {
  if (loop().InLoop()) {
    connection_->Write(exchange_, bytes);  // without a copy
    return;
  }
  OnLoop([bytes = std::string(bytes)](ServerConnection& connection, uint64_t exchange) {
    connection.Write(exchange, bytes);
  });
}

void ResponseWriter::End(std::string_view bytes) {
  if (loop().InLoop()) {
    connection_->End(exchange_, bytes);  // without a copy
    return;
  }
  OnLoop([bytes = std::string(bytes)](ServerConnection& connection, uint64_t exchange) {
    connection.End(exchange, bytes);
  });
}

void ResponseWriter::Abort() {
  OnLoop([](ServerConnection& connection, uint64_t exchange) { connection.Abort(exchange); });
}

void ResponseWriter::OnClientGone(UniqueFunction<void(const Error&)> on_gone) {
  OnLoop([on_gone = std::move(on_gone)](ServerConnection& connection, uint64_t exchange) mutable {
    connection.OnClientGone(exchange, std::move(on_gone));
  });
}

void ResponseWriter::ListHot(HotLines& lines) const {
  if (loop().InLoop()) {
    lines.AddObject(*this);
    connection_->ListHot(lines);
  }
}

size_t ResponseWriter::buffered_bytes() const {
  return connection_->buffered_bytes();
}

void ResponseWriter::OnDrained(size_t low_bytes, UniqueFunction<void()> on_drained) {
  OnLoop([low_bytes, on_drained = std::move(on_drained)](ServerConnection& connection,
                                                         uint64_t exchange) mutable {
    connection.OnDrained(exchange, low_bytes, std::move(on_drained));
  });
}

}  // namespace fak::net
