#include "perf/load_bench.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/test_folder.h"

namespace fak::perf {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

LoadReport Report() {
  LoadReport report{.model = "m", .file_bytes = 1100, .n_prompt = 4};
  report.last = {.weight_bytes = 1'000'000'000, .kv_bytes = 5, .isa = "avx2", .threads = 2};
  report.cold = {{2 * kNsPerSecond, 4 * kNsPerSecond, 70, 0.0}};
  report.warm = {{1 * kNsPerMs, 250 * kNsPerMs, 50, 1.0},
                 {3 * kNsPerMs, 900 * kNsPerMs, 60, 1.0},
                 {2 * kNsPerMs, 500 * kNsPerMs, 55, 1.0}};
  return report;
}

TEST(LoadMoments, AreReadAsTheyWereWritten) {
  const LoadMoments moments{123, 456, 7, 8, 9, "avx512", 2};
  const auto read = ParseLoadMoments(moments.Line());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->Line(), moments.Line());
  EXPECT_EQ(read->first_token_ns, 456);
  for (const char* broken : {"", "{}", "[1]", "{\"loaded_ns\":-1}"}) {
    EXPECT_FALSE(ParseLoadMoments(broken)) << broken;
  }
}

TEST(LoadReport, DividesWeightsByTheTimeToTheFirstToken) {
  const LoadReport report = Report();
  EXPECT_DOUBLE_EQ(MedianFirstTokenMs(report.warm), 500);
  EXPECT_DOUBLE_EQ(WeightsPerSecond(report, report.warm), 2e9);
  EXPECT_DOUBLE_EQ(WeightsPerSecond(report, report.cold), 0.25e9);
  EXPECT_DOUBLE_EQ(WeightsPerSecond(report, {}), 0);
}

TEST(LoadReport, SaysWhenColdWasNotCold) {
  LoadReport report = Report();
  EXPECT_THAT(LoadText(report), Not(HasSubstr("couldn't be dropped")));
  report.cold[0].cached_before = 0.5;
  EXPECT_THAT(LoadText(report), HasSubstr("couldn't be dropped"));
}

TEST(RunLoadChild, TakesTimesFromTheStartOfTheChild) {
  const TestFolder folder;
  const std::string file = folder.Path("weights");
  ASSERT_TRUE(WriteFileAtomically(file, std::string(8192, 'x')));
  LoadMoments moments{.isa = "scalar", .threads = 1};
  moments.loaded_ns = Clock::Real().NowNs() + 100 * kNsPerSecond;
  moments.first_token_ns = moments.loaded_ns + 5;
  const auto child = RunLoadChild({"echo", moments.Line()}, {file}, /*cold=*/false);
  ASSERT_TRUE(child) << child.error().detail;
  EXPECT_GT(child->run.load_ns, 0);
  EXPECT_LE(child->run.load_ns, 100 * kNsPerSecond);
  EXPECT_EQ(child->run.first_token_ns, child->run.load_ns + 5);
  EXPECT_EQ(child->run.cached_before, 1.0);
  const auto failed = RunLoadChild({"sh", "-c", "echo fak: no such thing >&2; exit 1"}, {}, false);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().detail, "no such thing");
}

TEST(PeakBytes, IsThatOfThisProcess) {
  EXPECT_GT(PeakBytes(), 1u << 20);
}

}  // namespace
}  // namespace fak::perf
