#include "net/zmq_publisher.h"

#include <algorithm>
#include <array>

#include "base/log.h"

namespace fak::net {

std::string BigEndian64(uint64_t value) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<char>(value >> (8 * (7 - i)) & 0xff);
  }
  return bytes;
}

std::optional<uint64_t> ParseBigEndian64(std::string_view bytes) {
  if (bytes.size() != 8) {
    return std::nullopt;
  }
  uint64_t value = 0;
  for (const char byte : bytes) {
    value = value << 8 | static_cast<unsigned char>(byte);
  }
  return value;
}

ZmqPublisher::ZmqPublisher(ZmqLoop& loop, ZmqPublisherOptions options)
    : loop_(loop), options_(std::move(options)) {}

Result<std::unique_ptr<ZmqPublisher>> ZmqPublisher::Open(ZmqLoop& loop,
                                                         ZmqPublisherOptions options) {
  std::unique_ptr<ZmqPublisher> publisher(new ZmqPublisher(loop, std::move(options)));
  Status opened;
  loop.Invoke([&] { opened = publisher->OpenSockets(); });
  TRY(opened);
  return publisher;
}

Status ZmqPublisher::OpenSockets() {
  TRY_ASSIGN(publish_, ZmqSocket::Open(loop_,
                                       {.pattern = ZmqPattern::kPublish,
                                        .endpoint = options_.endpoint,
                                        .bind = options_.bind,
                                        .allow_public = options_.allow_public,
                                        .queue_max = options_.hwm},
                                       {}));
  endpoint_ = options_.bind ? publish_->bound_to() : options_.endpoint.ToString();
  if (options_.replay_endpoint.empty()) {
    return {};
  }
  TRY_ASSIGN(const ZmqEndpoint replay, ParseZmqEndpoint(options_.replay_endpoint));
  // A whole replay fits into the queue of its peer.
  TRY_ASSIGN(
      replay_,
      ZmqSocket::Open(
          loop_,
          {.pattern = ZmqPattern::kRouter,
           .endpoint = replay,
           .bind = true,
           .allow_public = options_.allow_public,
           .queue_max = static_cast<int>(std::min<size_t>(options_.buffer_steps, 1 << 24)) + 16},
          {.on_message = [this](const std::vector<std::string>& request) { Replay(request); }}));
  replay_endpoint_ = replay_->bound_to();
  return {};
}

ZmqPublisher::~ZmqPublisher() {
  loop_.Invoke([this] {
    *alive_ = false;
    publish_.reset();
    replay_.reset();
  });
}

bool ZmqPublisher::Publish(uint64_t number, std::string payload) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() >= options_.max_queue_size) {
      return false;
    }
    first = queue_.empty();
    queue_.push_back({number, std::move(payload)});
  }
  if (first) {
    loop_.Post([this, alive = alive_] {
      if (*alive) {
        Flush();
      }
    });
  }
  return true;
}

void ZmqPublisher::Flush() {
  std::deque<Message> messages;
  {
    const std::lock_guard lock(mutex_);
    messages.swap(queue_);
  }
  for (Message& message : messages) {
    const std::string number = BigEndian64(message.number);
    const std::array<std::string_view, 3> frames = {options_.topic, number, message.payload};
    if (const Status sent = publish_->Send(frames); !sent) {
      Log(LogLevel::kDebug, "message {} was not published: {}", message.number,
          sent.error().detail);
    }
    if (replay_ != nullptr) {
      Keep(std::move(message));
    }
  }
}

void ZmqPublisher::Keep(Message message) {
  kept_bytes_ += message.payload.size();
  kept_.push_back(std::move(message));
  while (kept_.size() > options_.buffer_steps || kept_bytes_ > options_.buffer_bytes) {
    kept_bytes_ -= kept_.front().payload.size();
    kept_.pop_front();
  }
}

// [peer, empty, first number]; a request of another shape is nobody's that we know.
void ZmqPublisher::Replay(const std::vector<std::string>& request) {
  if (request.size() != 3 || !request[1].empty()) {
    return;
  }
  const std::optional<uint64_t> first = ParseBigEndian64(request[2]);
  if (!first) {
    return;
  }
  const auto begin =
      std::lower_bound(kept_.begin(), kept_.end(), *first,
                       [](const Message& message, uint64_t at) { return message.number < at; });
  for (auto message = begin; message != kept_.end(); ++message) {
    const std::string number = BigEndian64(message->number);
    const std::array<std::string_view, 5> frames = {request[0], "", options_.topic, number,
                                                    message->payload};
    if (!replay_->Send(frames)) {
      return;
    }
  }
  const std::string end = BigEndian64(kReplayEnd);
  const std::array<std::string_view, 5> frames = {request[0], "", "", end, ""};
  // A peer that has gone needs no end.
  static_cast<void>(replay_->Send(frames));
}

}  // namespace fak::net
