#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "perf/clock_guard.h"
#include "perf/machine_facts.h"

// What on this machine will spoil a measurement (`fak bench doctor`, docs/bench.md).
namespace fak::perf {

enum class Verdict : uint8_t {
  kOk,
  kNote,    // changes figures, the same way in every run
  kSpoils,  // makes runs differ from each other
};
std::string_view VerdictName(Verdict verdict);  // "ok", "note", "spoils"

struct Finding {
  std::string what;
  Verdict verdict = Verdict::kOk;
  std::string value;
  std::string advice;  // empty when all is well
};

// Everything that was looked at, and over what time the counters ran.
struct Examination {
  MachineFacts facts;
  MachineCounters before;
  MachineCounters after;
  int64_t elapsed_ns = 1;
  ClockGuard clock;
};

// Takes about 2 s, on `threads` threads. on_part: of RunClockGuard().
[[nodiscard]] Result<Examination> Examine(uint32_t threads,
                                          const std::function<void(uint32_t part)>& on_part);
std::vector<Finding> Judge(const Examination& examination);

bool Spoiled(const std::vector<Finding>& findings);
std::string FindingsText(const std::vector<Finding>& findings);
std::string FindingsJson(const std::vector<Finding>& findings);

}  // namespace fak::perf
