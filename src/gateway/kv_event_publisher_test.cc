#include "gateway/kv_event_publisher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace fak::gateway {
namespace {

using ::testing::HasSubstr;

class ScriptedSource final : public driver::KvEventSource {
 public:
  void Subscribe(std::function<void(const wire::KvEventBatch&)> on_batch) override {
    on_batch_ = std::move(on_batch);
  }
  std::function<void(const wire::KvEventBatch&)> on_batch_;
};

TEST(KvEventsConfig, TakesVllmsKeysAndDefaults) {
  const auto empty = ParseKvEventsConfig("{}");
  ASSERT_TRUE(empty.has_value());
  EXPECT_FALSE(empty->enabled());
  EXPECT_EQ(empty->endpoint, "tcp://127.0.0.1:5557");
  EXPECT_EQ(empty->buffer_steps, 10'000u);
  const auto config = ParseKvEventsConfig(
      R"({"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:5557",
          "replay_endpoint":"tcp://*:5558","topic":"kv","buffer_steps":5,"hwm":6,"max_queue_size":7})");
  ASSERT_TRUE(config.has_value());
  EXPECT_TRUE(config->enabled());
  EXPECT_EQ(config->endpoint, "tcp://*:5557");
  EXPECT_EQ(config->replay_endpoint, "tcp://*:5558");
  EXPECT_EQ(config->topic, "kv");
  EXPECT_EQ(config->buffer_steps, 5u);
  EXPECT_EQ(config->hwm, 6);
  EXPECT_EQ(config->max_queue_size, 7u);
  EXPECT_FALSE(
      ParseKvEventsConfig(R"({"enable_kv_cache_events":true,"publisher":"null"})")->enabled());
  EXPECT_EQ(ParseKvEventsConfig(R"({"replay_endpoint":null})")->replay_endpoint, "");
}

TEST(KvEventsConfig, NamesTheKeyAtFault) {
  for (const auto& [json, key] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"({"enable_kv_cache_events":1})", "enable_kv_cache_events"},
           {R"({"publisher":"kafka"})", "publisher"},
           {R"({"endpoint":5})", "endpoint"},
           {R"({"topic":[]})", "topic"},
           {R"({"buffer_steps":0})", "buffer_steps"},
           {R"({"hwm":-1})", "hwm"},
           {R"({"hwm":99999999999})", "hwm"},
           {R"({"max_queue_size":"1"})", "max_queue_size"},
           {R"({"max_queue_size":1.5})", "max_queue_size"},
           {R"({"replay":"tcp://*:1"})", "replay"},
           {"[1]", "JSON object"},
           {"{", "--kv-events-config"}}) {
    const auto config = ParseKvEventsConfig(json);
    ASSERT_FALSE(config.has_value()) << json;
    EXPECT_EQ(config.error().code, Code::kInvalidArgument) << json;
    EXPECT_THAT(config.error().detail, HasSubstr(key)) << json;
  }
}

TEST(KvEventPublisher, IsReachedFromThisMachineOnlyUnlessToldOtherwise) {
  ScriptedSource source;
  KvEventsConfig config;
  config.enable_kv_cache_events = true;
  config.endpoint = "tcp://*:*";
  const auto refused = KvEventPublisher::Start(config, false, source);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kPermissionDenied);
  EXPECT_FALSE(source.on_batch_) << "subscribed to nothing";
  EXPECT_TRUE(KvEventPublisher::Start(config, true, source).has_value());

  config.endpoint = "tcp://10.1.2.3:5557";  // a collector elsewhere
  EXPECT_EQ(KvEventPublisher::Start(config, false, source).error().code, Code::kPermissionDenied);
}

TEST(KvEventPublisher, SaysWhereItIs) {
  ScriptedSource source;
  KvEventsConfig config;
  config.enable_kv_cache_events = true;
  config.endpoint = "tcp://127.0.0.1:*";
  config.topic = "kv";
  const auto publisher = KvEventPublisher::Start(config, false, source);
  ASSERT_TRUE(publisher.has_value()) << publisher.error().detail;
  const Json sources = KvEventPublisher::Describe(config, **publisher);
  const Json* const rank = sources.Find("0");
  ASSERT_NE(rank, nullptr);
  EXPECT_EQ(rank->Find("endpoint")->string(), (*publisher)->endpoint());
  EXPECT_THAT((*publisher)->endpoint(), HasSubstr("tcp://127.0.0.1:"));
  EXPECT_TRUE(rank->Find("replay_endpoint")->is_null());
  EXPECT_EQ(rank->Find("topic")->string(), "kv");
  ASSERT_TRUE(source.on_batch_);
  source.on_batch_({});
  EXPECT_EQ((*publisher)->lost(), 0u);
}

}  // namespace
}  // namespace fak::gateway
