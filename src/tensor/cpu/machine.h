#pragma once

#include <cstdint>

namespace fak::tensor::cpu {

struct MachineMemory {
  uint64_t total = 0;      // bytes that this process could ever take
  uint64_t available = 0;  // bytes that it may take now without swapping; 0 if unknown
};

// The machine's memory, or that of the control group if it is less.
MachineMemory ReadMachineMemory();

// Physical cores among the CPUs that this process may use, at least 1. A second thread of a core
// adds nothing to bandwidth, and takes its share of the first one's cache.
int PhysicalCores();

}  // namespace fak::tensor::cpu
