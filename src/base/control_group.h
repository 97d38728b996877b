#pragma once

#include <cstdint>
#include <string>

#include "base/function_ref.h"

namespace fak {

// What the control groups of Linux let this process use: its own group and all above it that can be
// seen, of version 1 and 2. The strictest counts.
struct GroupLimits {
  static constexpr uint64_t kUnlimited = UINT64_MAX;
  uint64_t memory_bytes = kUnlimited;
  // Of those, what is left. File contents that the system may drop count as left.
  uint64_t memory_left_bytes = kUnlimited;
  int cpus = 0;  // the quota in whole CPUs, rounded up; 0: none

  friend bool operator==(const GroupLimits&, const GroupLimits&) = default;
};

// The text of a file; empty when there is none.
using FileText = FunctionRef<std::string(const std::string& path)>;

// From the texts of /proc/self/mountinfo, /proc/self/cgroup and the groups' files. Pure, but for
// what text_of does.
GroupLimits GroupLimitsFrom(FileText text_of);

// Of this process now. Blocks for some small reads; any thread.
GroupLimits ReadGroupLimits();

}  // namespace fak
