#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "perf/route_trace.h"

// What a server is loaded with: prompts, answer lengths and times, fixed by a seed, the same for
// every server. Pure functions, any thread.
namespace fak::perf {

struct ServeRequest {
  int64_t at_ns = 0;  // since the run's start; 0 in a closed loop
  std::string prompt;
  uint32_t output_tokens = 1;
};

// Prompts are words of which nearly every vocabulary has one token each, so lengths are in words;
// what the servers count is in the figures.
struct SyntheticWorkload {
  uint32_t requests = 100;
  uint32_t input_words = 512;  // without the prefix
  uint32_t output_tokens = 128;
  // Both lengths are drawn evenly from [(1 - r) length, (1 + r) length], as vLLM's
  // --random-range-ratio has it. 0: always the length itself.
  double range_ratio = 0;
  uint32_t prefix_words = 0;  // in front, shared by all requests with the same prefix
  uint32_t prefixes = 1;      // so many different ones, drawn evenly
  // Requests a second, arriving in an open loop; 0: a closed loop, all at 0. The gaps are drawn
  // from a gamma distribution of shape `burstiness` (1: a Poisson process; below it bursts).
  double rate = 0;
  double burstiness = 1;
  uint64_t seed = 1;
};
std::vector<ServeRequest> MakeSynthetic(const SyntheticWorkload& workload);

struct TracedWorkload {
  double speed = 1;  // 2: twice as fast as the trace's times; 0: a closed loop
  uint32_t requests_max = 100;
  uint64_t seed = 1;
};
// A trace's first requests: 512 words a block, the same ones for the same block, so that what its
// requests share, prompts share.
std::vector<ServeRequest> MakeFromTrace(const RouteTrace& trace, const TracedWorkload& workload);

}  // namespace fak::perf
