// The native engine publishes what its cache holds; our own subscriber, told where by what GET
// /kv_event_sources answers, ends up knowing exactly that.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/test_support.h"
#include "gateway/kv_event_publisher.h"
#include "kv/unit_keys.h"
#include "ride/kv_event_subscriber.h"

namespace fak {
namespace {

// What a consumer believes.
class Belief {
 public:
  void Apply(const wire::KvEventBatch& batch) {
    const std::lock_guard lock(mutex_);
    for (const wire::KvEvent& event : batch.events) {
      for (const uint64_t hash : event.block_hashes) {
        if (event.kind == wire::KvEvent::Kind::kStored) {
          blocks_.insert(hash);
        } else {
          blocks_.erase(hash);
        }
      }
      if (event.kind == wire::KvEvent::Kind::kCleared) {
        blocks_.clear();
      }
    }
    next_ = batch.sequence + 1;
    wake_.notify_all();
  }
  // Once `batches` have come.
  std::set<uint64_t> After(uint64_t batches) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(wake_.wait_for(lock, std::chrono::seconds(60), [&] { return next_ >= batches; }))
        << next_ << " of " << batches;
    return blocks_;
  }

 private:
  std::mutex mutex_;  // guards the members below
  std::condition_variable wake_;
  std::set<uint64_t> blocks_;
  uint64_t next_ = 0;
};

// Counts the batches on their way to the publisher.
class CountingSource final : public driver::KvEventSource {
 public:
  explicit CountingSource(driver::KvEventSource& source) : source_(source) {}
  void Subscribe(std::function<void(const wire::KvEventBatch&)> on_batch) override {
    source_.Subscribe([this, on_batch = std::move(on_batch)](const wire::KvEventBatch& batch) {
      ++batches;
      on_batch(batch);
    });
  }
  uint64_t batches = 0;

 private:
  driver::KvEventSource& source_;
};

TEST(KvEvents, WhatTheEnginePublishesIsWhatItsCacheHolds) {
  engine::TinyDriver driver(engine::TinyOptions(12));  // few blocks: prompts push each other out
  CountingSource source(*driver->maybe_kv_events());
  gateway::KvEventsConfig config;
  config.enable_kv_cache_events = true;
  config.endpoint = "tcp://127.0.0.1:*";
  config.replay_endpoint = "tcp://127.0.0.1:*";
  config.topic = "kv@tiny";
  const auto publisher = gateway::KvEventPublisher::Start(config, false, source);
  ASSERT_TRUE(publisher.has_value()) << publisher.error().detail;

  net::ZmqLoop loop;
  loop.Start("kv-test");
  const auto endpoints = ride::ParseKvEventSources(
      gateway::KvEventPublisher::Describe(config, **publisher), "127.0.0.1");
  ASSERT_TRUE(endpoints.has_value());
  Belief belief;
  const auto subscriber = ride::KvEventSubscriber::Make(loop, *endpoints, Clock::Real());
  ASSERT_TRUE(subscriber.has_value());
  (*subscriber)->Subscribe([&belief](const wire::KvEventBatch& batch) { belief.Apply(batch); });

  wire::SamplingParams greedy;
  greedy.temperature = 0.0f;
  greedy.max_tokens = 4;
  greedy.ignore_eos = true;
  std::vector<engine::Ask> asks;
  for (uint32_t i = 0; i < 20; ++i) {
    engine::Ask ask{.prompt = engine::Tokens(40 + i, i % 5), .sampling = greedy};
    ask.salt = i % 2 == 0 ? "" : "tenant";
    driver.Run(ask);
    asks.push_back(ask);
    const std::set<uint64_t> known = belief.After(source.batches);
    // Against the tree itself, prompt by prompt.
    for (const engine::Ask& earlier : asks) {
      const auto match = driver->tree().Find(earlier.salt, earlier.prompt,
                                             static_cast<uint32_t>(earlier.prompt.size()));
      for (const kv::BlockId block : match.blocks) {
        driver->pool().Release(block);
      }
      const std::vector<uint64_t> keys = kv::UnitKeys(earlier.salt, earlier.prompt);
      const auto missing = std::find_if(keys.begin(), keys.end(),
                                        [&](uint64_t key) { return !known.contains(key); });
      EXPECT_EQ(static_cast<size_t>(missing - keys.begin()), match.tokens / 16) << "request " << i;
    }
  }
  driver->Evict({.scope = driver::EvictScope::kAll, .tokens = {}, .cache_salt = {}},
                [](const std::vector<driver::EvictOutcome>&) {});
  driver->Step();
  EXPECT_TRUE(belief.After(source.batches).empty());
  const ride::KvEventFeedStats stats = (*subscriber)->Stats();
  EXPECT_EQ(stats.batches, source.batches);
  EXPECT_EQ(stats.cleared + stats.corrupt + stats.malformed + stats.skipped.malformed, 0u);
}

}  // namespace
}  // namespace fak
