#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "driver/engine_driver.h"
#include "net/zmq_loop.h"
#include "net/zmq_publisher.h"

namespace fak::gateway {

// What vLLM's --kv-events-config says, with its names and defaults, but for the address: ours is
// on this machine only. Plain value.
struct KvEventsConfig {
  bool enable_kv_cache_events = false;
  std::string publisher = "zmq";  // or "null": publishes nothing
  // Bound when it names this machine or every address ("*"), else connected to, as vLLM does for a
  // collector.
  std::string endpoint = "tcp://127.0.0.1:5557";
  std::string replay_endpoint = {};  // always bound; empty: none
  size_t buffer_steps = 10'000;      // batches kept for replay
  int hwm = 100'000;                 // batches that wait for one slow subscriber
  size_t max_queue_size = 100'000;   // batches that wait to be published
  std::string topic = {};

  bool enabled() const { return enable_kv_cache_events && publisher == "zmq"; }
};

// kInvalidArgument names the key.
[[nodiscard]] Result<KvEventsConfig> ParseKvEventsConfig(std::string_view json);

// Publishes a driver's KV events over ZeroMQ in vLLM's map form, so that routers made for vLLM can
// read them. Token ids and salts go in clear, which is why an address that others than this machine
// reach must be allowed. A batch beyond a bound is lost, and its number with it: subscribers see
// the gap. Has a thread of its own; the driver's thread encodes.
class KvEventPublisher {
 public:
  // Subscribes, so the source must not have started; it may not call any more when the publisher
  // goes. Errors: kInvalidArgument, kPermissionDenied (a public address), kIoError (taken).
  [[nodiscard]] static Result<std::unique_ptr<KvEventPublisher>> Start(
      const KvEventsConfig& config, bool allow_public, driver::KvEventSource& source);

  const std::string& endpoint() const { return publisher_->endpoint(); }
  const std::string& replay_endpoint() const { return publisher_->replay_endpoint(); }
  uint64_t lost() const { return lost_.load(); }  // batches; any thread

  // What GET /kv_event_sources answers, as vLLM does: one rank.
  static Json Describe(const KvEventsConfig& config, const KvEventPublisher& publisher);

 private:
  KvEventPublisher() = default;

  net::ZmqLoop loop_;
  std::unique_ptr<net::ZmqPublisher> publisher_;
  std::atomic<uint64_t> lost_{0};
};

}  // namespace fak::gateway
