#include "metrics/serving.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fak::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Registry, ShowsWhatWasSetAndNothingElse) {
  Registry registry;
  const auto emitter = registry.MakeEmitter({.worker = "a", .engine = "fak", .model = "m"});
  EXPECT_EQ(registry.Exposition(), "");
  emitter->Set(Gauge::kRunning, 3);
  emitter->Add(Counter::kPromptTokens, 7);
  emitter->Add(Counter::kPromptTokens, 5);
  emitter->CountRequest("ok");
  const std::string text = registry.Exposition();
  EXPECT_THAT(text, HasSubstr("fak_serving_num_requests_running{engine=\"fak\",model=\"m\","
                              "role=\"aggregated\",source=\"native\",worker=\"a\"} 3"));
  EXPECT_THAT(text, HasSubstr("worker=\"a\"} 12"));
  EXPECT_THAT(text, HasSubstr("outcome=\"ok\""));
  EXPECT_THAT(text, Not(HasSubstr("waiting")));
}

TEST(Registry, KeepsSourcesApart) {
  Registry registry;
  const auto a = registry.MakeEmitter({.worker = "a", .engine = "fak", .model = "m"});
  const auto b = registry.MakeEmitter({.worker = "b", .engine = "fak", .model = "m"});
  a->Set(Gauge::kWaiting, 1);
  b->Set(Gauge::kWaiting, 2);
  EXPECT_THAT(registry.Exposition(), HasSubstr("worker=\"a\"} 1\n"));
  EXPECT_THAT(registry.Exposition(), HasSubstr("worker=\"b\"} 2\n"));
}

TEST(Registry, CountsLatenciesInVllmsBuckets) {
  Registry registry;
  const auto emitter = registry.MakeEmitter({.worker = "a", .engine = "fak", .model = "m"});
  emitter->Observe(Latency::kTimeToFirstToken, 0.003);
  EXPECT_THAT(registry.Exposition(),
              HasSubstr("fak_serving_time_to_first_token_seconds_bucket{engine=\"fak\","
                        "model=\"m\",role=\"aggregated\",source=\"native\",worker=\"a\","
                        "le=\"0.005\"} 1"));
}

}  // namespace
}  // namespace fak::metrics
