#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/zmq_endpoint.h"
#include "net/zmq_loop.h"
#include "net/zmq_socket.h"

namespace fak::net {

struct ZmqPublisherOptions {
  ZmqEndpoint endpoint = {};
  bool bind = true;                  // of `endpoint`; replay always binds
  std::string replay_endpoint = {};  // empty: none
  std::string topic = {};
  size_t buffer_steps = 10'000;     // messages kept for replay
  size_t buffer_bytes = 64 << 20;   // and their bytes
  int hwm = 100'000;                // messages that wait for one slow subscriber
  size_t max_queue_size = 100'000;  // messages that wait for the loop
  bool allow_public = false;
};

// Publishes numbered messages, [topic, number, payload], and gives the last ones again to whoever
// asks, as vLLM does: numbers are 8 bytes, big-endian; a request over a DEALER is [empty, first
// number]; the answers are [empty, topic, number, payload] and at the end [empty, empty, ff × 8,
// empty].
// What is over a bound is lost to that subscriber, who sees a gap in the numbers. A replay that its
// peer doesn't read is cut off in the same way.
class ZmqPublisher {
 public:
  // Any thread. Errors as of ZmqSocket::Open().
  [[nodiscard]] static Result<std::unique_ptr<ZmqPublisher>> Open(ZmqLoop& loop,
                                                                  ZmqPublisherOptions options);
  ~ZmqPublisher();  // any thread; what waits is dropped
  ZmqPublisher(const ZmqPublisher&) = delete;
  ZmqPublisher& operator=(const ZmqPublisher&) = delete;

  // Any thread, never blocks. Numbers must rise by one. False: the queue is full, the message is
  // lost; its number must not be used again.
  bool Publish(uint64_t number, std::string payload);

  // Where others reach it.
  const std::string& endpoint() const { return endpoint_; }
  const std::string& replay_endpoint() const { return replay_endpoint_; }

 private:
  struct Message {
    uint64_t number = 0;
    std::string payload;
  };

  ZmqPublisher(ZmqLoop& loop, ZmqPublisherOptions options);
  Status OpenSockets();
  void Flush();
  void Keep(Message message);
  void Replay(const std::vector<std::string>& request);

  ZmqLoop& loop_;
  const ZmqPublisherOptions options_;
  std::string endpoint_;
  std::string replay_endpoint_;

  // Loop thread.
  std::unique_ptr<ZmqSocket> publish_;
  std::unique_ptr<ZmqSocket> replay_;
  std::deque<Message> kept_;
  size_t kept_bytes_ = 0;

  std::mutex mutex_;  // guards the members below
  std::deque<Message> queue_;
  // Tasks on the loop that name this publisher; they hold it, not the publisher.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

// A number in 8 bytes, big-endian, and back; nullopt for other lengths.
std::string BigEndian64(uint64_t value);
std::optional<uint64_t> ParseBigEndian64(std::string_view bytes);
inline constexpr uint64_t kReplayEnd = ~uint64_t{0};

}  // namespace fak::net
