#include "ride/kv_event_subscriber.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "base/log.h"
#include "kv/event_codec.h"
#include "net/zmq_publisher.h"

namespace fak::ride {
namespace {

using ::testing::HasSubstr;
using wire::KvEventBatch;

// A publisher and a subscriber of this process, over TCP.
class KvEventSubscriberTest : public ::testing::Test {
 protected:
  KvEventSubscriberTest() { loop_.Start("kv-test"); }

  // An address that was in use a moment ago comes free by and by.
  std::unique_ptr<net::ZmqPublisher> Publisher(const std::string& endpoint = "tcp://127.0.0.1:*",
                                               const std::string& replay = "tcp://127.0.0.1:*") {
    for (int i = 0; i < 1'000'000; ++i) {
      auto publisher =
          net::ZmqPublisher::Open(loop_, {.endpoint = net::ParseZmqEndpoint(endpoint).value(),
                                          .replay_endpoint = replay,
                                          .topic = "kv"});
      if (publisher) {
        return *std::move(publisher);
      }
    }
    ADD_FAILURE() << "no publisher on " << endpoint;
    return nullptr;
  }
  void Publish(net::ZmqPublisher& publisher, uint64_t number, int32_t rank = 0) {
    KvEventBatch batch;
    batch.rank = rank;
    batch.time_s = time_s_ += 1;
    batch.events.push_back({.block_hashes = {number}, .tokens = {1}, .block_size = 1});
    EXPECT_TRUE(publisher.Publish(number, kv::EncodeKvEvents(batch)));
  }
  std::unique_ptr<KvEventSubscriber> Subscribe(std::vector<KvEventEndpoint> endpoints) {
    auto subscriber = KvEventSubscriber::Make(loop_, std::move(endpoints), Clock::Real(), waits_);
    EXPECT_TRUE(subscriber.has_value());
    (*subscriber)->Subscribe([this](const KvEventBatch& batch) {
      const std::lock_guard lock(mutex_);
      got_.push_back(batch);
      wake_.notify_all();
    });
    return *std::move(subscriber);
  }
  bool CameSoon(size_t count) {
    std::unique_lock lock(mutex_);
    return wake_.wait_for(lock, std::chrono::milliseconds(100),
                          [this, count] { return got_.size() >= count; });
  }
  std::vector<KvEventBatch> WaitFor(size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(wake_.wait_for(lock, std::chrono::seconds(60),
                               [this, count] { return got_.size() >= count; }))
        << got_.size() << " of " << count;
    return got_;
  }

  net::ZmqLoop loop_;
  double time_s_ = 1000;
  KvEventWaits waits_;
  std::mutex mutex_;  // guards the member below
  std::vector<KvEventBatch> got_;
  std::condition_variable wake_;
};

// Whatever the subscription misses while it is made comes by replay.
TEST_F(KvEventSubscriberTest, ReadsWhatWasPublishedBeforeAndAfter) {
  const auto publisher = Publisher();
  for (uint64_t i = 0; i < 10; ++i) {
    Publish(*publisher, i);
  }
  const auto subscriber = Subscribe({{.endpoint = publisher->endpoint(),
                                      .replay_endpoint = publisher->replay_endpoint(),
                                      .topic = "kv"}});
  WaitFor(10);
  // What is published before the subscription has arrived is lost, and found again by the gap.
  for (uint64_t i = 10; i < 60; ++i) {
    Publish(*publisher, i);
    CameSoon(i + 1);
  }
  const std::vector<KvEventBatch> got = WaitFor(60);
  for (uint64_t i = 0; i < 60; ++i) {
    EXPECT_EQ(got[i].sequence, i);
    EXPECT_EQ(got[i].generation, 0u);
    EXPECT_EQ(got[i].events.front().block_hashes.front(), i);
  }
  EXPECT_EQ(subscriber->Stats().cleared, 0u);
}

TEST_F(KvEventSubscriberTest, APublisherThatComesBackIsAnotherGeneration) {
  auto publisher = Publisher();
  const std::string endpoint = publisher->endpoint();
  const std::string replay = publisher->replay_endpoint();
  Publish(*publisher, 0);
  Publish(*publisher, 1);
  const auto subscriber = Subscribe({{.endpoint = endpoint, .replay_endpoint = replay}});
  WaitFor(2);
  publisher.reset();
  EXPECT_EQ(WaitFor(3)[2].events.front().kind, wire::KvEvent::Kind::kCleared);
  publisher = Publisher(endpoint, replay);
  for (uint64_t i = 0; i < 5; ++i) {  // more than before: numbers alone would show nothing
    Publish(*publisher, i);
  }
  const std::vector<KvEventBatch> got = WaitFor(8);
  for (uint64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(got[3 + i].sequence, i);
    EXPECT_EQ(got[3 + i].generation, 1u);
  }
}

TEST_F(KvEventSubscriberTest, RanksHaveNumbersAndGenerationsOfTheirOwn) {
  const auto first = Publisher();
  auto second = Publisher();
  for (uint64_t i = 0; i < 3; ++i) {
    Publish(*first, i, 0);
    Publish(*second, i, 1);
  }
  const auto subscriber = Subscribe(
      {{.rank = 0, .endpoint = first->endpoint(), .replay_endpoint = first->replay_endpoint()},
       {.rank = 1, .endpoint = second->endpoint(), .replay_endpoint = second->replay_endpoint()}});
  WaitFor(6);
  second.reset();
  const std::vector<KvEventBatch> got = WaitFor(7);
  EXPECT_EQ(got[6].rank, 1);
  EXPECT_EQ(got[6].generation, 1u);
  EXPECT_EQ(std::count_if(got.begin(), got.end(), [](const auto& b) { return b.rank == 0; }), 3);
}

TEST_F(KvEventSubscriberTest, AReplayThatNobodyAnswersIsGivenUp) {
  const auto publisher = Publisher();
  const auto silent = net::ZmqPublisher::Open(
      loop_, {.endpoint = net::ParseZmqEndpoint("tcp://127.0.0.1:*").value()});
  ASSERT_TRUE(silent.has_value());
  waits_.replay_ms = 100;
  // A publisher speaks no replay: the request gets no answer.
  const auto subscriber =
      Subscribe({{.endpoint = publisher->endpoint(), .replay_endpoint = (*silent)->endpoint()}});
  uint64_t number = 0;
  net::Timer again(loop_.timers(), [&] {
    Publish(*publisher, number++);
    again.ArmMs(20);
  });
  loop_.Invoke([&] { again.ArmMs(0); });
  WaitFor(1);
  loop_.Invoke([&] { again.Disarm(); });
  EXPECT_EQ(subscriber->Stats().replays_failed, 1u);
}

TEST_F(KvEventSubscriberTest, SaysOnceThatNobodyPublishesThere) {
  const auto there = Publisher();
  const std::string nobody = "tcp://127.0.0.1:1";
  Publish(*there, 0);
  const std::string file =
      ::testing::TempDir() + "/kv_event_subscriber_test." + std::to_string(::getpid());
  std::remove(file.c_str());
  ASSERT_TRUE(StartLog({.file = file}));
  waits_.connect_ms = 1000;
  const auto connected =
      Subscribe({{.endpoint = there->endpoint(), .replay_endpoint = there->replay_endpoint()}});
  WaitFor(1);
  // Later than the other: what that would have said has been said when this one is heard.
  const auto waiting = Subscribe({{.endpoint = nobody}});
  std::string said;
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (said.empty() && std::chrono::steady_clock::now() < give_up) {
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    said = text.str();
    CameSoon(2);  // never
  }
  StopLog();
  std::remove(file.c_str());
  EXPECT_THAT(said, HasSubstr("warning KV events of " + nobody + ": no connection in 1000 ms"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
}

TEST(KvEventSources, TakesPortsAndNeverHosts) {
  const auto answer = ParseJson(R"({
      "0":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:18010",
           "replay_endpoint":"tcp://127.0.0.1:18011","buffer_steps":10000,"topic":"kv"},
      "1":{"publisher":"zmq","endpoint":"tcp://10.9.8.7:18012","replay_endpoint":null},
      "2":{"publisher":"null","endpoint":"tcp://*:18013"},
      "3":{"endpoint":"inproc://x"}, "4":7, "x":{"endpoint":"tcp://*:18014"}})");
  const auto sources = ParseKvEventSources(*answer, "engine.local");
  ASSERT_TRUE(sources.has_value());
  ASSERT_EQ(sources->size(), 2u);
  EXPECT_EQ((*sources)[0].endpoint, "tcp://engine.local:18010");
  EXPECT_EQ((*sources)[0].replay_endpoint, "tcp://engine.local:18011");
  EXPECT_EQ((*sources)[0].topic, "kv");
  EXPECT_EQ((*sources)[1].rank, 1);
  EXPECT_EQ((*sources)[1].endpoint, "tcp://engine.local:18012");
  EXPECT_EQ((*sources)[1].replay_endpoint, "");
  for (const char* text : {"null", "[]", "{}", R"({"0":{}})", R"({"0":{"endpoint":5}})"}) {
    EXPECT_FALSE(ParseKvEventSources(*ParseJson(text), "h").has_value()) << text;
  }
}

TEST(KvEventSources, TooManyRanksAreRefused) {
  net::ZmqLoop loop;
  std::vector<KvEventEndpoint> endpoints(65, {.endpoint = "tcp://127.0.0.1:1"});
  EXPECT_FALSE(KvEventSubscriber::Make(loop, endpoints, Clock::Real()).has_value());
  EXPECT_FALSE(KvEventSubscriber::Make(loop, {{.endpoint = "nowhere"}}, Clock::Real()).has_value());
}

}  // namespace
}  // namespace fak::ride
