#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "fleet/fleet_driver.h"
#include "fleet/test_support.h"

// A fleet under threads: replicas that refuse, fail, break off, hang and vanish, clients that go.
namespace fak::fleet {
namespace {

using test::MakePrepared;
using test::RecordingSink;
using test::ScriptedReplica;

constexpr size_t kReplicas = 4;
constexpr size_t kClients = 3;
constexpr size_t kRequests = 400;  // a client

// A thread's own draws.
class Draws {
 public:
  explicit Draws(uint64_t seed) : random_(seed) {}
  bool OneIn(uint64_t n) { return random_.Next64() % n == 0; }
  size_t Below(size_t n) { return random_.Next64() % n; }

 private:
  FakeRandom random_;
};

// A replica's thread: what it does with its oldest request.
void Play(ScriptedReplica& replica, Draws& draws) {
  replica.TakeCancels();
  if (replica.open() == 0) {
    std::this_thread::yield();
    return;
  }
  switch (draws.Below(8)) {
    case 0: replica.Emit(wire::UpstreamHeaders{}); break;
    case 1: replica.Emit(wire::RawChunk{"role"}); break;
    case 2: replica.Emit(wire::TextDelta{0, "text", {}, {}}); break;
    case 3: replica.End("", wire::Failed{{Code::kUnavailable, "refused"}}); break;
    case 4: replica.End("", wire::Failed{{Code::kUpstreamError, "broke off"}}); break;
    case 5: replica.End("", wire::Failed{{Code::kUpstreamError, "bad request", "", 400}}); break;
    default: replica.Answer(); break;
  }
}

class FleetThreadsTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  FleetThreadsTest() {
    std::vector<FleetMember> members;
    for (size_t i = 0; i < kReplicas; ++i) {
      const std::string name(1, static_cast<char>('a' + i));
      auto replica = std::make_unique<ScriptedReplica>(name);
      replica->CancelLater();
      replica->OnAdmit([draws = std::make_shared<Draws>(GetParam() + i),
                        mutex = std::make_shared<std::mutex>()](const auto&) -> Status {
        const std::lock_guard lock(*mutex);
        if (draws->OneIn(10)) {
          return Fail(Code::kResourceExhausted, "full");
        }
        return {};
      });
      replicas_.push_back(replica.get());
      // Some seeds bound what is open, so that requests wait.
      const int32_t most = GetParam() % 2 == 0 ? 3 : 0;
      members.push_back({{.name = name, .max_concurrency = most}, std::move(replica)});
    }
    FleetOptions options{.policy = std::make_unique<test::InOrder>()};
    options.health = {.down_after_ms = 1, .up_after_ms = 1, .progress_ms = 1, .busy_ms = 1};
    options.health.breaker.open_ms = 1;
    options.dispatch.retries.least_per_s = 1e6;
    fleet_ = std::make_unique<FleetDriver>(std::move(members), std::move(options), Clock::Real(),
                                           random_);
  }

  void RunClient(size_t client) {
    Draws draws(GetParam() * 100 + client);
    for (size_t i = 0; i < kRequests; ++i) {
      const std::string id = std::to_string(client) + "." + std::to_string(i);
      auto sink = std::make_shared<RecordingSink>();
      const bool admitted = fleet_->Admit(MakePrepared(id), sink).has_value();
      if (admitted && draws.OneIn(8)) {
        fleet_->Cancel(id);
      }
      (admitted ? admitted_ : refused_)[client].push_back(std::move(sink));
      while (fleet_->Describe().open_requests > 50) {
        std::this_thread::yield();
      }
    }
  }
  void RunChaos() {
    Draws draws(GetParam() * 1000);
    uint64_t changes = 0;
    while (!calm_.load()) {
      if (draws.OneIn(20)) {  // one that refuses all, and so is soon gone
        const std::string name = "x" + std::to_string(++changes);
        auto guest = std::make_unique<ScriptedReplica>(name);
        guest->OnAdmit([](const auto&) -> Status { return Fail(Code::kUnavailable, "a guest"); });
        EXPECT_TRUE(fleet_->AddReplica({{.name = name}, std::move(guest)}));
        fleet_->Tick();
        EXPECT_TRUE(fleet_->RemoveReplica(name));
      }
      ScriptedReplica& replica = *replicas_[draws.Below(kReplicas)];
      replica.SetReady(!draws.OneIn(3));
      const std::string name(1, static_cast<char>('a' + draws.Below(kReplicas)));
      EXPECT_TRUE(draws.OneIn(4) ? fleet_->DrainReplica(name) : fleet_->UndrainReplica(name));
      fleet_->Tick();
      std::this_thread::yield();
    }
  }

  RandomSource& random_ = RandomSource::Real();
  std::vector<ScriptedReplica*> replicas_;
  std::unique_ptr<FleetDriver> fleet_;
  std::atomic<bool> calm_{false};
  std::vector<std::shared_ptr<RecordingSink>> admitted_[kClients];
  std::vector<std::shared_ptr<RecordingSink>> refused_[kClients];
};

TEST_P(FleetThreadsTest, EndsEveryRequestExactlyOnce) {
  std::atomic<bool> done{false};
  std::vector<std::thread> engines;
  for (size_t i = 0; i < kReplicas; ++i) {
    engines.emplace_back([&, i] {
      Draws draws(GetParam() * 10 + i);
      while (!done.load()) {
        Play(*replicas_[i], draws);
      }
    });
  }
  std::thread chaos([this] { RunChaos(); });
  std::vector<std::thread> clients;
  for (size_t i = 0; i < kClients; ++i) {
    clients.emplace_back([this, i] { RunClient(i); });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  while (fleet_->Describe().open_requests > 0) {
    std::this_thread::yield();
  }
  calm_.store(true);
  chaos.join();
  done.store(true);
  for (std::thread& engine : engines) {
    engine.join();
  }
  size_t moved = 0;
  for (size_t i = 0; i < kClients; ++i) {
    EXPECT_EQ(admitted_[i].size() + refused_[i].size(), kRequests);
    for (const auto& sink : admitted_[i]) {
      EXPECT_EQ(sink->ends(), 1);
      EXPECT_EQ(sink->after_end(), 0);
      moved += sink->workers().size() > 1 ? 1 : 0;
    }
    for (const auto& sink : refused_[i]) {
      EXPECT_EQ(sink->ends(), 0);
    }
  }
  EXPECT_GT(moved, 0u);
  for (ScriptedReplica* replica : replicas_) {
    replica->Stop();  // requests that were cancelled, and hold who refused them before
  }
  fleet_->Tick();
  EXPECT_EQ(fleet_->Describe().replicas.size(), kReplicas);
  fleet_->Stop();
  for (const ReplicaStatus& replica : fleet_->Describe().replicas) {
    EXPECT_EQ(replica.in_flight, 0);
    EXPECT_EQ(replica.backlog_tokens, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, FleetThreadsTest, ::testing::Range<uint64_t>(1, 9));

}  // namespace
}  // namespace fak::fleet
