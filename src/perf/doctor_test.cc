#include "perf/doctor.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"

namespace fak::perf {
namespace {

using ::testing::HasSubstr;

// A machine on which nothing is wrong: 2 processors, 2 s, of which this process had 3.4.
Examination Quiet() {
  Examination seen;
  seen.facts = {.memory_total = 100,
                .memory_available = 60,
                .swap_used = 0,
                .huge_pages = "madvise",
                .node_cpus = {{0, 1}},
                .allowed_cpus = {0, 1},
                .governors = {"performance"},
                .cgroup_cpus = {},
                .cgroup_memory = {},
                .cgroup_memory_used = {}};
  seen.before = {CpuTicks{1000, 500, 7}, 1'000'000'000, 5, 2};
  seen.after = {CpuTicks{1341, 559, 7}, 4'400'000'000, 5, 2};
  seen.elapsed_ns = 2 * kNsPerSecond;
  seen.clock = {.threads = 2, .alone_ghz = 3, .after_ghz = 3, .all_ghz = 5.9, .least_ghz = 2.9};
  return seen;
}

Finding Find(const Examination& seen, const std::string& what) {
  for (const Finding& finding : Judge(seen)) {
    if (finding.what == what) {
      return finding;
    }
  }
  ADD_FAILURE() << "no row " << what;
  return {};
}

TEST(Judge, FindsNothingOnAQuietMachine) {
  const std::vector<Finding> findings = Judge(Quiet());
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.what << ": " << finding.value;
    EXPECT_EQ(finding.advice, "");
    EXPECT_NE(finding.value, "");
  }
  EXPECT_FALSE(Spoiled(findings));
}

TEST(Judge, SaysWhatTheSystemDoesNotShow) {
  Examination seen = Quiet();
  seen.facts = {};
  seen.before = {};
  seen.after = {};
  EXPECT_FALSE(Spoiled(Judge(seen)));
  EXPECT_EQ(Find(seen, "steal").value, "not shown by this system");
}

struct Case {
  const char* what;
  Verdict verdict;
  void (*spoil)(Examination& seen);
  const char* value;
};

TEST(Judge, NamesEachThingThatIsWrong) {
  const Case cases[] = {
      {"clock", Verdict::kSpoils, [](Examination& seen) { seen.clock.all_ghz = 5.3; },
       "3.00 GHz alone, 5.30 of 6.00 on 2 threads"},
      {"clock", Verdict::kNote, [](Examination& seen) { seen.clock.least_ghz = 1.5; },
       "worst 10 ms 50 %"},
      {"clock afterwards", Verdict::kNote, [](Examination& seen) { seen.clock.after_ghz = 2.7; },
       "2.70 GHz, 90 % of before"},
      {"steal", Verdict::kSpoils, [](Examination& seen) { seen.after.ticks->steal += 40; },
       "9.1 % of the processors' time"},
      {"other load", Verdict::kSpoils, [](Examination& seen) { seen.after.ticks->busy += 99; },
       "0.50 processors"},
      {"processor limit", Verdict::kNote, [](Examination& seen) { seen.facts.cgroup_cpus = 1.5; },
       "1.50 of 2 processors, stopped 0 times"},
      {"processor limit", Verdict::kSpoils, [](Examination& seen) { seen.after.throttled = 9; },
       "stopped 7 times"},
      {"memory", Verdict::kSpoils, [](Examination& seen) { seen.facts.memory_available = 9; },
       "9 B of 100 B available"},
      {"memory limit", Verdict::kSpoils,
       [](Examination& seen) {
         seen.facts.cgroup_memory = 1000;
         seen.facts.cgroup_memory_used = 950;
       },
       "1.00 kB, 950 B used"},
      {"swap", Verdict::kSpoils, [](Examination& seen) { seen.after.swapped_pages = 8; },
       "3 pages moved"},
      {"swap", Verdict::kNote, [](Examination& seen) { seen.facts.swap_used = 5; }, "5 B used"},
      {"huge pages", Verdict::kNote, [](Examination& seen) { seen.facts.huge_pages = "never"; },
       "never"},
      {"NUMA nodes", Verdict::kSpoils,
       [](Examination& seen) { seen.facts.node_cpus = {{0}, {1}, {2}}; }, "2 of 3"},
      {"governor", Verdict::kNote, [](Examination& seen) { seen.facts.governors = {"powersave"}; },
       "powersave"},
  };
  for (const Case& one : cases) {
    Examination seen = Quiet();
    one.spoil(seen);
    const Finding finding = Find(seen, one.what);
    EXPECT_EQ(finding.verdict, one.verdict) << one.what << ": " << finding.value;
    EXPECT_THAT(finding.value, HasSubstr(one.value));
    EXPECT_NE(finding.advice, "") << one.what;
    EXPECT_EQ(Spoiled(Judge(seen)), one.verdict == Verdict::kSpoils) << one.what;
  }
}

TEST(RunClockGuard, SeesThisMachine) {
  uint32_t parts = 0;
  const auto guard = RunClockGuard(2, [&parts](uint32_t part) { EXPECT_EQ(part, parts++); });
  ASSERT_TRUE(guard);
  EXPECT_EQ(parts, 3u);
  EXPECT_GT(guard->alone_ghz, 0.05);
  EXPECT_LT(guard->alone_ghz, 20) << "additions must wait for each other";
  EXPECT_GT(guard->least_ghz, 0);
  EXPECT_GT(guard->all_ghz, guard->least_ghz);
}

}  // namespace
}  // namespace fak::perf
