#include <future>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ride/test_support.h"

namespace fak::ride::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

driver::SleepOutcome SetAsleep(driver::SleepControl& control, driver::SleepRequest request) {
  std::promise<std::vector<driver::SleepOutcome>> done;
  control.SetAsleep(std::move(request), [&done](std::vector<driver::SleepOutcome> all) {
    done.set_value(std::move(all));
  });
  std::vector<driver::SleepOutcome> all = done.get_future().get();
  return all.empty() ? driver::SleepOutcome{"", Fail(Code::kNotFound, "nobody")} : all.front();
}

TEST(UpstreamSleep, PutsVllmToSleepAndWakesIt) {
  Upstream upstream;
  upstream.Answer("GET /reset_prefix_cache", {405, {}, ""});
  upstream.Answer("GET /sleep", {405, {}, ""});
  upstream.Answer("GET /is_sleeping", {200, {}, R"({"is_sleeping":false})"});
  upstream.Answer("POST /sleep?level=2", {200, {}, ""});
  upstream.Answer("POST /wake_up", {500, {}, R"({"error":{"message":"key sk-secret"}})"});
  driver::ReplicaSpec spec{.name = "u", .engine = "vllm", .url = upstream.url()};
  spec.api_key = "sk-secret";
  // A probe a minute: that readiness follows a call is the call's doing.
  const auto driver = *UpstreamDriver::Make(spec, {.probe_every_ms = 60'000});
  ASSERT_TRUE(driver->Start());
  ASSERT_TRUE(driver->WaitForProbe(10'000));
  ASSERT_TRUE(Eventually([&] { return driver->Load().ready; }));
  EXPECT_TRUE(driver->endpoint()->Has(Signal::kSleep));
  driver::SleepControl& control = *driver->maybe_sleep_control();
  upstream.Answer("GET /is_sleeping", {200, {}, R"({"is_sleeping":true})"});
  const driver::SleepOutcome slept = SetAsleep(control, {.level = 2, .worker = "u"});
  ASSERT_TRUE(slept.call) << slept.call.error().detail;
  EXPECT_EQ(slept.worker, "u");
  EXPECT_EQ(*slept.call, "POST /sleep?level=2");
  EXPECT_TRUE(Eventually([&] { return !driver->Load().ready; }));
  const driver::SleepOutcome failed = SetAsleep(control, {.wake = true, .worker = ""});
  ASSERT_FALSE(failed.call);
  EXPECT_EQ(failed.call.error().code, Code::kUpstreamError);
  EXPECT_THAT(failed.call.error().detail, HasSubstr("[redacted]"));
  upstream.Answer("POST /wake_up", {200, {}, ""});
  upstream.Answer("GET /is_sleeping", {200, {}, R"({"is_sleeping":false})"});
  EXPECT_EQ(*SetAsleep(control, {.wake = true, .worker = ""}).call, "POST /wake_up");
  EXPECT_TRUE(Eventually([&] { return driver->Load().ready; }));
  EXPECT_EQ(SetAsleep(control, {.worker = "other"}).call.error().code, Code::kNotFound);
}

TEST(UpstreamSleep, RefusesToPutToSleepWhatHasNoSuchCalls) {
  Upstream upstream;
  for (const char* engine : {"vllm", "sglang", "llamacpp", "openai", "fak"}) {
    const auto driver = Start(upstream.url(), engine);
    const auto outcome = SetAsleep(*driver->maybe_sleep_control(), {});
    ASSERT_FALSE(outcome.call) << engine;
    EXPECT_EQ(outcome.call.error().code, Code::kUnsupported) << engine;
  }
  EXPECT_THAT(upstream.all_asked(), Not(Contains("POST /sleep?level=1")));
  const auto vllm = Start(upstream.url(), "vllm");  // it may have them, and doesn't
  EXPECT_THAT(SetAsleep(*vllm, {}).call.error().detail, HasSubstr("VLLM_SERVER_DEV_MODE"));
}

}  // namespace
}  // namespace fak::ride::test
