#include "upstream.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "wire/http_body.h"

namespace fak::e2e {
namespace {

constexpr size_t kReadBytes = 64 * 1024;
constexpr size_t kKeptBytes = 64 * 1024;  // of a body; keeping all of a large one takes time
constexpr size_t kScriptBytes = 1024;     // of a body, in which the script stands
constexpr int kSendsBetweenLooks = 4;
constexpr int64_t kNsPerUs = 1000;

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  }
  return out;
}

}  // namespace

struct Upstream::Connection final : Handler {
  explicit Connection(Upstream& upstream) : owner(upstream) {}
  void Handle(uint32_t happened) override { owner.Happened(*this, happened); }

  Upstream& owner;
  int fd = -1;
  bool closed = false;
  // The request being read.
  std::string in;
  size_t body_at = 0;      // 0: the head isn't whole
  int64_t body_bytes = 0;  // from its head
  bool chunked = false;
  wire::HttpBodyDecoder decoder;
  std::string body;
  // The answer being sent.
  bool streaming = false;
  int64_t events = 0;
  int64_t sent_events = 0;
  int64_t gap_ns = 0;
  int64_t due_ns = 0;
  bool hold = false;
  bool usage = false;
  std::string out;
  size_t out_at = 0;
  bool waiting_to_write = false;

  void TakeHead(size_t size);
};

void Upstream::Connection::TakeHead(size_t size) {
  body_at = size;
  const std::string head = Lower(std::string_view(in).substr(0, size));
  chunked = head.find("\r\ntransfer-encoding: chunked") != std::string::npos;
  const size_t length = head.find("\r\ncontent-length: ");
  body_bytes = length == std::string::npos ? 0 : std::stoll(head.substr(length + 18, 12));
  const uint64_t bytes = static_cast<uint64_t>(body_bytes);
  decoder = wire::HttpBodyDecoder(
      chunked ? wire::HttpFraming::kChunked : wire::HttpFraming::kLength, bytes);
  body.clear();
}

Upstream::Upstream(Epoll& epoll, uint16_t port) : epoll_(epoll), listener_(Listen(port)) {
  epoll_.Add(listener_, this);
}

Upstream::~Upstream() = default;

bool Upstream::Later::operator()(const Held& a, const Held& b) const {
  return a->due_ns > b->due_ns;
}

int64_t Upstream::NextNs() const {
  return !ready_.empty() ? 0 : !paced_.empty() ? paced_.top()->due_ns : INT64_MAX;
}

void Upstream::Handle(uint32_t) {
  int fd = -1;
  while ((fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK)) >= 0) {
    SetTcpOptions(fd);
    auto connection = std::make_shared<Connection>(*this);
    connection->fd = fd;
    epoll_.Add(fd, connection.get());
    open_.emplace(connection.get(), connection);
  }
}

void Upstream::Close(Connection& connection) {
  if (!std::exchange(connection.closed, true)) {
    close(connection.fd);
    gone_.push_back(open_[&connection]);  // events of this round may still name it
    open_.erase(&connection);
  }
}

void Upstream::Happened(Connection& connection, uint32_t events) {
  if (connection.closed) {
    return;
  }
  if ((events & EPOLLOUT) != 0) {
    Flush(connection);
  }
  if (!connection.closed && (events & ~uint32_t{EPOLLOUT}) != 0) {
    Read(connection);
  }
}

// One read a round, so that a large body takes its turn with other connections' bytes.
void Upstream::Read(Connection& connection) {
  buffer_.resize(kReadBytes);
  const ssize_t got = recv(connection.fd, buffer_.data(), buffer_.size(), 0);
  if (got <= 0) {
    if (got == 0 || !WouldBlock()) {
      Close(connection);
    }
    return;
  }
  AcknowledgeAtOnce(connection.fd);
  std::string_view bytes(buffer_.data(), static_cast<size_t>(got));
  if (connection.body_at == 0) {
    connection.in += bytes;
    const size_t end = connection.in.find("\r\n\r\n");
    if (end == std::string::npos) {
      return;
    }
    connection.TakeHead(end + 4);
    const std::string rest = connection.in.substr(connection.body_at);
    TakeBody(connection, rest);
    return;
  }
  TakeBody(connection, bytes);
}

void Upstream::TakeBody(Connection& connection, std::string_view bytes) {
  const auto used = connection.decoder.Feed(bytes, [&](std::string_view content) {
    connection.body += content.substr(0, kKeptBytes - connection.body.size());
  });
  if (!used) {
    Close(connection);
  } else if (connection.decoder.done()) {
    Answer(connection);
  }
}

void Upstream::Answer(Connection& connection) {
  const std::string_view head = connection.in;
  const bool asked = head.starts_with("POST ");
  if (asked) {
    Begin(connection);
  } else {
    const bool known = head.starts_with("GET /v1/models") || head.starts_with("GET /health") ||
                       head.starts_with("GET /version");
    const std::string body =
        head.starts_with("GET /v1/models")
            ? R"({"object":"list","data":[{"id":"bench","object":"model","created":1,"owned_by":"vllm","max_model_len":4194304}]})"
            : R"({"version":"0.11.0"})";
    connection.out +=
        std::string("HTTP/1.1 ") + (known ? "200 OK" : "404 Not Found") +
        "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
        "\r\n\r\n" + body;
    Flush(connection);
  }
  connection.in.clear();
  connection.in.shrink_to_fit();
  connection.body = std::string();
  connection.body_at = 0;
}

void Upstream::Begin(Connection& connection) {
  const std::string_view body = connection.body;
  const std::string_view prompt = body.substr(std::min(body.find("events="), body.size()));
  const std::string_view script = prompt.substr(0, kScriptBytes);
  connection.events = NumberAfter(script, "events", 1);
  connection.gap_ns = NumberAfter(script, "gap_us", 0) * kNsPerUs;
  connection.hold = NumberAfter(script, "hold", 0) != 0;
  connection.usage = body.find("include_usage") != std::string_view::npos;
  connection.sent_events = 0;
  connection.streaming = true;
  connection.out +=
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
      "Transfer-Encoding: chunked\r\n\r\n";
  connection.due_ns = NowNs();
  Schedule(open_[&connection]);
}

void Upstream::Schedule(const Held& connection) {
  if (connection->gap_ns > 0) {
    paced_.push(connection);
  } else {
    ready_.push_back(connection);
  }
}

void Upstream::SendDue() {
  int sends = 0;
  const int64_t now_ns = NowNs();
  while (!paced_.empty() && paced_.top()->due_ns <= now_ns) {
    const Held connection = paced_.top();
    paced_.pop();
    SendNext(connection);
    if (++sends >= kSendsBetweenLooks) {
      return;
    }
  }
  while (!ready_.empty() && sends++ < kSendsBetweenLooks) {
    const Held connection = std::move(ready_.front());
    ready_.pop_front();
    SendNext(connection);
  }
}

void Upstream::SendNext(const Held& connection) {
  if (connection->closed || !connection->streaming) {
    return;
  }
  AppendEvent(*connection);
  Flush(*connection);
  if (connection->closed || connection->hold) {
    return;
  }
  if (connection->streaming && !connection->waiting_to_write) {
    connection->due_ns += connection->gap_ns;
    Schedule(connection);
  }
}

void Upstream::AppendEvent(Connection& connection) {
  ++connection.sent_events;
  const bool first = connection.sent_events == 1;
  const bool last = connection.sent_events >= connection.events;
  constexpr std::string_view kBegin =
      R"(data: {"id":"chatcmpl-0123456789abcdef0123456789abcdef","object":"chat.completion.chunk",)"
      R"("created":1795975224,"model":"bench","choices":[)";
  event_ = kBegin;
  event_ += R"({"index":0,"delta":{)";
  event_ += first ? R"("role":"assistant",)" : "";
  event_ += R"("content":"@)" + std::to_string(NowNs()) + R"( "},"logprobs":null,)";
  event_ += last ? R"("finish_reason":"stop","stop_reason":null,)" : R"("finish_reason":null,)";
  event_ += R"("token_ids":null}]})";
  event_ += "\n\n";
  wire::AppendHttpChunk(connection.out, event_);
  if (!last) {
    return;
  }
  connection.streaming = false;
  if (connection.usage) {
    event_ = kBegin;
    event_ += R"(],"usage":{"prompt_tokens":20,"completion_tokens":)";
    event_ += std::to_string(connection.events) + R"(,"total_tokens":)";
    event_ += std::to_string(connection.events + 20) + "}}\n\n";
    wire::AppendHttpChunk(connection.out, event_);
  }
  wire::AppendHttpChunk(connection.out, "data: [DONE]\n\n");
  connection.out += wire::kHttpLastChunk;
}

void Upstream::Flush(Connection& connection) {
  while (connection.out_at < connection.out.size()) {
    const ssize_t sent = send(connection.fd, connection.out.data() + connection.out_at,
                              connection.out.size() - connection.out_at, MSG_NOSIGNAL);
    if (sent < 0) {
      if (!WouldBlock()) {
        Close(connection);
      } else if (!std::exchange(connection.waiting_to_write, true)) {
        epoll_.Want(connection.fd, &connection, true);
      }
      return;
    }
    connection.out_at += static_cast<size_t>(sent);
  }
  connection.out.clear();
  connection.out_at = 0;
  if (std::exchange(connection.waiting_to_write, false)) {
    epoll_.Want(connection.fd, &connection, false);
    if (connection.streaming) {
      connection.due_ns += connection.gap_ns;
      Schedule(open_[&connection]);
    }
  }
}

}  // namespace fak::e2e
