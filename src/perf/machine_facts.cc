#include "perf/machine_facts.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/clock.h"
#include "base/file.h"
#include "base/strings.h"

#ifdef __linux__
#include <sched.h>
#endif

namespace fak::perf {
namespace {

constexpr size_t kFileBytesMax = 4 << 20;
constexpr uint32_t kCpusMax = 1 << 16;
constexpr std::string_view kCgroups = "/sys/fs/cgroup";

// Empty where there is no such file.
std::string Text(const std::string& path) {
  return ReadFile(path, kFileBytesMax).value_or("");
}

std::optional<uint64_t> LeadingNumber(std::string_view text) {
  text = Trim(text);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

// A controller's file in a group's folder: "" for version 2, "/cpu" for one of version 1.
std::string CgroupText(std::string_view controller, std::string_view folder,
                       std::string_view file) {
  std::string path(kCgroups);
  return Text(path.append(controller).append(folder).append("/").append(file));
}

uint64_t NsOf(const timeval& time) {
  return static_cast<uint64_t>(time.tv_sec) * kNsPerSecond +
         static_cast<uint64_t>(time.tv_usec) * kNsPerUs;
}

void Limit(std::optional<double> cpus, MachineFacts& facts) {
  if (cpus && (!facts.cgroup_cpus || *cpus < *facts.cgroup_cpus)) {
    facts.cgroup_cpus = cpus;
  }
}

void Limit(std::optional<uint64_t> memory, const std::string& used, MachineFacts& facts) {
  if (memory && (!facts.cgroup_memory || *memory < *facts.cgroup_memory)) {
    facts.cgroup_memory = memory;
    facts.cgroup_memory_used = LeadingNumber(used);
  }
}

// A container may see its own group as the root, and its path in the host's tree: of what isn't
// there nothing is read.
void ReadCgroup(MachineFacts& facts) {
  const CgroupPaths paths = ParseCgroupPaths(Text("/proc/self/cgroup"));
  for (const std::string& folder : SelfAndParents(paths.unified)) {
    Limit(ParseCpuMax(CgroupText("", folder, "cpu.max")), facts);
    Limit(ParseMemoryLimit(CgroupText("", folder, "memory.max")),
          CgroupText("", folder, "memory.current"), facts);
  }
  for (const std::string& folder : SelfAndParents(paths.cpu)) {
    std::string quota(Trim(CgroupText("/cpu", folder, "cpu.cfs_quota_us")));
    Limit(ParseCpuMax(quota.append(" ").append(CgroupText("/cpu", folder, "cpu.cfs_period_us"))),
          facts);
  }
  for (const std::string& folder : SelfAndParents(paths.memory)) {
    Limit(ParseMemoryLimit(CgroupText("/memory", folder, "memory.limit_in_bytes")),
          CgroupText("/memory", folder, "memory.usage_in_bytes"), facts);
  }
}

// Of the group and all above it, of whichever version there is.
std::optional<uint64_t> ThrottledPeriods() {
  const CgroupPaths paths = ParseCgroupPaths(Text("/proc/self/cgroup"));
  std::optional<uint64_t> all;
  const auto add = [&all](const std::string& stat) {
    if (const auto periods = NumberAfter(stat, "nr_throttled")) {
      all = all.value_or(0) + *periods;
    }
  };
  for (const std::string& folder : SelfAndParents(paths.unified)) {
    add(CgroupText("", folder, "cpu.stat"));
  }
  for (const std::string& folder : SelfAndParents(paths.cpu)) {
    add(CgroupText("/cpu", folder, "cpu.stat"));
  }
  return all;
}

std::vector<uint32_t> AllowedCpus() {
  std::vector<uint32_t> cpus;
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) {
        cpus.push_back(cpu);
      }
    }
  }
#endif
  return cpus;
}

}  // namespace

std::optional<CpuTicks> ParseCpuTicks(std::string_view stat) {
  std::array<uint64_t, 8> fields{};  // user nice system idle iowait irq softirq steal
  const std::string_view line = stat.substr(0, stat.find('\n'));
  if (!line.starts_with("cpu ")) {
    return std::nullopt;
  }
  size_t count = 0;
  for (const std::string_view word : Split(line.substr(4), ' ')) {
    if (word.empty() || count == fields.size()) {
      continue;
    }
    const auto value = LeadingNumber(word);
    if (!value) {
      return std::nullopt;
    }
    fields[count++] = *value;
  }
  if (count < 4) {
    return std::nullopt;
  }
  const auto [user, nice, system, idle, iowait, irq, softirq, steal] = fields;
  return CpuTicks{user + nice + system + irq + softirq, idle + iowait, steal};
}

std::optional<uint64_t> NumberAfter(std::string_view text, std::string_view key) {
  for (const std::string_view line : Split(text, '\n')) {
    if (line.starts_with(key) && line.size() > key.size() &&
        (line[key.size()] == ' ' || line[key.size()] == ':')) {
      return LeadingNumber(line.substr(key.size() + 1));
    }
  }
  return std::nullopt;
}

std::string_view ChosenOf(std::string_view choices) {
  const size_t open = choices.find('[');
  const size_t close = choices.find(']');
  return open == std::string_view::npos || close == std::string_view::npos || close < open
             ? std::string_view()
             : choices.substr(open + 1, close - open - 1);
}

std::optional<std::vector<uint32_t>> ParseCpuList(std::string_view text) {
  std::vector<uint32_t> cpus;
  text = Trim(text);
  if (text.empty()) {
    return cpus;
  }
  for (const std::string_view range : Split(text, ',')) {
    const auto ends = Cut(range, "-");
    const auto first = LeadingNumber(ends ? ends->first : range);
    const auto last = ends ? LeadingNumber(ends->second) : first;
    if (!first || !last || *first > *last || *last >= kCpusMax) {
      return std::nullopt;
    }
    for (uint64_t cpu = *first; cpu <= *last; ++cpu) {
      cpus.push_back(static_cast<uint32_t>(cpu));
    }
  }
  return cpus;
}

CgroupPaths ParseCgroupPaths(std::string_view text) {
  CgroupPaths paths;
  for (const std::string_view line : Split(text, '\n')) {
    const auto number = Cut(line, ":");
    const auto parts = number ? Cut(number->second, ":") : std::nullopt;
    if (!parts) {
      continue;
    }
    if (parts->first.empty()) {
      paths.unified = parts->second;
    }
    for (const std::string_view controller : Split(parts->first, ',')) {
      if (controller == "cpu") {
        paths.cpu = parts->second;
      } else if (controller == "memory") {
        paths.memory = parts->second;
      }
    }
  }
  return paths;
}

std::vector<std::string> SelfAndParents(std::string_view folder) {
  std::vector<std::string> folders;
  while (!folder.empty() && folder != "/") {
    folders.emplace_back(folder);
    const size_t slash = folder.rfind('/');
    folder = slash == std::string_view::npos ? std::string_view() : folder.substr(0, slash);
  }
  folders.emplace_back();
  return folders;
}

std::optional<double> ParseCpuMax(std::string_view text) {
  const auto parts = Cut(Trim(text), " ");
  const auto quota =
      parts ? LeadingNumber(parts->first) : std::nullopt;  // "max" and "-1" have none
  const auto period = parts ? LeadingNumber(parts->second) : std::nullopt;
  return !quota || !period || *period == 0
             ? std::nullopt
             : std::optional(static_cast<double>(*quota) / static_cast<double>(*period));
}

std::optional<uint64_t> ParseMemoryLimit(std::string_view text) {
  const auto limit = LeadingNumber(text);
  return limit && *limit < uint64_t{1} << 60 ? limit : std::nullopt;
}

MachineFacts ReadMachineFacts() {
  MachineFacts facts;
  const std::string memory = Text("/proc/meminfo");
  const auto bytes = [&memory](std::string_view key) -> std::optional<uint64_t> {
    const auto kib = NumberAfter(memory, key);
    return kib ? std::optional(*kib * 1024) : std::nullopt;
  };
  facts.memory_total = bytes("MemTotal");
  facts.memory_available = bytes("MemAvailable");
  const auto swap = bytes("SwapTotal");
  const auto swap_free = bytes("SwapFree");
  if (swap && swap_free) {
    facts.swap_used = *swap - std::min(*swap, *swap_free);
  }
  facts.huge_pages = ChosenOf(Text("/sys/kernel/mm/transparent_hugepage/enabled"));
  const auto nodes = ParseCpuList(Text("/sys/devices/system/node/has_cpu"));
  for (const uint32_t node : nodes.value_or(std::vector<uint32_t>())) {
    const auto cpus =
        ParseCpuList(Text("/sys/devices/system/node/node" + std::to_string(node) + "/cpulist"));
    if (cpus && !cpus->empty()) {
      facts.node_cpus.push_back(*cpus);
    }
  }
  facts.allowed_cpus = AllowedCpus();
  for (const uint32_t cpu : facts.allowed_cpus) {
    const std::string governor(Trim(
        Text("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpufreq/scaling_governor")));
    if (!governor.empty() && std::find(facts.governors.begin(), facts.governors.end(), governor) ==
                                 facts.governors.end()) {
      facts.governors.push_back(governor);
    }
  }
  ReadCgroup(facts);
  return facts;
}

MachineCounters ReadMachineCounters() {
  MachineCounters counters;
  counters.ticks = ParseCpuTicks(Text("/proc/stat"));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  counters.own_ns = NsOf(usage.ru_utime) + NsOf(usage.ru_stime);
  const std::string events = Text("/proc/vmstat");
  const auto in = NumberAfter(events, "pswpin");
  const auto out = NumberAfter(events, "pswpout");
  if (in && out) {
    counters.swapped_pages = *in + *out;
  }
  counters.throttled = ThrottledPeriods();
  return counters;
}

}  // namespace fak::perf
