#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "driver/engine_driver.h"
#include "net/zmq_loop.h"
#include "ride/kv_event_feed.h"

namespace fak::ride {

// Where one data-parallel rank of an engine publishes.
struct KvEventEndpoint {
  int32_t rank = 0;
  std::string endpoint = {};         // ZeroMQ, to connect to
  std::string replay_endpoint = {};  // empty: none
  std::string topic = {};            // what the topic must begin with
};

// What vLLM and fak answer to GET /kv_event_sources: by rank, what `--kv-events-config` said. The
// ports are taken, the host is always `host`, the engine's own: an engine can't send us elsewhere.
// kUpstreamError: nothing that can be connected to.
[[nodiscard]] Result<std::vector<KvEventEndpoint>> ParseKvEventSources(const Json& answer,
                                                                       std::string_view host);

struct KvEventWaits {
  int replay_ms = limits::kKvReplayTimeoutMs;
  int connect_ms = 5000;  // then it is told, once, that there is no connection; tried further
};

// An engine's KV events, all ranks of it, each with numbers and generations of its own.
class KvEventSubscriber final : public driver::KvEventSource {
 public:
  // loop and clock outlive it. kInvalidArgument: an endpoint that is none, or too many of them.
  // Connecting never fails here: what isn't there yet is waited for.
  [[nodiscard]] static Result<std::unique_ptr<KvEventSubscriber>> Make(
      net::ZmqLoop& loop, std::vector<KvEventEndpoint> endpoints, const Clock& clock,
      KvEventWaits waits = {});
  ~KvEventSubscriber() override;  // any thread but the loop's own

  // Connects. The callback runs on the loop. Once.
  void Subscribe(std::function<void(const wire::KvEventBatch&)> on_batch) override;

  // Any thread; a sum over the ranks.
  KvEventFeedStats Stats() const;

 private:
  class Rank;
  KvEventSubscriber(net::ZmqLoop& loop, std::vector<KvEventEndpoint> endpoints, const Clock& clock,
                    KvEventWaits waits);

  net::ZmqLoop& loop_;
  const std::vector<KvEventEndpoint> endpoints_;
  const Clock& clock_;
  const KvEventWaits waits_;
  std::function<void(const wire::KvEventBatch&)> on_batch_;
  std::vector<std::unique_ptr<Rank>> ranks_;  // loop thread
};

}  // namespace fak::ride
