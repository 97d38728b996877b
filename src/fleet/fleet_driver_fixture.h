#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "fleet/test_support.h"

// For tests of a FleetDriver: one over replicas that a test plays.
namespace fak::fleet {

using test::MakePrepared;
using test::RecordingSink;
using test::ScriptedReplica;

class FleetDriverTest : public ::testing::Test {
 protected:
  // Replicas "a", "b" ...
  void Make(size_t count, DispatchOptions dispatch = {}, std::vector<ReplicaOptions> options = {}) {
    std::vector<FleetMember> members;
    options.resize(count);
    for (size_t i = 0; i < count; ++i) {
      options[i].name = std::string(1, static_cast<char>('a' + i));
      auto replica = std::make_unique<ScriptedReplica>(options[i].name);
      replicas_.push_back(replica.get());
      members.push_back({options[i], std::move(replica)});
    }
    fleet_ = std::make_unique<FleetDriver>(
        std::move(members),
        FleetOptions{.policy = std::make_unique<test::InOrder>(), .dispatch = dispatch}, clock_,
        random_);
    fleet_->Tick();
  }
  // One that isn't in the fleet yet.
  static FleetMember Member(const std::string& name, ScriptedReplica** made = nullptr) {
    auto replica = std::make_unique<ScriptedReplica>(name);
    if (made != nullptr) {
      *made = replica.get();
    }
    return {{.name = name}, std::move(replica)};
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const ReplicaStatus& replica : fleet_->Describe().replicas) {
      names.push_back(replica.name + (replica.leaving ? " leaving" : ""));
    }
    return names;
  }
  ScriptedReplica& a() { return *replicas_[0]; }
  ScriptedReplica& b() { return *replicas_[1]; }

  std::shared_ptr<RecordingSink> Ask(const std::string& id = "r", const std::string& model = "m") {
    auto sink = std::make_shared<RecordingSink>();
    const Status admitted = fleet_->Admit(MakePrepared(id, model), sink);
    EXPECT_TRUE(admitted) << admitted.error().detail;
    return sink;
  }
  Error Refusal(const std::string& model = "m") {
    const auto sink = std::make_shared<RecordingSink>();
    const Status admitted = fleet_->Admit(MakePrepared("refused", model), sink);
    EXPECT_FALSE(admitted);
    EXPECT_EQ(sink->ends(), 0);
    return admitted ? Error{} : admitted.error();
  }
  ReplicaStatus StatusOf(size_t i) { return fleet_->Describe().replicas[i]; }
  void Fail(ScriptedReplica& replica, Code code, int upstream_status = 0, int retry_after_s = 0) {
    replica.End("", wire::Failed{{code, "it failed", "", upstream_status, retry_after_s}});
  }
  void TearDown() override {
    if (fleet_ == nullptr) {
      return;
    }
    fleet_->Stop();
    const FleetStatus status = fleet_->Describe();
    EXPECT_EQ(status.open_requests, 0);
    for (const ReplicaStatus& replica : status.replicas) {
      EXPECT_EQ(replica.in_flight, 0) << replica.name;
      EXPECT_EQ(replica.backlog_tokens, 0) << replica.name;
    }
  }

  FakeClock clock_;
  FakeRandom random_;
  std::vector<ScriptedReplica*> replicas_;
  std::unique_ptr<FleetDriver> fleet_;
};

}  // namespace fak::fleet
