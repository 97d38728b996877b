#include "perf/doctor.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/clock.h"
#include "base/json.h"
#include "base/strings.h"

namespace fak::perf {
namespace {

// The unit of /proc/stat on every architecture that we build for.
constexpr int64_t kTickNs = kNsPerSecond / 100;
constexpr double kClockSpoils = 0.9;    // share of what the threads have alone
constexpr double kSliceNote = 0.7;      // the same of the worst 10 ms
constexpr double kDropNote = 0.95;      // after all threads ran, of before
constexpr double kStealSpoils = 0.01;   // of the time of all processors
constexpr double kOthersSpoils = 0.05;  // processors
constexpr double kMemorySpoils = 0.1;   // that is left

std::string Formatted(const char* format, auto... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

double Percent(double share) {
  return 100.0 * share;
}

Finding ClockTogether(const ClockGuard& clock) {
  const double whole = clock.alone_ghz * clock.threads;
  Finding finding{
      "clock", Verdict::kOk,
      Formatted("%.2f GHz alone, %.2f of %.2f on %u threads; worst 10 ms %.0f %%", clock.alone_ghz,
                clock.all_ghz, whole, clock.threads, Percent(clock.least_ghz / clock.alone_ghz)),
      ""};
  if (clock.all_ghz < kClockSpoils * whole) {
    finding.verdict = Verdict::kSpoils;
    finding.advice =
        "something takes the cores away: end it, move to a quieter machine, or compare "
        "only runs in alternation";
  } else if (clock.least_ghz < kSliceNote * clock.alone_ghz) {
    finding.verdict = Verdict::kNote;
    finding.advice = "threads lose their core now and then: look at medians, and at p99 with doubt";
  }
  return finding;
}

Finding ClockAfter(const ClockGuard& clock) {
  Finding finding{"clock afterwards", Verdict::kOk,
                  Formatted("%.2f GHz, %.0f %% of before", clock.after_ghz,
                            Percent(clock.after_ghz / clock.alone_ghz)),
                  ""};
  if (clock.after_ghz < kDropNote * clock.alone_ghz) {
    finding.verdict = Verdict::kNote;
    finding.advice = "the clock falls under load: warm up before the first run, and alternate";
  }
  return finding;
}

Finding Steal(const Examination& seen) {
  Finding finding{"steal", Verdict::kOk, "not shown by this system", ""};
  if (!seen.before.ticks || !seen.after.ticks) {
    return finding;
  }
  const CpuTicks& after = *seen.after.ticks;
  const auto all = static_cast<double>(after.all() - seen.before.ticks->all());
  const auto taken = static_cast<double>(after.steal - seen.before.ticks->steal);
  const double share = all > 0 ? taken / all : 0;
  finding.value = after.steal == 0 ? "0 since the start: no hypervisor, or one that doesn't say"
                                   : Formatted("%.1f %% of the processors' time", Percent(share));
  if (share > kStealSpoils) {
    finding.verdict = Verdict::kSpoils;
    finding.advice = "the hypervisor gives the processors to others: use a dedicated machine";
  }
  return finding;
}

Finding OtherLoad(const Examination& seen) {
  Finding finding{"other load", Verdict::kOk, "not shown by this system", ""};
  if (!seen.before.ticks || !seen.after.ticks) {
    return finding;
  }
  const auto busy = static_cast<double>(seen.after.ticks->busy - seen.before.ticks->busy);
  const auto elapsed = static_cast<double>(seen.elapsed_ns);
  const double own = static_cast<double>(seen.after.own_ns - seen.before.own_ns) / elapsed;
  const double others = std::max(0.0, busy * kTickNs / elapsed - own);
  finding.value = Formatted("%.2f processors busy with other processes", others);
  if (others > kOthersSpoils) {
    finding.verdict = Verdict::kSpoils;
    finding.advice = "end other programs (top shows them), or pin apart from them with taskset";
  }
  return finding;
}

Finding Memory(const MachineFacts& facts) {
  Finding finding{"memory", Verdict::kOk, "not shown by this system", ""};
  if (!facts.memory_total || !facts.memory_available || *facts.memory_total == 0) {
    return finding;
  }
  const double left =
      static_cast<double>(*facts.memory_available) / static_cast<double>(*facts.memory_total);
  finding.value = FormatBytes(*facts.memory_available) + " of " + FormatBytes(*facts.memory_total) +
                  " available";
  if (left < kMemorySpoils) {
    finding.verdict = Verdict::kSpoils;
    finding.advice = "the page cache is about to be dropped: free memory";
  }
  return finding;
}

Finding Swap(const Examination& seen) {
  Finding finding{"swap", Verdict::kOk, "not shown by this system", ""};
  if (!seen.facts.swap_used) {
    return finding;
  }
  const uint64_t moved =
      seen.after.swapped_pages.value_or(0) - seen.before.swapped_pages.value_or(0);
  finding.value =
      FormatBytes(*seen.facts.swap_used) + " used, " + std::to_string(moved) + " pages moved";
  if (moved > 0) {
    finding.verdict = Verdict::kSpoils;
    finding.advice = "the system is swapping: free memory, or swapoff";
  } else if (*seen.facts.swap_used > 0) {
    finding.verdict = Verdict::kNote;
    finding.advice = "what was swapped out comes back when it is touched: warm up";
  }
  return finding;
}

Finding HugePages(const MachineFacts& facts) {
  Finding finding{"huge pages", Verdict::kOk, facts.huge_pages, ""};
  if (facts.huge_pages.empty()) {
    finding.value = "not shown by this system";
  } else if (facts.huge_pages == "never") {
    finding.verdict = Verdict::kNote;
    finding.advice =
        "weights are read more slowly: "
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
  }
  return finding;
}

Finding Nodes(const MachineFacts& facts) {
  const auto used =
      std::count_if(facts.node_cpus.begin(), facts.node_cpus.end(), [&facts](const auto& cpus) {
        return std::any_of(cpus.begin(), cpus.end(), [&facts](uint32_t cpu) {
          return std::find(facts.allowed_cpus.begin(), facts.allowed_cpus.end(), cpu) !=
                 facts.allowed_cpus.end();
        });
      });
  Finding finding{"NUMA nodes", Verdict::kOk,
                  Formatted("%d of %zu with processors for this process", static_cast<int>(used),
                            facts.node_cpus.size()),
                  ""};
  if (facts.node_cpus.empty()) {
    finding.value = "not shown by this system";
  } else if (used > 1) {
    finding.verdict = Verdict::kSpoils;
    finding.advice =
        "memory may be far from its thread, differently in every run: "
        "numactl --cpunodebind=0 --membind=0";
  }
  return finding;
}

Finding CgroupCpu(const Examination& seen) {
  const MachineFacts& facts = seen.facts;
  const uint64_t throttled = seen.after.throttled.value_or(0) - seen.before.throttled.value_or(0);
  Finding finding{"processor limit", Verdict::kOk, "none", ""};
  const std::string stopped =
      Formatted("stopped %llu times", static_cast<unsigned long long>(throttled));
  if (facts.cgroup_cpus) {
    finding.value =
        Formatted("%.2f of %zu processors, ", *facts.cgroup_cpus, facts.allowed_cpus.size()) +
        stopped;
  }
  if (throttled > 0) {
    finding.value = facts.cgroup_cpus ? finding.value : stopped;
    finding.verdict = Verdict::kSpoils;
    finding.advice =
        "the control group's quota ran out while threads were busy: raise it, or use "
        "fewer threads (-t)";
  } else if (facts.cgroup_cpus &&
             *facts.cgroup_cpus < static_cast<double>(facts.allowed_cpus.size())) {
    finding.verdict = Verdict::kNote;
    finding.advice = "more threads than the quota are stopped for most of every 0.1 s: give -t";
  }
  return finding;
}

Finding CgroupMemory(const MachineFacts& facts) {
  Finding finding{"memory limit", Verdict::kOk, "none", ""};
  if (!facts.cgroup_memory) {
    return finding;
  }
  const uint64_t used = facts.cgroup_memory_used.value_or(0);
  finding.value = FormatBytes(*facts.cgroup_memory) + ", " + FormatBytes(used) + " used";
  // Pages of files count as used; they go first, and a cold cache with them.
  if (static_cast<double>(used) > (1 - kMemorySpoils) * static_cast<double>(*facts.cgroup_memory)) {
    finding.verdict = Verdict::kSpoils;
    finding.advice = "files fall out of the page cache: raise the control group's limit";
  }
  return finding;
}

Finding Governor(const MachineFacts& facts) {
  Finding finding{"governor", Verdict::kOk, Join(facts.governors, ", "), ""};
  if (facts.governors.empty()) {
    finding.value = "not shown by this system";
  } else if (facts.governors != std::vector<std::string>{"performance"}) {
    finding.verdict = Verdict::kNote;
    finding.advice = "cores take time to speed up: cpupower frequency-set -g performance";
  }
  return finding;
}

}  // namespace

std::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk: return "ok";
    case Verdict::kNote: return "note";
    case Verdict::kSpoils: return "spoils";
  }
  return "";
}

Result<Examination> Examine(uint32_t threads, const std::function<void(uint32_t part)>& on_part) {
  Examination seen;
  seen.facts = ReadMachineFacts();
  seen.before = ReadMachineCounters();
  const int64_t started_ns = Clock::Real().NowNs();
  TRY_ASSIGN(seen.clock, RunClockGuard(threads, on_part));
  seen.after = ReadMachineCounters();
  seen.elapsed_ns = std::max<int64_t>(1, Clock::Real().NowNs() - started_ns);
  return seen;
}

std::vector<Finding> Judge(const Examination& seen) {
  return {ClockTogether(seen.clock),
          ClockAfter(seen.clock),
          Steal(seen),
          OtherLoad(seen),
          CgroupCpu(seen),
          Memory(seen.facts),
          CgroupMemory(seen.facts),
          Swap(seen),
          HugePages(seen.facts),
          Nodes(seen.facts),
          Governor(seen.facts)};
}

bool Spoiled(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.verdict == Verdict::kSpoils; });
}

std::string FindingsText(const std::vector<Finding>& findings) {
  std::string out;
  for (const Finding& finding : findings) {
    out += Formatted("%-17s %-7s ", finding.what.c_str(),
                     std::string(VerdictName(finding.verdict)).c_str());
    out += finding.value + "\n";
    out += finding.advice.empty() ? "" : std::string(26, ' ') + finding.advice + "\n";
  }
  return out;
}

std::string FindingsJson(const std::vector<Finding>& findings) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("spoiled").Bool(Spoiled(findings)).Key("findings").BeginArray();
  for (const Finding& finding : findings) {
    json.BeginObject().Key("what").String(finding.what);
    json.Key("verdict").String(VerdictName(finding.verdict));
    json.Key("value").String(finding.value).Key("advice").String(finding.advice).EndObject();
  }
  json.EndArray().EndObject();
  return out;
}

}  // namespace fak::perf
