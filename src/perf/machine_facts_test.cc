#include "perf/machine_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fak::perf {
namespace {

using ::testing::ElementsAre;

TEST(ParseCpuTicks, SumsTheFirstLine) {
  const auto ticks = ParseCpuTicks(
      "cpu  684619 160807 101608 116693 556 3 11787 1091 7 7\n"
      "cpu0 1 1 1 1 1 1 1 1 0 0\nintr 5\n");
  ASSERT_TRUE(ticks);
  EXPECT_EQ(ticks->busy, 684619u + 160807 + 101608 + 3 + 11787) << "guests are in user already";
  EXPECT_EQ(ticks->idle, 116693u + 556);
  EXPECT_EQ(ticks->steal, 1091u);
  EXPECT_EQ(ParseCpuTicks("cpu  1 2 3 4\n")->busy, 6u) << "of an old system";
  for (const char* broken : {"", "cpu0 1 2 3 4\n", "cpu  1 2 3\n", "cpu  1 2 x 4\n"}) {
    EXPECT_FALSE(ParseCpuTicks(broken)) << broken;
  }
}

TEST(NumberAfter, TakesWholeKeys) {
  const char* text = "SwapTotalX:  9 kB\nSwapTotal:       2097148 kB\npswpin 12\n";
  EXPECT_EQ(NumberAfter(text, "SwapTotal"), 2097148u);
  EXPECT_EQ(NumberAfter(text, "pswpin"), 12u);
  EXPECT_FALSE(NumberAfter(text, "pswp"));
  EXPECT_FALSE(NumberAfter("", "pswpin"));
}

TEST(ChosenOf, IsTheWordInBrackets) {
  EXPECT_EQ(ChosenOf("always [madvise] never\n"), "madvise");
  EXPECT_EQ(ChosenOf("always madvise never\n"), "");
  EXPECT_EQ(ChosenOf("]["), "");
}

TEST(ParseCpuList, HasRangesAndSingles) {
  EXPECT_THAT(*ParseCpuList("0-2,8\n"), ElementsAre(0, 1, 2, 8));
  EXPECT_THAT(*ParseCpuList("\n"), ElementsAre());
  for (const char* broken : {"a", "3-1", "0-99999999999", "1,,2", "-1"}) {
    EXPECT_FALSE(ParseCpuList(broken)) << broken;
  }
}

TEST(ParseCgroupPaths, KnowsBothVersions) {
  const CgroupPaths two = ParseCgroupPaths("0::/user.slice/a:b\n");
  EXPECT_EQ(two.unified, "/user.slice/a:b");
  EXPECT_EQ(two.cpu, "");
  const CgroupPaths one = ParseCgroupPaths("4:memory:/jobs/7\n3:cpu,cpuacct:/jobs\n2:cpuset:/x\n");
  EXPECT_EQ(one.unified, "");
  EXPECT_EQ(one.cpu, "/jobs");
  EXPECT_EQ(one.memory, "/jobs/7");
}

TEST(SelfAndParents, EndsAtTheRoot) {
  EXPECT_THAT(SelfAndParents("/a/b"), ElementsAre("/a/b", "/a", ""));
  EXPECT_THAT(SelfAndParents("/"), ElementsAre(""));
  EXPECT_THAT(SelfAndParents(""), ElementsAre(""));
}

TEST(Limits, AreNumbersOrNone) {
  EXPECT_DOUBLE_EQ(*ParseCpuMax("150000 100000\n"), 1.5);
  for (const char* none : {"max 100000\n", "-1 100000\n", "", " ", "100000 0"}) {
    EXPECT_FALSE(ParseCpuMax(none)) << none;
  }
  EXPECT_EQ(ParseMemoryLimit("1073741824\n"), 1073741824u);
  for (const char* none : {"max\n", "9223372036854771712\n", ""}) {
    EXPECT_FALSE(ParseMemoryLimit(none)) << none;
  }
}

TEST(ReadMachineCounters, CountUp) {
  const MachineCounters before = ReadMachineCounters();
  const MachineCounters after = ReadMachineCounters();
  EXPECT_GE(after.own_ns, before.own_ns);
  EXPECT_GT(after.own_ns, 0u);
}

}  // namespace
}  // namespace fak::perf
