#include <gmock/gmock.h>

#include "fleet/test_support.h"
#include "gateway/test_support.h"

namespace fak::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FleetRoutes : public GatewayTest, public driver::DriverFactory {
 protected:
  // A fleet of "a" and "b", beside the scripted driver that answers.
  void StartFleet(GatewayOptions options = {}) {
    std::vector<fleet::FleetMember> members;
    for (const char* name : {"a", "b"}) {
      fleet::FleetMember& member = members.emplace_back();
      member.options.name = name;
      member.driver = std::make_unique<fleet::test::ScriptedReplica>(name);
    }
    fleet_ = std::make_unique<fleet::FleetDriver>(
        std::move(members), fleet::FleetOptions{.policy = std::make_unique<fleet::test::InOrder>()},
        clock_, random_);
    membership_ = std::make_unique<fleet::Membership>(
        *fleet_, *this,
        fleet::Membership::Options{.complete =
                                       [](driver::ReplicaSpec& spec) {
                                         spec.name = spec.name.empty() ? "unnamed" : spec.name;
                                         return Status();
                                       }},
        "file", std::vector<driver::ReplicaSpec>{{.name = "a"}, {.name = "b"}});
    options.maybe_fleet = fleet_.get();
    options.maybe_membership = membership_.get();
    Start(std::move(options));
  }
  Result<std::unique_ptr<driver::EngineDriver>> Make(const driver::ReplicaSpec& spec) override {
    made_.push_back(spec);
    return std::make_unique<fleet::test::ScriptedReplica>(spec.name);
  }
  std::vector<std::string> Names(const net::HttpResponse& response) {
    std::vector<std::string> names;
    const Json document = Document(response);
    for (const Json& replica : document.Find("replicas")->array()) {
      names.push_back(replica.Find("name")->string() +
                      (replica.Find("leaving") == nullptr ? "" : " leaving"));
    }
    return names;
  }
  Json Document(const net::HttpResponse& response) { return *ParseJson(response.body); }

  std::unique_ptr<fleet::FleetDriver> fleet_;
  std::unique_ptr<fleet::Membership> membership_;
  std::vector<driver::ReplicaSpec> made_;
};

TEST_F(FleetRoutes, ShowTheReplicas) {
  StartFleet();
  const Json fleet = Document(Ask("GET", "/v1/fak/fleet"));
  EXPECT_EQ(fleet.Find("policy")->string(), "in_order");
  EXPECT_FALSE(fleet.Find("panic")->boolean());
  const Json::Array& replicas = fleet.Find("replicas")->array();
  ASSERT_EQ(replicas.size(), 2u);
  EXPECT_EQ(replicas[0].Find("name")->string(), "a");
  EXPECT_EQ(replicas[0].Find("state")->string(), "healthy");
  EXPECT_EQ(replicas[0].Find("breaker")->string(), "closed");
  EXPECT_EQ(replicas[0].Find("kv_usage"), nullptr);
  membership_->NoteFailure("file", {Code::kInvalidArgument, "f:1:2: no"});
  const Json sources = Document(Ask("GET", "/v1/fak/fleet"));
  EXPECT_EQ(sources.Find("sources")->Dump(),
            R"([{"name":"file","replicas":2,"updates":2,"error":"f:1:2: no"}])");
}

TEST_F(FleetRoutes, DrainAReplicaAndTakeItBack) {
  StartFleet();
  const auto state = [](const Json& fleet, size_t i) {
    return fleet.Find("replicas")->array()[i].Find("state")->string();
  };
  const Json drained = Document(Ask("POST", "/v1/fak/fleet/drain", R"({"name":"b"})"));
  EXPECT_EQ(state(drained, 0), "healthy");
  EXPECT_EQ(state(drained, 1), "draining");
  const Json back = Document(Ask("POST", "/v1/fak/fleet/undrain", R"({"name":"b"})"));
  EXPECT_EQ(state(back, 1), "healthy");
  EXPECT_EQ(Ask("POST", "/v1/fak/fleet/drain", R"({"name":"c"})").status, 404);
  for (const char* wrong : {"", "[]", "{}", R"({"name":1})", R"({"nam":"a"})"}) {
    EXPECT_EQ(Ask("POST", "/v1/fak/fleet/drain", wrong).status, 400) << wrong;
  }
}

TEST_F(FleetRoutes, AddAReplicaAndTakeItOut) {
  StartFleet();
  EXPECT_THAT(Names(Ask("POST", "/v1/fak/fleet/add",
                        R"({"name":"c","url":"http://c","weight":2,"api_key":"k"})")),
              ElementsAre("a", "b", "c"));
  ASSERT_EQ(made_.size(), 1u);
  EXPECT_EQ(made_.front().url, "http://c");
  EXPECT_EQ(made_.front().weight, 2);
  EXPECT_EQ(made_.front().api_key, "k");
  EXPECT_EQ(Ask("POST", "/v1/fak/fleet/add", R"({"name":"c","url":"http://d"})").status, 409);
  EXPECT_THAT(Names(Ask("POST", "/v1/fak/fleet/remove", R"({"name":"a"})")),
              ElementsAre("b", "c", "a leaving"));
  EXPECT_EQ(Ask("POST", "/v1/fak/fleet/remove", R"({"name":"a"})").status, 404);
  for (const char* wrong : {"", "[]", "{}", R"({"url":1})", R"({"url":"http://a","ulr":1})"}) {
    EXPECT_EQ(Ask("POST", "/v1/fak/fleet/add", wrong).status, 400) << wrong;
  }
}

TEST_F(FleetRoutes, WhatShallLastNeedsAFile) {
  StartFleet();
  const std::pair<const char*, const char*> kCalls[] = {
      {"add", R"({"name":"c","url":"http://c","persist":true})"},
      {"remove", R"({"name":"a","persist":true})"},
      {"drain", R"({"name":"a","persist":true})"},
      {"undrain", R"({"name":"a","persist":true})"},
  };
  for (const auto& [call, body] : kCalls) {
    const auto refused = Ask("POST", std::string("/v1/fak/fleet/") + call, body);
    EXPECT_EQ(refused.status, 400) << call;
    EXPECT_THAT(refused.body, HasSubstr("--fleet-state-file")) << call;
  }
  EXPECT_THAT(Names(Ask("GET", "/v1/fak/fleet")), ElementsAre("a", "b"));
  const std::string path = FreshFile("fleet_state.toml");
  ASSERT_TRUE(membership_->KeepIn(path, {}));
  for (const auto& [call, body] : kCalls) {
    if (std::string_view(call) != "undrain") {
      EXPECT_EQ(Ask("POST", std::string("/v1/fak/fleet/") + call, body).status,
                std::string_view(call) == "drain" ? 404 : 200)
          << call;  // a is gone by then
    }
  }
  const std::string kept = *ReadFile(path, 1 << 20);
  EXPECT_THAT(kept, HasSubstr("removed = [\"a\"]"));
  EXPECT_THAT(kept, HasSubstr("url = \"http://c\""));
  for (const char* wrong : {R"({"name":"b","persist":1})", R"({"name":"b","persists":true})"}) {
    EXPECT_EQ(Ask("POST", "/v1/fak/fleet/remove", wrong).status, 400) << wrong;
  }
}

TEST_F(FleetRoutes, ExplainWhereARequestWouldGo) {
  StartFleet();
  ASSERT_TRUE(fleet_->DrainReplica("a"));
  const Json said = Document(Ask("POST", "/v1/fak/fleet/explain",
                                 R"({"model":"m","prompt":"Once upon a time there was"})"));
  EXPECT_EQ(said.Find("policy")->string(), "in_order");
  EXPECT_EQ(said.Find("chosen")->string(), "b");
  EXPECT_EQ(said.Find("prompt_tokens")->AsInt(), 6);
  EXPECT_EQ(said.Find("replicas")->Dump(),
            R"([{"name":"a","state":"draining","why_not":"draining","cached_tokens":0,)"
            R"("backlog_tokens":0,"in_flight":0,"weight":1},)"
            R"({"name":"b","state":"healthy","cost":0,"cached_tokens":0,)"
            R"("backlog_tokens":0,"in_flight":0,"weight":1}])");
  EXPECT_EQ(Ask("POST", "/v1/fak/fleet/explain", "{}").status, 400);
  EXPECT_EQ(fleet_->Describe().open_requests, 0);
}

TEST_F(FleetRoutes, ANameThatMeansAnotherModelIsListedAndTold) {
  StartFleet();
  const auto file = ConfigTable::Parse(
      "[[model]]\nname = \"gpt\"\nto = [{ model = \"m\" }]\nfallback = [\"n\"]\n", "f.toml");
  fleet_->SetModelTable(*fleet::ModelTable::Read(*file, std::nullopt));
  EXPECT_THAT(Ask("GET", "/v1/models").body, HasSubstr("\"id\":\"gpt\""));
  EXPECT_EQ(Ask("GET", "/v1/models/gpt").status, 200);
  EXPECT_EQ(Document(Ask("GET", "/v1/fak/fleet")).Find("models")->Dump(),
            R"([{"name":"gpt","to":[{"model":"m","weight":1}],"fallback":["n"],"requests":{},)"
            R"("fallbacks":0}])");
  const Json said =
      Document(Ask("POST", "/v1/fak/fleet/explain", R"({"model":"gpt","prompt":"Once"})"));
  EXPECT_EQ(said.Find("model")->string(), "m");
  EXPECT_EQ(said.Find("chosen")->string(), "a");
}

TEST_F(FleetRoutes, AreNotThereWithoutAFleet) {
  Start();
  EXPECT_EQ(Ask("GET", "/v1/fak/fleet").status, 404);
  EXPECT_EQ(Ask("POST", "/v1/fak/fleet/drain", R"({"name":"a"})").status, 404);
  EXPECT_EQ(Ask("POST", "/v1/fak/fleet/add", R"({"url":"http://a"})").status, 404);
  EXPECT_EQ(Ask("POST", "/v1/fak/fleet/remove", R"({"name":"a"})").status, 404);
  EXPECT_EQ(Ask("POST", "/v1/fak/fleet/explain", kChat).status, 404);
}

TEST_F(FleetRoutes, TellTheRouteToAdminsAlone) {
  driver_.worker_ = "a\xc3\xa4";
  driver_.why_ = "least work";
  GatewayOptions options;
  options.keys.Add("boss", {"boss", 1.0, true});
  options.keys.Add("user", {"user", 1.0, false});
  Start(std::move(options));
  const auto asked = [this](const std::string& key) {
    return Ask("POST", "/v1/chat/completions", kChat, {{"authorization", "Bearer " + key}});
  };
  EXPECT_EQ(asked("boss").headers.Get("x-fak-route"), "a??; least work");
  EXPECT_FALSE(asked("user").headers.Has("x-fak-route"));
  EXPECT_FALSE(asked("user").headers.Has("x-fak-model"));
  driver_.model_ = "next";
  EXPECT_EQ(asked("user").headers.Get("x-fak-model"), "next");
}

}  // namespace
}  // namespace fak::gateway
