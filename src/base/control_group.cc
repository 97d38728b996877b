#include "base/control_group.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/limits.h"
#include "base/strings.h"

namespace fak {
namespace {

constexpr uint64_t kCpusMax = 4096;

// Where a hierarchy of groups is seen, and from which of its groups on.
struct Mount {
  bool v2 = false;
  std::vector<std::string_view> controllers;  // v1 (and other options)
  std::string_view root;
  std::string_view point;
};

bool Has(const std::vector<std::string_view>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// "30 24 0:26 /docker/abc /sys/fs/cgroup/memory ro shared:9 - cgroup cgroup rw,memory" and others.
std::vector<Mount> ReadMounts(std::string_view mountinfo) {
  std::vector<Mount> mounts;
  for (const std::string_view line : Split(mountinfo, '\n')) {
    const auto halves = Cut(line, " - ");
    if (!halves) {
      continue;
    }
    const std::vector<std::string_view> place = Split(halves->first, ' ');
    const std::vector<std::string_view> kind = Split(halves->second, ' ');
    if (place.size() >= 5 && kind.size() >= 3 && (kind[0] == "cgroup" || kind[0] == "cgroup2")) {
      mounts.push_back({kind[0] == "cgroup2", Split(kind[2], ','), place[3], place[4]});
    }
  }
  return mounts;
}

// The folders of a process's group and of those above it, as far as the mount shows them. One whose
// group lies elsewhere, as a container that sees the names of its host, gets what is mounted.
std::vector<std::string> FoldersOf(std::string_view group, const Mount& mount) {
  const std::string_view root = mount.root == "/" ? "" : mount.root;
  std::string_view below = group == "/" ? "" : group;
  const bool inside =
      below.starts_with(root) && (below.size() == root.size() || below[root.size()] == '/');
  below = inside && below.find("/..") == std::string_view::npos ? below.substr(root.size()) : "";
  std::vector<std::string> folders;
  for (; !below.empty(); below = below.substr(0, below.rfind('/'))) {
    folders.push_back(std::string(mount.point) + std::string(below) + "/");
  }
  folders.push_back(std::string(mount.point) + "/");
  return folders;
}

std::optional<uint64_t> NumberIn(FileText text_of, const std::string& path) {
  return ParseUint(Trim(text_of(path)));  // none: "max", "-1", or no file
}

// The value of "name value" in a file of such lines.
uint64_t NumberAfter(std::string_view text, std::string_view name) {
  for (const std::string_view line : Split(text, '\n')) {
    if (const auto pair = Cut(line, " "); pair && pair->first == name) {
      return ParseUint(pair->second).value_or(0);
    }
  }
  return 0;
}

void TakeMemory(FileText text_of, const std::string& folder, bool v2, GroupLimits& limits) {
  const auto limit = NumberIn(text_of, folder + (v2 ? "memory.max" : "memory.limit_in_bytes"));
  if (!limit) {
    return;
  }
  limits.memory_bytes = std::min(limits.memory_bytes, *limit);
  const uint64_t all =
      NumberIn(text_of, folder + (v2 ? "memory.current" : "memory.usage_in_bytes")).value_or(0);
  const uint64_t droppable =
      NumberAfter(text_of(folder + "memory.stat"), v2 ? "inactive_file" : "total_inactive_file");
  const uint64_t used = all - std::min(all, droppable);
  limits.memory_left_bytes = std::min(limits.memory_left_bytes, *limit - std::min(*limit, used));
}

void TakeCpus(FileText text_of, const std::string& folder, bool v2, GroupLimits& limits) {
  std::optional<uint64_t> quota;
  std::optional<uint64_t> period;
  if (v2) {
    const std::string text = text_of(folder + "cpu.max");
    if (const auto pair = Cut(Trim(text), " ")) {  // "150000 100000"; "max 100000" has no number
      quota = ParseUint(pair->first);
      period = ParseUint(pair->second);
    }
  } else {
    quota = NumberIn(text_of, folder + "cpu.cfs_quota_us");
    period = NumberIn(text_of, folder + "cpu.cfs_period_us");
  }
  if (!quota || !period || *quota == 0 || *period == 0) {
    return;
  }
  const uint64_t whole = *quota / *period + (*quota % *period != 0 ? 1 : 0);
  const int cpus = static_cast<int>(std::min(whole, kCpusMax));
  limits.cpus = limits.cpus == 0 ? cpus : std::min(limits.cpus, cpus);
}

}  // namespace

GroupLimits GroupLimitsFrom(FileText text_of) {
  const std::string mountinfo = text_of("/proc/self/mountinfo");
  const std::string groups = text_of("/proc/self/cgroup");
  const std::vector<Mount> mounts = ReadMounts(mountinfo);
  GroupLimits limits;
  for (const std::string_view line : Split(groups, '\n')) {  // "4:cpu,cpuacct:/a/b", "0::/a/b"
    const auto after_number = Cut(line, ":");
    const auto parts = after_number ? Cut(after_number->second, ":") : std::nullopt;
    if (!parts) {
      continue;
    }
    const bool v2 = parts->first.empty();
    const std::vector<std::string_view> controllers = Split(parts->first, ',');
    for (const Mount& mount : mounts) {
      if (mount.v2 != v2 || (!v2 && !Has(mount.controllers, controllers.front()))) {
        continue;
      }
      for (const std::string& folder : FoldersOf(parts->second, mount)) {
        if (v2 || Has(controllers, "memory")) {
          TakeMemory(text_of, folder, v2, limits);
        }
        if (v2 || Has(controllers, "cpu")) {
          TakeCpus(text_of, folder, v2, limits);
        }
      }
    }
  }
  return limits;
}

GroupLimits ReadGroupLimits() {
  return GroupLimitsFrom([](const std::string& path) {
    return ReadFile(path, limits::kTextInputBytesMax).value_or("");
  });
}

}  // namespace fak
