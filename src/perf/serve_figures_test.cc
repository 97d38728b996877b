#include "perf/serve_figures.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/json.h"

namespace fak::perf {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ServeRecord Answer(int64_t planned_ms, std::vector<int64_t> chunks_ms, int64_t tokens) {
  ServeRecord record{.planned_ns = planned_ms * kNsPerMs, .sent_ns = planned_ms * kNsPerMs};
  for (const int64_t at : chunks_ms) {
    record.chunks_ns.push_back(at * kNsPerMs);
  }
  record.done_ns = record.chunks_ns.back();
  record.output_tokens = tokens;
  record.prompt_tokens = 10;
  record.finish = "length";
  return record;
}

ServeRecord Fault(ServeFault fault, const std::string& why) {
  return {.done_ns = kNsPerSecond, .fault = fault, .why = why};
}

TEST(FiguresOf, FollowTheirDefinitions) {
  ServeRun run;
  run.records = {Answer(0, {100, 110, 140}, 5), Answer(200, {400, 420}, 2)};
  run.duration_ns = 2 * kNsPerSecond;
  const RunFigures figures = FiguresOf(run, std::nullopt);
  EXPECT_EQ(figures.completed, 2u);
  EXPECT_DOUBLE_EQ(figures.ttft.mean, 150);
  EXPECT_DOUBLE_EQ(figures.ttft.p50, 150);
  EXPECT_DOUBLE_EQ(figures.ttft.p90, 190);
  EXPECT_DOUBLE_EQ(figures.tpot.mean, 15) << "40 ms over 4 gaps, and 20 over 1";
  EXPECT_DOUBLE_EQ(figures.itl.p50, 20) << "of 10, 30 and 20";
  EXPECT_DOUBLE_EQ(figures.e2e.mean, 180);
  EXPECT_DOUBLE_EQ(figures.output_tokens_per_s, 3.5);
  EXPECT_DOUBLE_EQ(figures.total_tokens_per_s, 13.5);
  EXPECT_DOUBLE_EQ(figures.requests_per_s, 1);
  EXPECT_FALSE(figures.goodput_per_s);
  EXPECT_FALSE(figures.late);
}

TEST(FiguresOf, FailuresAreCountedAndInNoLatency) {
  ServeRun run;
  run.records = {Answer(0, {100, 200}, 2), Fault(ServeFault::kErrorFrame, "boom"),
                 Fault(ServeFault::kErrorFrame, "again"), Fault(ServeFault::kTimeout, "")};
  run.duration_ns = kNsPerSecond;
  const RunFigures figures = FiguresOf(run, std::nullopt);
  EXPECT_EQ(figures.requests, 4u);
  EXPECT_EQ(figures.completed, 1u);
  EXPECT_EQ(figures.faults.at("error_frame"), 2u);
  EXPECT_EQ(figures.faults.at("timeout"), 1u);
  EXPECT_DOUBLE_EQ(figures.ttft.p99, 100);
}

TEST(FiguresOf, GoodputCountsWhatKeepsAllBounds) {
  ServeRun run;
  run.records = {Answer(0, {100, 200}, 2), Answer(0, {600, 610}, 2), Answer(0, {100, 400}, 2),
                 Fault(ServeFault::kStatus, "")};
  run.duration_ns = kNsPerSecond;
  const auto slo = metrics::ParseSlo("slo=ttft:500,tpot:150");
  ASSERT_TRUE(slo);
  EXPECT_DOUBLE_EQ(*FiguresOf(run, *slo).goodput_per_s, 1);
}

TEST(FiguresOf, ALumpHasNoGaps) {
  ServeRun run;
  run.records = {Answer(0, {100}, 20)};
  run.duration_ns = kNsPerSecond;
  const RunFigures figures = FiguresOf(run, std::nullopt);
  EXPECT_EQ(figures.lumps, 1u);
  EXPECT_DOUBLE_EQ(figures.tpot.mean, 0);
}

TEST(FiguresOf, SaysWhenItsOwnSendingWasLate) {
  ServeRun run;
  run.records = {Answer(0, {1000}, 1)};
  run.records[0].sent_ns = 9 * kNsPerMs;
  EXPECT_FALSE(FiguresOf(run, std::nullopt).late) << "under 1 % of 1,000 ms";
  run.records[0].sent_ns = 11 * kNsPerMs;
  EXPECT_TRUE(FiguresOf(run, std::nullopt).late);
  run.records = {Answer(0, {1}, 1)};
  run.records[0].sent_ns = kNsPerMs / 10;
  EXPECT_FALSE(FiguresOf(run, std::nullopt).late) << "under 200 us";
}

std::vector<TargetResult> Two() {
  std::vector<TargetResult> results(2);
  for (size_t i = 0; i < 2; ++i) {
    results[i].target.name = i == 0 ? "a" : "b";
    ServeRun run;
    run.duration_ns = kNsPerSecond;
    run.records = {Answer(0, {i == 0 ? 100 : 200, 300}, 2), Answer(0, {100, 300}, 2)};
    run.records[0].text_sha256 = i == 0 ? "x" : "y";
    results[i].runs.push_back(run);
    results[i].figures.push_back(FiguresOf(run, std::nullopt));
  }
  results[1].runs[0].records.push_back(Fault(ServeFault::kStatus, "500: no\x1b[2J"));
  return results;
}

TEST(ServeText, HasAColumnATargetAndRatiosToTheFirst) {
  const std::string text = ServeText(Two());
  EXPECT_THAT(text, HasSubstr("TTFT mean, ms      100    150  1.50x\n"));
  EXPECT_THAT(text, HasSubstr("whole answers        2      2       \n"));
  EXPECT_THAT(text, Not(HasSubstr("goodput")));
  EXPECT_THAT(text, HasSubstr("b: 1 status (500: no\\x1B[2J)\n"));
  EXPECT_THAT(text, HasSubstr("b and a: 1 of 2 answers have the same text\n"));
}

TEST(SweepText, FindsTheKneeAndTheMostGoodput) {
  std::vector<ServePoint> points;
  for (const auto& [rate, ttft_ms] : {std::pair(1, 100), {2, 150}, {4, 201}, {8, 900}}) {
    ServeRun run;
    run.duration_ns = kNsPerSecond;
    run.records.assign(static_cast<size_t>(rate), Answer(0, {ttft_ms, ttft_ms + 50}, 2));
    const auto slo = metrics::ParseSlo("slo=ttft:500");
    TargetResult result;
    result.target.name = "it";
    result.figures = {FiguresOf(run, *slo)};
    result.runs = {run};
    points.push_back({static_cast<double>(rate), 0, {result}});
  }
  const std::string text = SweepText(points);
  EXPECT_THAT(text, HasSubstr("it\nrate  requests/s  output tokens/s  goodput/s  TTFT p50, ms"));
  EXPECT_THAT(text, HasSubstr("\nmost goodput: 4.00 requests/s at 4\n"));
  EXPECT_THAT(text, HasSubstr("\nknee: 2 is the most"));
  EXPECT_THAT(text, HasSubstr("0  ########################\n"));
  points.resize(2);
  EXPECT_THAT(SweepText(points), HasSubstr("no knee"));
}

TEST(ServeJson, HasVllmsNamesAndTheRecordsOnDemand) {
  const auto plain = ParseJson(ServeJson("{}", {{2, 0, Two()}}, false));
  ASSERT_TRUE(plain);
  const Json& second = plain->Find("points")->array()[0].Find("targets")->array()[1];
  EXPECT_EQ(second.Find("runs")->array()[0].Find("mean_ttft_ms")->number(), 150);
  EXPECT_EQ(second.Find("runs")->array()[0].Find("records"), nullptr);
  EXPECT_EQ(second.Find("same_text_as_first")->Find("same")->AsInt(), 1);
  const auto whole = ParseJson(ServeJson("{}", {{2, 0, Two()}}, true));
  ASSERT_TRUE(whole);
  const Json& records =
      *whole->Find("points")->array()[0].Find("targets")->array()[1].Find("runs")->array()[0].Find(
          "records");
  ASSERT_EQ(records.array().size(), 3u);
  EXPECT_EQ(records.array()[2].Find("fault")->string(), "status");
}

}  // namespace
}  // namespace fak::perf
