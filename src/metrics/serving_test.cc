#include "metrics/serving.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"

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

TEST(Registry, ShowsWhatAnEngineCountsBesideWhatWeCount) {
  FakeClock clock;
  Registry registry({}, clock);
  const auto emitter =
      registry.MakeEmitter({.worker = "a", .engine = "vllm", .model = "m", .source = "gateway"});
  const auto mirror = registry.MakeMirror({.worker = "a", .engine = "vllm", .source = "engine"});
  emitter->Add(Counter::kPromptTokens, 3);
  mirror->Show({{Row::kPromptTokens, "m", "aggregated", "", 5, {}},
                {Row::kRequests, "m", "prefill", "ok", 2, {}},
                {Row::kRunning, "m", "aggregated", "", 1, {}},
                {Row::kQueue, "m", "aggregated", "", 0, {{0.5, 1}, {1, 3}, 4, 2.5}}},
               clock.NowNs() + 1);
  EXPECT_EQ(registry.Exposition(),
            R"(# HELP fak_serving_engine_up 1 when the engine would answer now.
# TYPE fak_serving_engine_up gauge
fak_serving_engine_up{engine="vllm",model="",role="aggregated",source="engine",worker="a"} 1
# HELP fak_serving_num_requests_running Sequences in the running batch.
# TYPE fak_serving_num_requests_running gauge
fak_serving_num_requests_running{engine="vllm",model="m",role="aggregated",source="engine",worker="a"} 1
# HELP fak_serving_prompt_tokens_total Prompt tokens computed or found in the cache.
# TYPE fak_serving_prompt_tokens_total counter
fak_serving_prompt_tokens_total{engine="vllm",model="m",role="aggregated",source="gateway",worker="a"} 3
fak_serving_prompt_tokens_total{engine="vllm",model="m",role="aggregated",source="engine",worker="a"} 5
# HELP fak_serving_request_queue_time_seconds From arrival to the first step.
# TYPE fak_serving_request_queue_time_seconds histogram
fak_serving_request_queue_time_seconds_count{engine="vllm",model="m",role="aggregated",source="engine",worker="a"} 4
fak_serving_request_queue_time_seconds_sum{engine="vllm",model="m",role="aggregated",source="engine",worker="a"} 2.5
fak_serving_request_queue_time_seconds_bucket{engine="vllm",model="m",role="aggregated",source="engine",worker="a",le="0.5"} 1
fak_serving_request_queue_time_seconds_bucket{engine="vllm",model="m",role="aggregated",source="engine",worker="a",le="1"} 3
fak_serving_request_queue_time_seconds_bucket{engine="vllm",model="m",role="aggregated",source="engine",worker="a",le="+Inf"} 4
# HELP fak_serving_requests_total Requests by how they ended.
# TYPE fak_serving_requests_total counter
fak_serving_requests_total{engine="vllm",model="m",role="prefill",source="engine",worker="a",outcome="ok"} 2
)");
}

TEST(Mirror, GaugesVanishWithAgeAndCountersStay) {
  FakeClock clock;
  Registry registry({}, clock);
  const auto mirror = registry.MakeMirror({.worker = "a", .engine = "vllm", .source = "engine"});
  EXPECT_EQ(registry.Exposition(), "");  // nothing is known yet
  const auto show = [&] {
    mirror->Show({{Row::kRunning, "m", "aggregated", "", 1, {}},
                  {Row::kPreemptions, "m", "aggregated", "", 4, {}}},
                 clock.NowNs() + kNsPerSecond);
  };
  show();
  EXPECT_THAT(registry.Exposition(), HasSubstr("requests_running{"));
  clock.AdvanceMs(1000);
  EXPECT_THAT(registry.Exposition(), Not(HasSubstr("requests_running")));
  EXPECT_THAT(registry.Exposition(), HasSubstr("engine_up{engine=\"vllm\",model=\"\","
                                               "role=\"aggregated\",source=\"engine\","
                                               "worker=\"a\"} 0"));
  EXPECT_THAT(registry.Exposition(), HasSubstr("worker=\"a\"} 4"));
  show();
  EXPECT_THAT(registry.Exposition(), HasSubstr("requests_running{"));
  mirror->Down();
  EXPECT_THAT(registry.Exposition(), Not(HasSubstr("requests_running")));
  EXPECT_THAT(registry.Exposition(), HasSubstr("worker=\"a\"} 4"));
  mirror->Clear();
  EXPECT_EQ(registry.Exposition(), "");
}

TEST(Registry, ForgetsAMirrorThatIsGone) {
  Registry registry;
  auto mirror = registry.MakeMirror({.worker = "a", .engine = "vllm", .source = "engine"});
  mirror->Down();
  EXPECT_THAT(registry.Exposition(), HasSubstr("engine_up"));
  mirror.reset();
  EXPECT_EQ(registry.Exposition(), "");
}

TEST(Registry, CountsRequestsThatMetAnObjective) {
  Registry registry({{"fast", 0.1, {}, {}}, {"any", {}, {}, 60}});
  const auto emitter = registry.MakeEmitter({.worker = "a", .engine = "fak", .model = "m"});
  emitter->CountGoodput({0.05, 0.01, 1.0, 10});
  emitter->CountGoodput({0.5, 0.01, 1.0, 10});
  EXPECT_THAT(registry.Exposition(), HasSubstr("slo=\"fast\",source=\"native\",worker=\"a\"} 1\n"));
  EXPECT_THAT(registry.Exposition(), HasSubstr("slo=\"any\",source=\"native\",worker=\"a\"} 2\n"));
}

TEST(Registry, ForgetsWorkersForWhomNobodySpeaks) {
  FakeClock clock;
  Registry registry({{"fast", 0.1, {}, {}}}, clock);
  auto first = registry.MakeEmitter({.worker = "a", .engine = "vllm", .model = "m"});
  auto second = registry.MakeEmitter({.worker = "a", .engine = "sglang", .model = "m"});
  auto mirror = registry.MakeMirror({.worker = "a", .engine = "vllm", .source = "engine"});
  const auto other = registry.MakeEmitter({.worker = "b", .engine = "vllm", .model = "m"});
  first->Set(Gauge::kRunning, 1);
  first->Observe(Latency::kQueue, 1);
  first->Add(Counter::kPromptTokens, 5);
  first->CountRequest("ok");
  first->CountError("internal");
  first->CountGoodput({0.05, 0.01, 1.0, 10});
  first->CountRequest("ok");
  other->CountRequest("ok");
  first.reset();
  EXPECT_THAT(registry.Exposition(), HasSubstr("outcome=\"ok\",role=\"aggregated\",source="
                                               "\"native\",worker=\"a\"} 2\n"));
  second.reset();
  EXPECT_THAT(registry.Exposition(), HasSubstr("worker=\"a\"} 5\n"));
  mirror.reset();
  const std::string text = registry.Exposition();
  EXPECT_THAT(text, Not(HasSubstr("worker=\"a\"")));
  EXPECT_THAT(text, HasSubstr("worker=\"b\"} 1\n"));
  // One that comes again begins anew.
  first = registry.MakeEmitter({.worker = "a", .engine = "vllm", .model = "m"});
  first->Add(Counter::kPromptTokens, 1);
  EXPECT_THAT(registry.Exposition(), HasSubstr("worker=\"a\"} 1\n"));
}

TEST(Registry, HasRoomForWorkersThatComeAndGo) {
  Registry registry;
  for (size_t i = 0; i < 3 * limits::kMetricWorkersMax; ++i) {
    registry.MakeEmitter({.worker = "w" + std::to_string(i)})->CountRequest("ok");
  }
  const auto last = registry.MakeEmitter({.worker = "last"});
  last->Set(Gauge::kRunning, 1);
  EXPECT_THAT(registry.Exposition(), HasSubstr("worker=\"last\"} 1\n"));
  EXPECT_THAT(registry.Exposition(), Not(HasSubstr("worker=\"w")));
}

TEST(Registry, BoundsWorkersAndLabels) {
  Registry registry;
  std::vector<std::shared_ptr<Emitter>> all;
  for (size_t i = 0; i < limits::kMetricWorkersMax; ++i) {
    all.push_back(registry.MakeEmitter({.worker = "w" + std::to_string(i)}));
  }
  const auto one_more = registry.MakeEmitter({.worker = "one more"});
  one_more->Set(Gauge::kRunning, 1);
  const auto long_one = registry.MakeEmitter({.worker = "w7", .model = std::string(999, 'm')});
  long_one->Set(Gauge::kRunning, 2);
  const auto hidden = registry.MakeMirror({.worker = "and one"});
  hidden->Down();
  const std::string text = registry.Exposition();
  EXPECT_THAT(text, HasSubstr("worker=\"other\"} 1"));
  EXPECT_THAT(text, HasSubstr("model=\"" + std::string(limits::kMetricLabelBytesMax, 'm') + "\""));
  EXPECT_THAT(text, Not(HasSubstr("engine_up")));
}

}  // namespace
}  // namespace fak::metrics
