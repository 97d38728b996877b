#include "ride/kv_event_subscriber.h"

#include <array>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "net/zmq_publisher.h"
#include "net/zmq_socket.h"

namespace fak::ride {

using net::ZmqPattern;
using net::ZmqSocket;

// The sockets and the timer of one rank; loop thread only.
class KvEventSubscriber::Rank {
 public:
  Rank(KvEventSubscriber& owner, const KvEventEndpoint& where)
      : owner_(owner),
        where_(where),
        feed_(
            {.rank = where.rank, .can_replay = !where.replay_endpoint.empty()}, owner.clock_,
            [this](const wire::KvEventBatch& batch) { owner_.on_batch_(batch); },
            [this](uint64_t first) { AskReplay(first); }),
        silence_(owner.loop_.timers(), [this] { FailReplay("no answer"); }),
        unconnected_(owner.loop_.timers(), [this] {
          Log(LogLevel::kWarning, "KV events of {}: no connection in {} ms; it is waited for",
              where_.endpoint, owner_.waits_.connect_ms);
        }) {
    Connect();
  }

  const KvEventFeedStats& stats() const { return feed_.stats(); }

 private:
  using Frames = std::vector<std::string>;

  void Connect() {
    auto opened = Open(ZmqPattern::kSubscribe, where_.endpoint,
                       {.on_message = [this](const Frames& frames) { feed_.OnMessage(frames); },
                        .on_connected =
                            [this] {
                              unconnected_.Disarm();
                              feed_.OnConnected();
                            },
                        .on_disconnected =
                            [this] {
                              StopReplay();
                              feed_.OnDisconnected();
                            }});
    if (!opened) {
      Log(LogLevel::kWarning, "KV events of {}: {}", where_.endpoint, opened.error().detail);
      return;
    }
    subscribed_ = *std::move(opened);
    unconnected_.ArmMs(owner_.waits_.connect_ms);
  }

  Result<std::unique_ptr<ZmqSocket>> Open(ZmqPattern pattern, const std::string& endpoint,
                                          net::ZmqCallbacks callbacks) {
    TRY_ASSIGN(const net::ZmqEndpoint parsed, net::ParseZmqEndpoint(endpoint));
    return ZmqSocket::Open(
        owner_.loop_,
        {.pattern = pattern, .endpoint = parsed, .topic = where_.topic, .queue_max = kQueueMax},
        std::move(callbacks));
  }

  // A socket of its own for each request: what an earlier one still brings goes with its socket.
  void AskReplay(uint64_t first) {
    StopReplay();
    auto opened = Open(ZmqPattern::kDealer, where_.replay_endpoint,
                       {.on_message = [this](const Frames& frames) { TakeReplay(frames); }});
    const std::string number = net::BigEndian64(first);
    const std::array<std::string_view, 2> request = {"", number};
    Status sent = opened ? (*opened)->Send(request) : Status(Fail(opened.error()));
    if (opened) {
      replay_ = *std::move(opened);
    }
    if (!sent) {
      Log(LogLevel::kDebug, "replay of {}: {}", where_.replay_endpoint, sent.error().detail);
    }
    // A failure is told by the timer too: the feed must not be called from its own callback.
    silence_.ArmMs(sent ? owner_.waits_.replay_ms : 0);
  }

  void TakeReplay(const Frames& frames) {
    silence_.ArmMs(owner_.waits_.replay_ms);
    if (!feed_.OnReplayed(frames)) {
      StopReplay();
    }
  }

  void FailReplay(std::string_view why) {
    Log(LogLevel::kDebug, "replay of {} failed: {}", where_.replay_endpoint, why);
    StopReplay();
    feed_.OnReplayFailed();
  }

  void StopReplay() {
    silence_.Disarm();
    replay_.reset();
  }

  // Beyond it the publisher drops, which is a gap.
  static constexpr int kQueueMax = 100'000;

  KvEventSubscriber& owner_;
  const KvEventEndpoint where_;
  KvEventFeed feed_;
  net::Timer silence_;
  net::Timer unconnected_;
  std::unique_ptr<ZmqSocket> replay_;
  std::unique_ptr<ZmqSocket> subscribed_;
};

KvEventSubscriber::KvEventSubscriber(net::ZmqLoop& loop, std::vector<KvEventEndpoint> endpoints,
                                     const Clock& clock, KvEventWaits waits)
    : loop_(loop), endpoints_(std::move(endpoints)), clock_(clock), waits_(waits) {}

Result<std::unique_ptr<KvEventSubscriber>> KvEventSubscriber::Make(
    net::ZmqLoop& loop, std::vector<KvEventEndpoint> endpoints, const Clock& clock,
    KvEventWaits waits) {
  if (endpoints.size() > limits::kKvEventRanksMax) {
    return Fail(Code::kInvalidArgument,
                std::to_string(endpoints.size()) + " ranks publish KV events, " +
                    std::to_string(limits::kKvEventRanksMax) + " at most are read");
  }
  for (const KvEventEndpoint& endpoint : endpoints) {
    TRY(net::ParseZmqEndpoint(endpoint.endpoint));
    if (!endpoint.replay_endpoint.empty()) {
      TRY(net::ParseZmqEndpoint(endpoint.replay_endpoint));
    }
  }
  return std::unique_ptr<KvEventSubscriber>(
      new KvEventSubscriber(loop, std::move(endpoints), clock, waits));
}

KvEventSubscriber::~KvEventSubscriber() {
  loop_.Invoke([this] { ranks_.clear(); });
}

void KvEventSubscriber::Subscribe(std::function<void(const wire::KvEventBatch&)> on_batch) {
  loop_.Invoke([&] {
    CHECK(ranks_.empty()) << "subscribed twice";
    on_batch_ = std::move(on_batch);
    for (const KvEventEndpoint& endpoint : endpoints_) {
      ranks_.push_back(std::make_unique<Rank>(*this, endpoint));
    }
  });
}

KvEventFeedStats KvEventSubscriber::Stats() const {
  KvEventFeedStats sum;
  loop_.Invoke([&] {
    for (const std::unique_ptr<Rank>& rank : ranks_) {
      sum += rank->stats();
    }
  });
  return sum;
}

Result<std::vector<KvEventEndpoint>> ParseKvEventSources(const Json& answer,
                                                         std::string_view host) {
  std::vector<KvEventEndpoint> out;
  // An address of `host`, or nothing where the engine named none that can be reached from outside.
  const auto reach = [host](const Json* text) -> std::string {
    auto parsed = text != nullptr && text->is_string() ? net::ParseZmqEndpoint(text->string())
                                                       : net::ParseZmqEndpoint("");
    if (!parsed || parsed->transport != "tcp" || parsed->port == "*") {
      return "";
    }
    parsed->host = host;
    return parsed->ToString();
  };
  if (answer.is_object()) {
    for (const auto& [key, source] : answer.object()) {
      const std::optional<int64_t> rank = ParseInt(key);
      const Json* const publisher = source.Find("publisher");
      if (publisher != nullptr && publisher->is_string() && publisher->string() != "zmq") {
        continue;
      }
      KvEventEndpoint endpoint;
      endpoint.endpoint = reach(source.Find("endpoint"));
      if (!rank || *rank < 0 || *rank > INT32_MAX || endpoint.endpoint.empty()) {
        continue;
      }
      endpoint.rank = static_cast<int32_t>(*rank);
      endpoint.replay_endpoint = reach(source.Find("replay_endpoint"));
      const Json* const topic = source.Find("topic");
      endpoint.topic = topic != nullptr && topic->is_string() ? topic->string() : "";
      out.push_back(std::move(endpoint));
    }
  }
  if (out.empty()) {
    return Fail(Code::kUpstreamError, "the engine names no endpoint of KV events");
  }
  return out;
}

}  // namespace fak::ride
