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

driver::SlotOutcome ActOnSlot(driver::SlotControl& control, driver::SlotRequest request) {
  std::promise<std::vector<driver::SlotOutcome>> done;
  control.ActOnSlot(std::move(request), [&done](std::vector<driver::SlotOutcome> all) {
    done.set_value(std::move(all));
  });
  std::vector<driver::SlotOutcome> all = done.get_future().get();
  return all.empty() ? driver::SlotOutcome{"", Fail(Code::kNotFound, "nobody")} : all.front();
}

using Action = driver::SlotRequest::Action;

TEST(UpstreamSlots, SavesRestoresAndErasesASlotOfLlamaCpp) {
  Upstream upstream;
  upstream.Answer("GET /health", {200, {}, "{}"});
  upstream.Answer("GET /props", {200, {}, R"({"total_slots":2})"});
  upstream.Answer("POST /slots/0?action=none", {400, {}, "{}"});
  upstream.Answer("POST /slots/1?action=save", {200, {}, R"({"id_slot":1,"n_saved":8})"});
  upstream.Answer("POST /slots/1?action=restore", {200, {}, R"({"id_slot":1,"n_restored":7})"});
  upstream.Answer("POST /slots/1?action=erase", {200, {}, R"({"id_slot":1,"n_erased":6})"});
  const auto driver = Start(upstream.url(), "llamacpp");
  EXPECT_TRUE(driver->endpoint()->Has(Signal::kSlots));
  driver::SlotControl& control = *driver->maybe_slot_control();
  const auto saved = ActOnSlot(control, {.slot = 1, .file = "warm", .worker = ""});
  ASSERT_TRUE(saved.report) << saved.report.error().detail;
  EXPECT_EQ(saved.report->call, "POST /slots/1?action=save");
  EXPECT_EQ(saved.report->tokens, 8);
  EXPECT_EQ(upstream.Asked("POST /slots/1?action=save").body, R"({"filename":"warm"})");
  EXPECT_EQ(ActOnSlot(control, {Action::kRestore, 1, "warm", ""}).report->tokens, 7);
  EXPECT_EQ(ActOnSlot(control, {Action::kErase, 1, "", ""}).report->tokens, 6);
  // It would answer for another one.
  const auto beyond = ActOnSlot(control, {.slot = 2, .file = "warm", .worker = ""});
  ASSERT_FALSE(beyond.report);
  EXPECT_EQ(beyond.report.error().code, Code::kInvalidArgument);
  EXPECT_EQ(beyond.report.error().field, "slot");
  upstream.Answer("POST /slots/1?action=restore",
                  {400, {}, R"({"error":{"code":400,"message":"Unable to restore slot"}})"});
  const auto absent = ActOnSlot(control, {Action::kRestore, 1, "cold", ""});
  ASSERT_FALSE(absent.report);
  EXPECT_EQ(absent.report.error().upstream_status, 400);
  EXPECT_THAT(absent.report.error().detail, HasSubstr("Unable to restore"));
  EXPECT_EQ(ActOnSlot(control, {Action::kSave, 0, "x", "other"}).report.error().code,
            Code::kNotFound);
}

TEST(UpstreamSlots, RefusesWhatHasNoneOrMayNotSaveThem) {
  Upstream upstream;
  upstream.Answer("GET /health", {200, {}, "{}"});
  upstream.Answer("GET /props", {200, {}, R"({"total_slots":2})"});
  upstream.Answer("POST /slots/0?action=none", {501, {}, "{}"});
  for (const char* engine : {"llamacpp", "vllm", "fak", "openai"}) {
    const auto driver = Start(upstream.url(), engine);
    const auto outcome = ActOnSlot(*driver->maybe_slot_control(), {.file = "x", .worker = ""});
    ASSERT_FALSE(outcome.report) << engine;
    EXPECT_EQ(outcome.report.error().code, Code::kUnsupported) << engine;
  }
  const auto llama = Start(upstream.url(), "llamacpp");
  EXPECT_THAT(ActOnSlot(*llama, {.file = "x", .worker = ""}).report.error().detail,
              HasSubstr("--slot-save-path"));
  EXPECT_THAT(upstream.all_asked(), Not(Contains("POST /slots/0?action=save")));
}

}  // namespace
}  // namespace fak::ride::test
