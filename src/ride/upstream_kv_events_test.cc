#include "ride/upstream_kv_events.h"

#include <gmock/gmock.h>

#include "kv/event_codec.h"
#include "net/zmq_publisher.h"
#include "ride/test_support.h"

namespace fak::ride {
namespace {

using test::Eventually;
using test::Upstream;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(KvEventEndpoint, IsReadAsItIsTyped) {
  const auto all = ParseKvEventEndpoint("tcp://h:5557,replay=tcp://h:5558,topic=kv@a,rank=3");
  ASSERT_TRUE(all) << all.error().detail;
  EXPECT_EQ(all->endpoint, "tcp://h:5557");
  EXPECT_EQ(all->replay_endpoint, "tcp://h:5558");
  EXPECT_EQ(all->topic, "kv@a");
  EXPECT_EQ(all->rank, 3);
  EXPECT_EQ(ParseKvEventEndpoint("tcp://[::1]:1")->replay_endpoint, "");
  for (const char* wrong :
       {"", "h:5557", "http://h:1", "tcp://h", "tcp://*:5557", "tcp://h:*", "tcp://0.0.0.0:1",
        "tcp://h:1,replay=tcp://*:2", "tcp://h:1,replay=x", "tcp://h:1,rank=-1", "tcp://h:1,rank=x",
        "tcp://h:1,rank", "tcp://h:1,hwm=3", "tcp://h:1,"}) {
    const auto parsed = ParseKvEventEndpoint(wrong);
    ASSERT_FALSE(parsed) << wrong;
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument) << wrong;
  }
}

// An engine's publisher, and a driver that is told where it is.
class UpstreamKvEventsTest : public ::testing::Test {
 protected:
  UpstreamKvEventsTest() {
    loop_.Start("kv-test");
    loop_.Invoke([this] {
      const std::string any = "tcp://127.0.0.1:*";
      publisher_ = *net::ZmqPublisher::Open(
          loop_, {.endpoint = *net::ParseZmqEndpoint(any), .replay_endpoint = any, .topic = ""});
    });
  }
  ~UpstreamKvEventsTest() override {
    loop_.Invoke([this] { publisher_.reset(); });
  }

  std::string Where() const {
    return publisher_->endpoint() + ",replay=" + publisher_->replay_endpoint();
  }
  void Publish(uint64_t number, wire::KvEvent event) {
    wire::KvEventBatch batch;
    batch.time_s = time_s_ += 1;
    batch.events.push_back(std::move(event));
    ASSERT_TRUE(publisher_->Publish(number, kv::EncodeKvEvents(batch)));
  }
  Result<std::unique_ptr<UpstreamDriver>> Make(const std::string& engine,
                                               std::vector<std::string> sources) {
    Json::Array list;
    for (std::string& source : sources) {
      list.emplace_back(std::move(source));
    }
    driver::ReplicaSpec spec{.name = "u", .engine = engine, .url = upstream_.url()};
    spec.options = Json::Object{};
    spec.options.Set("kv_events", std::move(list));
    return UpstreamDriver::Make(spec, {.probe_every_ms = 20, .maybe_metrics = &metrics_});
  }
  bool Shows(const std::string& row, const std::string& value) {
    const std::string line = row +
                             "{engine=\"vllm\",model=\"\",role=\"aggregated\",source=\"gateway\","
                             "worker=\"u\"} " +
                             value + "\n";
    return Eventually([&] {
      return metrics_.Exposition().find("fak_serving_kv_event_" + line) != std::string::npos;
    });
  }

  net::ZmqLoop loop_;
  std::unique_ptr<net::ZmqPublisher> publisher_;
  double time_s_ = 1000;
  Upstream upstream_;
  metrics::Registry metrics_;
};

TEST_F(UpstreamKvEventsTest, ADriverIsASourceOfWhatItsEnginePublishes) {
  using Kind = wire::KvEvent::Kind;
  const auto stored = [](uint64_t hash) {
    return wire::KvEvent{.block_hashes = {hash, hash + 1}, .tokens = {1, 2}, .block_size = 1};
  };
  Publish(0, stored(7));
  Publish(1, {.kind = Kind::kRemoved, .block_hashes = {8}});
  const auto driver = *Make("vllm", {Where()});
  std::mutex mutex;
  std::condition_variable came;
  std::vector<wire::KvEventBatch> got;
  ASSERT_NE(driver->maybe_kv_events(), nullptr);
  driver->maybe_kv_events()->Subscribe([&](const wire::KvEventBatch& batch) {
    const std::lock_guard lock(mutex);
    got.push_back(batch);
    came.notify_all();
  });
  const auto came_in = [&](std::chrono::milliseconds time, size_t count) {
    std::unique_lock lock(mutex);
    return came.wait_for(lock, time, [&] { return got.size() >= count; });
  };
  const auto batch = [&](size_t at) {
    const std::lock_guard lock(mutex);
    return got.at(at);
  };
  ASSERT_TRUE(driver->Start());
  ASSERT_TRUE(came_in(std::chrono::seconds(10), 2));  // by replay
  EXPECT_EQ(batch(0).events.front().block_hashes, (std::vector<uint64_t>{7, 8}));
  EXPECT_EQ(batch(1).events.front().kind, Kind::kRemoved);
  EXPECT_TRUE(Shows("batches_total", "2"));
  EXPECT_TRUE(Shows("blocks_stored_total", "2"));
  EXPECT_TRUE(Shows("blocks_removed_total", "1"));
  EXPECT_TRUE(Shows("gaps_total", "0"));
  EXPECT_TRUE(Shows("replays_failed_total", "0"));
  // Numbers that nobody has any more.
  uint64_t number = 10;
  ASSERT_TRUE(Eventually([&] {
    Publish(number, stored(20));
    ++number;
    return came_in(std::chrono::milliseconds(5), 4);
  }));
  EXPECT_EQ(batch(2).events.front().kind, Kind::kCleared);
  EXPECT_EQ(batch(2).generation, 1u);
  EXPECT_TRUE(Shows("gaps_total", "1"));
  EXPECT_TRUE(Shows("resets_total", "1"));
  driver->Stop();
}

TEST_F(UpstreamKvEventsTest, WhereNobodySaidThereAreNoneAndNoRows) {
  const auto driver = *UpstreamDriver::Make({.name = "u", .engine = "vllm", .url = upstream_.url()},
                                            {.maybe_metrics = &metrics_});
  EXPECT_EQ(driver->maybe_kv_events(), nullptr);
  ASSERT_TRUE(driver->Start());
  ASSERT_TRUE(driver->WaitForProbe(10'000));
  EXPECT_THAT(metrics_.Exposition(), Not(HasSubstr("kv_event")));
}

TEST_F(UpstreamKvEventsTest, RefusesSourcesThatCannotBe) {
  for (const char* engine : {"llamacpp", "mlx", "llmd", "openai", "anthropic"}) {
    const auto made = Make(engine, {Where()});
    ASSERT_FALSE(made) << engine;
    EXPECT_THAT(made.error().detail, HasSubstr("no KV events"));
  }
  EXPECT_THAT(Make("vllm", {Where(), Where()}).error().detail, HasSubstr("rank 0 already"));
  EXPECT_TRUE(Make("sglang", {Where(), Where() + ",rank=1"}));
  EXPECT_FALSE(Make("vllm", {"tcp://*:1"}));
}

}  // namespace
}  // namespace fak::ride
