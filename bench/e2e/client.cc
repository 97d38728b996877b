#include "client.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <utility>

#include "wire/http_body.h"
#include "wire/sse.h"

namespace fak::e2e {
namespace {

constexpr size_t kReadBytes = 64 * 1024;
// Of a large prompt at a time, and how long a network of a gigabit a second takes for it: loopback
// takes all of it at once, and what is measured then is the load's core.
constexpr size_t kWriteBytes = 32 * 1024;
constexpr int64_t kWriteNs = kWriteBytes * 8;
constexpr int64_t kNsPerMs = 1'000'000;
constexpr int64_t kNsPerUs = 1000;
constexpr int64_t kGiveUpNs = 60'000 * kNsPerMs;  // without a byte from anybody
constexpr int kWrongShown = 5;

std::string MakeRequest(const Load& load, const std::string& script, int64_t padding) {
  const std::string body =
      R"({"model":"bench","stream":true,"stream_options":{"include_usage":true},"max_tokens":)" +
      std::to_string(load.events) + R"(,"messages":[{"role":"user","content":")" + script +
      std::string(static_cast<size_t>(padding), 'x') + "\"}]}";
  return "POST " + load.path + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(load.port) +
         "\r\nContent-Type: application/json\r\nAuthorization: Bearer " + load.key +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

double UsAt(const std::vector<int64_t>& sorted, double share) {
  if (sorted.empty()) {
    return 0;
  }
  const auto at = static_cast<size_t>(share * static_cast<double>(sorted.size() - 1));
  return static_cast<double>(sorted[at]) / static_cast<double>(kNsPerUs);
}

}  // namespace

struct Client::Stream final : Handler {
  explicit Stream(Client& client) : owner(client) {}
  ~Stream() override {
    if (fd >= 0) {
      close(fd);
    }
  }
  void Handle(uint32_t happened) override { owner.Happened(*this, happened); }

  Client& owner;
  int fd = -1;
  bool big = false;
  int64_t rounds_left = 0;
  int64_t starts_ns = 0;
  // The request being sent.
  size_t sent = 0;
  bool writing = false;
  int64_t asked_ns = 0;
  // The answer being read.
  bool in_head = true;
  std::string head;
  wire::HttpBodyDecoder decoder;
  wire::SseSplitter splitter;
  int64_t events = 0;
  bool done = false;
};

Load::Load(const Arguments& arguments)
    : port(static_cast<uint16_t>(arguments.Number("port", 0))),
      path(arguments.Text("path", "/v1/chat/completions")),
      key(arguments.Text("key", "none")),
      streams(arguments.Number("streams", 1)),
      rounds(arguments.Number("rounds", 1)),
      events(arguments.Number("events", 100)),
      gap_us(arguments.Number("gap_us", 0)),
      spread_us(arguments.Number("spread_us", 50'000)),
      big_every_ms(arguments.Number("big_every_ms", 0)),
      big_bytes(arguments.Number("big_bytes", 10'000'000)),
      hold(arguments.Number("hold", 0) != 0) {}

Client::Client(Epoll& epoll, Load load)
    : epoll_(epoll),
      load_(std::move(load)),
      small_(MakeRequest(load_, Script(load_.events), 200)),
      large_(load_.big_every_ms > 0 ? MakeRequest(load_, Script(1), load_.big_bytes) : ""),
      open_(load_.streams),
      heard_ns_(NowNs()) {
  const int64_t spread_ns = load_.spread_us * kNsPerUs;
  const int64_t bigs = load_.big_every_ms > 0 ? 1 : 0;
  for (int64_t i = 0; i < load_.streams + bigs; ++i) {
    auto stream = std::make_unique<Stream>(*this);
    stream->big = i >= load_.streams;
    stream->rounds_left = stream->big ? INT64_MAX : load_.rounds;
    stream->starts_ns = heard_ns_ + i * spread_ns / std::max<int64_t>(1, load_.streams);
    streams_.push_back(std::move(stream));
  }
}

Client::~Client() = default;

std::string Client::Script(int64_t events) const {
  return "events=" + std::to_string(events) + " gap_us=" + std::to_string(load_.gap_us) +
         " hold=" + std::to_string(load_.hold ? 1 : 0) + " ";
}

bool Client::done() const {
  return open_ <= 0 || (load_.hold && held_ >= open_);
}

int64_t Client::NextNs() const {
  int64_t next_ns = heard_ns_ + kGiveUpNs;
  if (next_ < streams_.size()) {  // they begin in order
    next_ns = std::min(next_ns, streams_[next_]->starts_ns);
  }
  return big_due_ns_ != 0 ? std::min(next_ns, big_due_ns_) : next_ns;
}

void Client::Start() {
  const int64_t now_ns = NowNs();
  if (now_ns - heard_ns_ >= kGiveUpNs) {
    Wrong("nothing came for too long");
    open_ = 0;
  }
  while (next_ < streams_.size() && streams_[next_]->starts_ns <= now_ns) {
    Connect(*streams_[next_++]);
  }
  if (big_due_ns_ != 0 && big_due_ns_ <= now_ns) {
    big_due_ns_ = 0;
    Stream& big = *streams_.back();
    if (big.sent == 0 || big.sent == large_.size()) {
      Ask(big);
    } else {
      SendMore(big);
    }
  }
}

void Client::Connect(Stream& stream) {
  stream.fd = StartConnecting(load_.port);
  epoll_.Add(stream.fd, &stream);
  Ask(stream);
}

void Client::Ask(Stream& stream) {
  stream.in_head = true;
  stream.head.clear();
  stream.splitter = {};
  stream.events = 0;
  stream.done = false;
  stream.sent = 0;
  stream.asked_ns = NowNs();
  SendMore(stream);
}

void Client::SendMore(Stream& stream) {
  const std::string& request = stream.big ? large_ : small_;
  const size_t piece = std::min(kWriteBytes, request.size() - stream.sent);
  const ssize_t sent = send(stream.fd, request.data() + stream.sent, piece, MSG_NOSIGNAL);
  if (sent < 0 && !WouldBlock()) {
    GiveUp(stream, "a request can't be sent");
    return;
  }
  stream.sent += static_cast<size_t>(std::max<ssize_t>(0, sent));
  const bool full = sent < static_cast<ssize_t>(piece);
  if (full != stream.writing) {
    stream.writing = full;
    epoll_.Want(stream.fd, &stream, full);
  }
  if (stream.big && !full && stream.sent < request.size()) {
    big_due_ns_ = NowNs() + kWriteNs;
  }
}

void Client::Happened(Stream& stream, uint32_t events) {
  if (stream.fd >= 0 && (events & EPOLLOUT) != 0 && stream.writing) {
    SendMore(stream);
  }
  if (stream.fd >= 0 && (events & ~uint32_t{EPOLLOUT}) != 0) {
    Read(stream);
  }
}

void Client::Read(Stream& stream) {
  buffer_.resize(kReadBytes);
  const ssize_t got = recv(stream.fd, buffer_.data(), buffer_.size(), 0);
  now_ns_ = NowNs();
  if (got < 0 && WouldBlock()) {
    return;
  }
  if (got <= 0) {
    GiveUp(stream, "a connection was closed");
    return;
  }
  heard_ns_ = now_ns_;
  AcknowledgeAtOnce(stream.fd);
  const std::string_view bytes(buffer_.data(), static_cast<size_t>(got));
  if (!stream.in_head) {
    TakeBody(stream, bytes);
    return;
  }
  stream.head += bytes;
  const size_t end = stream.head.find("\r\n\r\n");
  if (end != std::string::npos) {
    const std::string rest = stream.head.substr(end + 4);
    stream.head.resize(end + 4);
    TakeHead(stream);
    TakeBody(stream, rest);
  }
}

void Client::TakeHead(Stream& stream) {
  stream.in_head = false;
  for (char& c : stream.head) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  }
  if (!stream.head.starts_with("http/1.1 200") ||
      stream.head.find("\r\ntransfer-encoding: chunked") == std::string::npos) {
    Wrong("not a stream: " + stream.head.substr(0, stream.head.find('\r')));
  }
  stream.decoder = wire::HttpBodyDecoder(wire::HttpFraming::kChunked, 0);
}

void Client::TakeBody(Stream& stream, std::string_view bytes) {
  const auto used = stream.decoder.Feed(bytes, [&](std::string_view content) {
    const Status fed = stream.splitter.Feed(
        content, [&](const wire::SseEvent& event) { TakeEvent(stream, event.data); });
    errors_ += fed ? 0 : 1;
  });
  if (!used) {
    GiveUp(stream, "chunked framing is broken");
  } else if (stream.decoder.done()) {
    EndAnswer(stream);
  }
}

bool Client::all_open() const {
  return next_ >= static_cast<size_t>(load_.streams) && open_ == load_.streams;
}

void Client::TakeEvent(Stream& stream, std::string_view data) {
  constexpr std::string_view kStamp = R"("content":"@)";
  if (data == "[DONE]") {
    stream.done = true;
    return;
  }
  const size_t at = data.find(kStamp);
  if (at == std::string_view::npos) {
    return;
  }
  int64_t stamp_ns = 0;
  std::from_chars(data.data() + at + kStamp.size(), data.data() + data.size(), stamp_ns);
  ++stream.events;
  if (stream.big) {
    return;
  }
  if (stream.events == 1) {
    ++held_;
    first_ns_.push_back(now_ns_ - stream.asked_ns);
  }
  if (all_open()) {
    ages_ns_.push_back(now_ns_ - stamp_ns);
  }
  ++chunks_;
  begun_ns_ = begun_ns_ == 0 ? stamp_ns : begun_ns_;
  ended_ns_ = now_ns_;
}

void Client::EndAnswer(Stream& stream) {
  const int64_t wanted = stream.big ? 1 : load_.events;
  if (stream.events != wanted || !stream.done) {
    Wrong("an answer had " + std::to_string(stream.events) + " of " + std::to_string(wanted) +
          " events" + (stream.done ? "" : ", and no [DONE]"));
  }
  stream.head.clear();
  if (stream.big) {
    ++bigs_;
    big_due_ns_ = std::max(now_ns_ + kNsPerMs, stream.asked_ns + load_.big_every_ms * kNsPerMs);
  } else if (--stream.rounds_left > 0) {
    Ask(stream);
  } else {
    --open_;
  }
}

void Client::GiveUp(Stream& stream, const std::string& why) {
  close(std::exchange(stream.fd, -1));
  if (stream.rounds_left > 0) {
    Wrong(why + ", after " + std::to_string(stream.events) + " events of an answer");
    open_ -= stream.big ? 0 : 1;
  }
}

void Client::Wrong(const std::string& what) {
  if (++errors_ <= kWrongShown) {
    std::fprintf(stderr, "e2e_load: %s\n", what.c_str());
  }
}

std::string Client::Report() {
  std::sort(ages_ns_.begin(), ages_ns_.end());
  std::sort(first_ns_.begin(), first_ns_.end());
  std::array<char, 512> text;
  std::snprintf(text.data(), text.size(),
                R"({"chunks":%zu,"held":%lld,"errors":%lld,"seconds":%.3f,"p50_us":%.1f,)"
                R"("p90_us":%.1f,"p99_us":%.1f,"max_us":%.1f,"first_p50_us":%.1f,)"
                R"("first_p99_us":%.1f,"bigs":%lld})",
                chunks_, static_cast<long long>(held_), static_cast<long long>(errors_),
                static_cast<double>(ended_ns_ - begun_ns_) / 1e9, UsAt(ages_ns_, 0.5),
                UsAt(ages_ns_, 0.9), UsAt(ages_ns_, 0.99), UsAt(ages_ns_, 1), UsAt(first_ns_, 0.5),
                UsAt(first_ns_, 0.99), static_cast<long long>(bigs_));
  return text.data();
}

}  // namespace fak::e2e
