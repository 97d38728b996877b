#include "ride/upstream_kv_events.h"

#include <set>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/strings.h"
#include "net/zmq_endpoint.h"

namespace fak::ride {
namespace {

constexpr int kTellEveryMs = 1000;

// An address to connect to.
Result<std::string> Reachable(std::string_view text) {
  TRY_ASSIGN(const net::ZmqEndpoint endpoint, net::ParseZmqEndpoint(text));
  if (endpoint.wildcard() || endpoint.port == "*") {
    return Fail(Code::kInvalidArgument,
                std::string(text) + ": can only be bound; say the engine's own host and port");
  }
  return endpoint.ToString();
}

}  // namespace

Result<KvEventEndpoint> ParseKvEventEndpoint(std::string_view text) {
  KvEventEndpoint out;
  const std::vector<std::string_view> parts = Split(text, ',');
  TRY_ASSIGN(out.endpoint, Reachable(parts.front()));
  for (size_t i = 1; i < parts.size(); ++i) {
    const auto cut = Cut(parts[i], "=");
    const std::string_view key = cut ? cut->first : parts[i];
    if (cut && key == "replay") {
      TRY_ASSIGN(out.replay_endpoint, Reachable(cut->second));
    } else if (cut && key == "topic") {
      out.topic = cut->second;
    } else if (const auto rank = cut && key == "rank" ? ParseInt(cut->second) : std::nullopt;
               rank && *rank >= 0 && *rank <= INT32_MAX) {
      out.rank = static_cast<int32_t>(*rank);
    } else {
      return Fail(Code::kInvalidArgument, std::string(text) + ": \"" + std::string(parts[i]) +
                                              "\" is none of replay=ENDPOINT, topic=PREFIX and "
                                              "rank=N");
    }
  }
  return out;
}

UpstreamKvEvents::UpstreamKvEvents(std::function<void(const KvEventCounts&)> on_counts)
    : on_counts_(std::move(on_counts)) {}

UpstreamKvEvents::~UpstreamKvEvents() {
  Stop();
}

Result<std::unique_ptr<UpstreamKvEvents>> UpstreamKvEvents::Make(
    std::vector<KvEventEndpoint> endpoints, std::function<void(const KvEventCounts&)> on_counts) {
  std::set<int32_t> ranks;
  for (const KvEventEndpoint& endpoint : endpoints) {
    if (!ranks.insert(endpoint.rank).second) {
      return Fail(Code::kInvalidArgument, endpoint.endpoint + ": another endpoint has the rank " +
                                              std::to_string(endpoint.rank) +
                                              " already; rank=N says which it is");
    }
  }
  if (ranks.empty()) {
    return Fail(Code::kInvalidArgument, "no endpoint of KV events");
  }
  std::unique_ptr<UpstreamKvEvents> made(new UpstreamKvEvents(std::move(on_counts)));
  TRY_ASSIGN(made->subscriber_,
             KvEventSubscriber::Make(made->loop_, std::move(endpoints), Clock::Real()));
  return made;
}

void UpstreamKvEvents::Subscribe(std::function<void(const wire::KvEventBatch&)> on_batch) {
  on_batch_ = std::move(on_batch);
}

void UpstreamKvEvents::Start() {
  loop_.Start("kv-events");
  loop_.Invoke([this] {
    timer_ = std::make_unique<net::Timer>(loop_.timers(), [this] {
      Tell();
      timer_->ArmMs(kTellEveryMs);
    });
    timer_->ArmMs(kTellEveryMs);
    subscriber_->Subscribe([this](const wire::KvEventBatch& batch) { Take(batch); });
  });
}

void UpstreamKvEvents::Stop() {
  loop_.Invoke([this] {
    if (timer_ != nullptr) {
      Tell();
    }
    timer_.reset();
    subscriber_.reset();
  });
  loop_.Stop();
}

void UpstreamKvEvents::Take(const wire::KvEventBatch& batch) {
  for (const wire::KvEvent& event : batch.events) {
    switch (event.kind) {
      case wire::KvEvent::Kind::kStored: counts_.stored += event.block_hashes.size(); break;
      case wire::KvEvent::Kind::kRemoved: counts_.removed += event.block_hashes.size(); break;
      case wire::KvEvent::Kind::kCleared: ++counts_.resets; break;
    }
  }
  if (on_batch_) {
    on_batch_(batch);
  }
}

void UpstreamKvEvents::Tell() {
  const KvEventFeedStats stats = subscriber_->Stats();
  counts_.batches = stats.batches;
  counts_.gaps = stats.gaps;
  counts_.replays = stats.replays;
  counts_.replays_failed = stats.replays_failed;
  counts_.dropped = stats.malformed + stats.corrupt + stats.foreign;
  on_counts_(counts_);
}

}  // namespace fak::ride
