#include "tensor/cpu/machine.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <set>
#include <string>

#include "base/control_group.h"
#include "base/thread_pool.h"

#ifdef __linux__
#include <sched.h>
#endif

namespace fak::tensor::cpu {
namespace {

constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();

// The number in a file of one line; kUnknown if there is none.
uint64_t ReadNumber(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? value : kUnknown;
}

// "MemTotal:   24000000 kB" as bytes.
uint64_t MemInfo(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  std::string name;
  uint64_t kib = 0;
  std::string unit;
  while (file >> name >> kib && std::getline(file, unit)) {
    if (name == key) {
      return kib * 1024;
    }
  }
  return 0;
}

}  // namespace

MachineMemory ReadMachineMemory() {
  MachineMemory memory{MemInfo("MemTotal:"), MemInfo("MemAvailable:")};
  const GroupLimits limits = ReadGroupLimits();
  memory.total = std::min(memory.total, limits.memory_bytes);
  memory.available = std::min(memory.available, limits.memory_left_bytes);
  return memory;
}

int PhysicalCores() {
  const int usable = ThreadPool::UsableCpus();
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) {
    return usable;
  }
  std::set<std::pair<uint64_t, uint64_t>> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) {
      const std::string topology =
          "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
      const uint64_t core = ReadNumber(topology + "core_id");
      if (core == kUnknown) {
        return usable;
      }
      cores.emplace(ReadNumber(topology + "physical_package_id"), core);
    }
  }
  return std::clamp(static_cast<int>(cores.size()), 1, usable);
#else
  return usable;
#endif
}

}  // namespace fak::tensor::cpu
