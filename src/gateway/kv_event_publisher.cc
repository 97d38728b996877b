#include "gateway/kv_event_publisher.h"

#include <limits>
#include <optional>
#include <utility>

#include "base/log.h"
#include "kv/event_codec.h"

namespace fak::gateway {
namespace {

tl::unexpected<Error> Refuse(const std::string& key, std::string_view must) {
  return Fail(Code::kInvalidArgument,
              "--kv-events-config: " + key + " must be " + std::string(must), key);
}

Status TakeText(const std::string& key, const Json& value, std::string& out) {
  if (value.is_null()) {
    return {};
  }
  if (!value.is_string()) {
    return Refuse(key, "a string");
  }
  out = value.string();
  return {};
}

template <class Count>
Status TakeCount(const std::string& key, const Json& value, Count& out) {
  const std::optional<int64_t> count = value.AsInt();
  if (!value.is_number() || !count || *count < 1 || *count > std::numeric_limits<int>::max()) {
    return Refuse(key, "a whole number of at least 1");
  }
  out = static_cast<Count>(*count);
  return {};
}

Status TakeKey(const std::string& key, const Json& value, KvEventsConfig& config) {
  if (key == "enable_kv_cache_events") {
    if (!value.is_bool()) {
      return Refuse(key, "true or false");
    }
    config.enable_kv_cache_events = value.boolean();
    return {};
  }
  if (key == "publisher") {
    TRY(TakeText(key, value, config.publisher));
    return config.publisher == "zmq" || config.publisher == "null" ? Status()
                                                                   : Refuse(key, "zmq or null");
  }
  if (key == "endpoint") {
    return TakeText(key, value, config.endpoint);
  }
  if (key == "replay_endpoint") {
    return TakeText(key, value, config.replay_endpoint);
  }
  if (key == "topic") {
    return TakeText(key, value, config.topic);
  }
  if (key == "buffer_steps") {
    return TakeCount(key, value, config.buffer_steps);
  }
  if (key == "hwm") {
    return TakeCount(key, value, config.hwm);
  }
  if (key == "max_queue_size") {
    return TakeCount(key, value, config.max_queue_size);
  }
  return Fail(Code::kInvalidArgument, "--kv-events-config: unknown key " + key, key);
}

}  // namespace

Result<KvEventsConfig> ParseKvEventsConfig(std::string_view json) {
  auto document = ParseJson(json);
  if (!document) {
    return Fail(Within("--kv-events-config", document.error()));
  }
  if (!document->is_object()) {
    return Fail(Code::kInvalidArgument, "--kv-events-config must be a JSON object");
  }
  KvEventsConfig config;
  for (const auto& [key, value] : document->object()) {
    TRY(TakeKey(key, value, config));
  }
  return config;
}

Result<std::unique_ptr<KvEventPublisher>> KvEventPublisher::Start(const KvEventsConfig& config,
                                                                  bool allow_public,
                                                                  driver::KvEventSource& source) {
  TRY_ASSIGN(const net::ZmqEndpoint endpoint, net::ParseZmqEndpoint(config.endpoint));
  std::unique_ptr<KvEventPublisher> publisher(new KvEventPublisher());
  publisher->loop_.Start("kv-events");
  TRY_ASSIGN(
      publisher->publisher_,
      net::ZmqPublisher::Open(publisher->loop_, {.endpoint = endpoint,
                                                 .bind = endpoint.local() || endpoint.wildcard(),
                                                 .replay_endpoint = config.replay_endpoint,
                                                 .topic = config.topic,
                                                 .buffer_steps = config.buffer_steps,
                                                 .hwm = config.hwm,
                                                 .max_queue_size = config.max_queue_size,
                                                 .allow_public = allow_public}));
  source.Subscribe([self = publisher.get()](const wire::KvEventBatch& batch) {
    if (!self->publisher_->Publish(batch.sequence, kv::EncodeKvEvents(batch)) &&
        self->lost_.fetch_add(1) == 0) {
      Log(LogLevel::kWarning, "KV events come faster than they can be published: some are lost");
    }
  });
  return publisher;
}

Json KvEventPublisher::Describe(const KvEventsConfig& config, const KvEventPublisher& publisher) {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? Json() : Json(text);
  };
  Json::Object rank;
  rank.emplace_back("enable_kv_cache_events", true);
  rank.emplace_back("publisher", config.publisher);
  rank.emplace_back("endpoint", publisher.endpoint());
  rank.emplace_back("replay_endpoint", text_or_null(publisher.replay_endpoint()));
  rank.emplace_back("buffer_steps", static_cast<uint64_t>(config.buffer_steps));
  rank.emplace_back("hwm", config.hwm);
  rank.emplace_back("max_queue_size", static_cast<uint64_t>(config.max_queue_size));
  rank.emplace_back("topic", config.topic);
  return Json::Object{{"0", std::move(rank)}};
}

}  // namespace fak::gateway
