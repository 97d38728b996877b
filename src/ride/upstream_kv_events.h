#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "driver/engine_driver.h"
#include "net/zmq_loop.h"
#include "ride/kv_event_subscriber.h"

namespace fak::ride {

// "ENDPOINT[,replay=ENDPOINT][,topic=PREFIX][,rank=N]", as on the command line and in the fleet
// file: where one data-parallel rank of an upstream publishes. kInvalidArgument says what it can't
// be.
[[nodiscard]] Result<KvEventEndpoint> ParseKvEventEndpoint(std::string_view text);

// What was read of an upstream's KV events. Only grows.
struct KvEventCounts {
  uint64_t batches = 0;
  uint64_t stored = 0;   // blocks that events named
  uint64_t removed = 0;  // the same
  uint64_t resets = 0;   // all that was said before was void: cleared there, or lost on the way
  uint64_t gaps = 0;
  uint64_t replays = 0;  // asked for
  uint64_t replays_failed = 0;
  uint64_t dropped = 0;  // messages that can't be read, or are another rank's
};

// One upstream's KV events, all its ranks: read on a loop of its own, counted, and handed on to
// whoever has subscribed.
class UpstreamKvEvents final : public driver::KvEventSource {
 public:
  // `on_counts` gets the counts about once a second, and a last time when it ends; on the loop.
  // kInvalidArgument: no endpoint, a rank that is named twice, or as KvEventSubscriber says.
  [[nodiscard]] static Result<std::unique_ptr<UpstreamKvEvents>> Make(
      std::vector<KvEventEndpoint> endpoints, std::function<void(const KvEventCounts&)> on_counts);
  ~UpstreamKvEvents() override;

  void Subscribe(std::function<void(const wire::KvEventBatch&)> on_batch) override;
  // Connects. Once.
  void Start();
  // Nothing is called after it. Idempotent.
  void Stop();

 private:
  explicit UpstreamKvEvents(std::function<void(const KvEventCounts&)> on_counts);
  void Take(const wire::KvEventBatch& batch);
  void Tell();

  const std::function<void(const KvEventCounts&)> on_counts_;
  std::function<void(const wire::KvEventBatch&)> on_batch_;
  net::ZmqLoop loop_;

  // Loop thread, once started.
  std::unique_ptr<KvEventSubscriber> subscriber_;
  std::unique_ptr<net::Timer> timer_;
  KvEventCounts counts_;
};

}  // namespace fak::ride
