#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What the system says of itself that matters to a measurement. Parsers of Linux's files, as
// functions of their text; elsewhere the files are absent and the facts empty.
namespace fak::perf {

// The first line of /proc/stat, in ticks since the start; steal is what the hypervisor says that it
// took.
struct CpuTicks {
  uint64_t busy = 0;  // without steal
  uint64_t idle = 0;  // waiting for a disk too
  uint64_t steal = 0;
  uint64_t all() const { return busy + idle + steal; }
};
std::optional<CpuTicks> ParseCpuTicks(std::string_view stat);

// The number behind `key` in a text of "key value" or "key: value kB" lines.
std::optional<uint64_t> NumberAfter(std::string_view text, std::string_view key);

// The word in brackets: of "always [madvise] never", madvise. Empty: there is none.
std::string_view ChosenOf(std::string_view choices);

// "0-3,8" as numbers; nullopt where it isn't such a list, or has more than 2^16.
std::optional<std::vector<uint32_t>> ParseCpuList(std::string_view text);

// Folders of a control group's files, from /proc/self/cgroup: of version 2, else of version 1 by
// controller. Within /sys/fs/cgroup; empty: none is named.
struct CgroupPaths {
  std::string unified;
  std::string cpu;
  std::string memory;
};
CgroupPaths ParseCgroupPaths(std::string_view text);
// Of "/a/b": "/a/b", "/a" and "". A limit of any of them holds.
std::vector<std::string> SelfAndParents(std::string_view folder);

// Of cpu.max: processors' time that the group may take, nullopt without a limit.
std::optional<double> ParseCpuMax(std::string_view text);
// A number of bytes, or "max"; version 1 says numbers near 2^63 for that.
std::optional<uint64_t> ParseMemoryLimit(std::string_view text);

struct MachineFacts {
  std::optional<uint64_t> memory_total;
  std::optional<uint64_t> memory_available;
  std::optional<uint64_t> swap_used;
  std::string huge_pages;                        // "always", "madvise", "never"; empty: not said
  std::vector<std::vector<uint32_t>> node_cpus;  // a list a NUMA node that has processors
  std::vector<uint32_t> allowed_cpus;            // of this process
  std::vector<std::string> governors;            // each once
  std::optional<double> cgroup_cpus;             // the least limit; nullopt: none
  std::optional<uint64_t> cgroup_memory;         // likewise
  std::optional<uint64_t> cgroup_memory_used;    // of the group with that limit
};
MachineFacts ReadMachineFacts();

// What counts up, to be read before and after something.
struct MachineCounters {
  std::optional<CpuTicks> ticks;
  uint64_t own_ns = 0;                    // processors' time of this process
  std::optional<uint64_t> swapped_pages;  // in and out
  std::optional<uint64_t> throttled;      // periods in which the control group's quota was used up
};
MachineCounters ReadMachineCounters();

}  // namespace fak::perf
