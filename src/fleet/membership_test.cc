#include "fleet/membership.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"
#include "base/test_folder.h"
#include "fleet/discovery.h"
#include "fleet/fleet_driver_fixture.h"

namespace fak::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

driver::ReplicaSpec Spec(const std::string& name, const std::string& url = "http://u") {
  return {.name = name, .engine = "auto", .url = url};
}

class MembershipTest : public FleetDriverTest, public driver::DriverFactory {
 protected:
  // A fleet of a and b, from a file.
  void SetUp() override {
    Make(2);
    membership_ = std::make_unique<Membership>(
        *fleet_, *this,
        Membership::Options{.complete = [](driver::ReplicaSpec& spec) -> Status {
                              if (spec.url == "bad") {
                                return fak::Fail(Code::kInvalidArgument, "no URL", "url");
                              }
                              if (spec.url == "http://own") {
                                return fak::Fail(Code::kAlreadyExists, "it is us", "url");
                              }
                              return {};
                            },
                            .models_of =
                                [](const driver::ReplicaSpec& spec) {
                                  return spec.model.empty()
                                             ? std::vector<std::string>()
                                             : std::vector{spec.model, std::string("alias")};
                                }},
        "file", std::vector{Spec("a"), Spec("b")});
  }
  Result<std::unique_ptr<driver::EngineDriver>> Make(const driver::ReplicaSpec& spec) override {
    if (spec.url == "unmakable") {
      return fak::Fail(Code::kInvalidArgument, "it can't be made");
    }
    auto made = std::make_unique<ScriptedReplica>(spec.name);
    made_[spec.name] = made.get();
    ++makes_;
    return made;
  }
  using FleetDriverTest::Make;

  std::map<std::string, ScriptedReplica*> made_;
  int makes_ = 0;
  std::unique_ptr<Membership> membership_;
};

TEST_F(MembershipTest, AFleetIsNoReplicaOfItself) {
  const auto added = membership_->Add(Spec("c", "http://own"));
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().detail, "it is us");
  // Who finds the others finds us too.
  ASSERT_TRUE(internal::TakeFound(*membership_, "dns", {Spec("c", "http://own"), Spec("d")}));
  EXPECT_THAT(Names(), ElementsAre("a", "b", "d"));
  EXPECT_FALSE(internal::TakeFound(*membership_, "dns", {Spec("e"), Spec("f", "bad")}));
  EXPECT_THAT(Names(), ElementsAre("a", "b", "d"));
}

TEST_F(MembershipTest, DoesWhatChangedAndNothingElse) {
  const auto open = Ask("1");
  const auto changes =
      membership_->Set("file", {Spec("a"), Spec("b", "http://elsewhere"), Spec("c")});
  ASSERT_TRUE(changes);
  EXPECT_THAT(changes->added, ElementsAre("c"));
  EXPECT_THAT(changes->replaced, ElementsAre("b"));
  EXPECT_THAT(changes->removed, IsEmpty());
  fleet_->Tick();
  EXPECT_THAT(Names(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(StatusOf(0).attempts, 1u);  // what is known of it stayed
  a().Answer();
  EXPECT_EQ(open->text(), "a");
  const auto again =
      membership_->Set("file", {Spec("a"), Spec("b", "http://elsewhere"), Spec("c")});
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->empty());
  EXPECT_EQ(makes_, 2);
  ASSERT_TRUE(membership_->Set("file", {Spec("c")}));
  fleet_->Tick();
  EXPECT_THAT(Names(), ElementsAre("c"));
}

TEST_F(MembershipTest, AShareChangesInPlace) {
  driver::ReplicaSpec more = Spec("a");
  more.weight = 3;
  more.max_concurrency = 7;
  const auto changes = membership_->Set("file", {more, Spec("b")});
  ASSERT_TRUE(changes);
  EXPECT_TRUE(changes->empty());
  EXPECT_EQ(makes_, 0);
  EXPECT_EQ(StatusOf(0).weight, 3);
  EXPECT_EQ(StatusOf(0).max_concurrency, 7);
  const auto first = Ask("1");
  a().Answer();
}

TEST_F(MembershipTest, WhatCannotBeMadeChangesNothing) {
  const auto changes = membership_->Set("file", {Spec("a"), Spec("c"), Spec("d", "unmakable")});
  ASSERT_FALSE(changes);
  EXPECT_EQ(changes.error().detail, "it can't be made");
  fleet_->Tick();
  EXPECT_THAT(Names(), ElementsAre("a", "b"));
  std::vector<driver::ReplicaSpec> many;
  for (size_t i = 0; i <= limits::kUpstreamsMax; ++i) {
    many.push_back(Spec("m" + std::to_string(i)));
  }
  EXPECT_FALSE(membership_->Set("file", many));
  EXPECT_THAT(Names(), ElementsAre("a", "b"));
}

TEST_F(MembershipTest, AnOperatorsChangesOutlastTheFiles) {
  driver::ReplicaSpec with_model = Spec("x");
  with_model.model = "m";
  const auto added = membership_->Add(with_model);
  ASSERT_TRUE(added);
  EXPECT_EQ(*added, "x");
  ASSERT_TRUE(membership_->Remove("a"));
  fleet_->Tick();
  EXPECT_THAT(Names(), ElementsAre("b", "x"));
  EXPECT_THAT(StatusOf(1).models, ElementsAre("m", "alias"));
  ASSERT_TRUE(
      membership_->Set("file", {Spec("a"), Spec("b"), Spec("c"), Spec("x", "http://file")}));
  EXPECT_THAT(Names(), ElementsAre("b", "x", "c"));
  EXPECT_EQ(makes_, 2);
  // One that was removed comes back by hand, or once the source forgot it in between.
  ASSERT_TRUE(membership_->Add(Spec("a", "http://hand")));
  EXPECT_THAT(Names(), ElementsAre("b", "x", "c", "a"));
  ASSERT_TRUE(membership_->Remove("a"));
  ASSERT_TRUE(membership_->Set("file", {Spec("b")}));
  ASSERT_TRUE(membership_->Set("file", {Spec("a"), Spec("b")}));
  fleet_->Tick();
  EXPECT_THAT(Names(), ElementsAre("b", "x", "a"));
}

TEST_F(MembershipTest, SourcesAddUp) {
  ASSERT_TRUE(membership_->Set("dns", {Spec("d"), Spec("a", "http://dns")}));
  EXPECT_THAT(Names(), ElementsAre("a", "b", "d"));
  EXPECT_EQ(makes_, 1);  // the file's a stays
  ASSERT_TRUE(membership_->Set("file", {Spec("b")}));
  fleet_->Tick();
  EXPECT_THAT(Names(), ElementsAre("a", "b", "d"));
  EXPECT_EQ(makes_, 2);
  ASSERT_TRUE(membership_->Set("dns", {}));
  fleet_->Tick();
  EXPECT_THAT(Names(), ElementsAre("b"));
}

TEST_F(MembershipTest, TellsOfItsSources) {
  membership_->NoteFailure("file", {Code::kInvalidArgument, "file:1:2: no"});
  membership_->NoteFailure("dns", {Code::kUnavailable, "nobody answers"});
  EXPECT_THAT(Names(), ElementsAre("a", "b"));
  std::vector<Membership::SourceStatus> sources = membership_->Sources();
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_EQ(sources[0].name, "file");
  EXPECT_EQ(sources[0].replicas, 2u);
  EXPECT_EQ(sources[0].updates, 2u);
  EXPECT_EQ(sources[0].error, "file:1:2: no");
  EXPECT_EQ(sources[1].replicas, 0u);
  ASSERT_TRUE(membership_->Set("file", {Spec("a")}));
  sources = membership_->Sources();
  EXPECT_EQ(sources[0].replicas, 1u);
  EXPECT_EQ(sources[0].updates, 3u);
  EXPECT_EQ(sources[0].error, "");
}

TEST_F(MembershipTest, ASourceMayDoubtItsOwn) {
  membership_->Doubt("file", "a", "its lease is lost");
  membership_->Doubt("dns", "b", "another's");
  fleet_->Tick();
  EXPECT_EQ(StatusOf(0).state, ReplicaState::kSuspect);
  EXPECT_EQ(StatusOf(0).why, "its lease is lost");
  EXPECT_EQ(StatusOf(1).state, ReplicaState::kHealthy);
  const auto asked = Ask("1");
  EXPECT_EQ(asked->workers(), std::vector<std::string>{"b"});
  b().Answer();
  membership_->Doubt("file", "a", "");
  EXPECT_EQ(StatusOf(0).state, ReplicaState::kHealthy);
}

FleetState StateIn(const std::string& path) {
  return *OpenFleetState(path, [](driver::ReplicaSpec&) -> Status { return {}; });
}

TEST_F(MembershipTest, KeepsWhatShallLastAndNothingElse) {
  using enum Membership::Lasting;
  const TestFolder folder;
  const std::string path = folder.Path("state.toml");
  EXPECT_EQ(membership_->Remove("a", kPersist).error().field, "persist");
  EXPECT_THAT(Names(), ElementsAre("a", "b"));
  ASSERT_TRUE(membership_->KeepIn(path, StateIn(path)));
  ASSERT_TRUE(membership_->Add(Spec("c"), kPersist));
  ASSERT_TRUE(membership_->Add(Spec("d")));
  ASSERT_TRUE(membership_->Remove("a", kPersist));
  ASSERT_TRUE(membership_->SetDraining("b", true, kPersist));
  ASSERT_TRUE(membership_->SetDraining("c", true));
  FleetState kept = StateIn(path);
  ASSERT_EQ(kept.added.size(), 1u);
  EXPECT_EQ(kept.added.front().name, "c");
  EXPECT_THAT(kept.removed, ElementsAre("a"));
  EXPECT_THAT(kept.drained, ElementsAre("b"));
  EXPECT_EQ(membership_->Add(Spec("e", "unmakable"), kPersist).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(StateIn(path).added.size(), 1u);
  ASSERT_TRUE(membership_->SetDraining("b", false, kPersist));
  ASSERT_TRUE(membership_->Remove("c", kPersist));
  ASSERT_TRUE(membership_->Add(Spec("a", "http://hand"), kPersist));
  kept = StateIn(path);
  ASSERT_EQ(kept.added.size(), 1u);
  EXPECT_EQ(kept.added.front().url, "http://hand");
  EXPECT_THAT(kept.removed, IsEmpty());
  EXPECT_THAT(kept.drained, IsEmpty());
}

TEST_F(MembershipTest, DoesWhatWasKept) {
  const TestFolder folder;
  FleetState state;
  state.added = {Spec("c")};
  state.removed = {"a", "later"};
  state.drained = {"b", "found"};
  ASSERT_TRUE(membership_->KeepIn(folder.Path("state.toml"), std::move(state)));
  fleet_->Tick();
  EXPECT_THAT(Names(), ElementsAre("b", "c"));
  EXPECT_EQ(StatusOf(0).state, ReplicaState::kDraining);
  // Also to those that come later.
  ASSERT_TRUE(membership_->Set("dns", {Spec("later"), Spec("found")}));
  fleet_->Tick();
  EXPECT_THAT(Names(), ElementsAre("b", "c", "found"));
  EXPECT_EQ(StatusOf(2).state, ReplicaState::kDraining);
  ASSERT_TRUE(membership_->SetDraining("found", false));
  EXPECT_EQ(StatusOf(2).state, ReplicaState::kHealthy);
}

TEST_F(MembershipTest, ChangesNothingThatCannotBeKept) {
  const TestFolder folder;
  const std::string path = folder.Path("state.toml");
  ASSERT_TRUE(membership_->KeepIn(path, StateIn(path)));
  ASSERT_EQ(std::remove(path.c_str()), 0);
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);  // in its place
  EXPECT_EQ(membership_->Remove("a", Membership::Lasting::kPersist).error().code, Code::kIoError);
  EXPECT_EQ(membership_->Add(Spec("c"), Membership::Lasting::kPersist).error().code,
            Code::kIoError);
  EXPECT_THAT(Names(), ElementsAre("a", "b"));
  ASSERT_EQ(rmdir(path.c_str()), 0);
}

TEST_F(MembershipTest, ModelsAreKnownWhereAllHaveSaidThem) {
  EXPECT_THAT(membership_->ModelsWith("file", {Spec("a"), Spec("b")}).value(), ElementsAre("m"));
  driver::ReplicaSpec asked = Spec("c");
  asked.model = "n";
  EXPECT_THAT(membership_->ModelsWith("file", {Spec("a"), asked}).value(),
              ElementsAre("alias", "m", "n"));
  EXPECT_FALSE(membership_->ModelsWith("file", {Spec("a"), Spec("c")}));
  EXPECT_FALSE(membership_->ModelsWith("file", {Spec("a"), Spec("b", "http://elsewhere")}));
  EXPECT_FALSE(membership_->ModelsWith("file", {asked}));  // alone it is asked for anything
  EXPECT_FALSE(membership_->ModelsWith("file", {}));
}

TEST_F(MembershipTest, RefusesWhatCannotBe) {
  EXPECT_EQ(membership_->Add(Spec("a")).error().code, Code::kAlreadyExists);
  EXPECT_EQ(membership_->Add(Spec("c", "bad")).error().code, Code::kInvalidArgument);
  EXPECT_EQ(membership_->Remove("c").error().code, Code::kNotFound);
  EXPECT_THAT(membership_->Remove("zz").error().detail,
              ::testing::StartsWith("no upstream has the name zz; there are: "));
  EXPECT_THAT(Names(), ElementsAre("a", "b"));
}

}  // namespace
}  // namespace fak::fleet
