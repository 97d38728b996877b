#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

// From the start of a process to a model's first token, with its file on the disk and in the page
// cache (`fak bench load`, docs/bench.md). A process can't start twice: each run is a child, which
// says when it got how far.
namespace fak::perf {

// What a child prints, as one line of JSON. Times are Clock::NowNs(), which all processes of a
// machine share.
struct LoadMoments {
  int64_t loaded_ns = 0;       // weights are where they are computed with
  int64_t first_token_ns = 0;  // the answer's first token is there
  uint64_t peak_bytes = 0;     // VmHWM then; 0 where the system doesn't say
  uint64_t weight_bytes = 0;   // of the file's tensors
  uint64_t kv_bytes = 0;       // that KV may come to take
  std::string isa = {};
  uint32_t threads = 0;

  std::string Line() const;
};
// kDataCorrupt when it is no such line.
[[nodiscard]] Result<LoadMoments> ParseLoadMoments(std::string_view line);

// The most memory that this process had at once; 0 where the system doesn't say.
uint64_t PeakBytes();

struct LoadRun {
  int64_t load_ns = 0;         // from the start of the process
  int64_t first_token_ns = 0;  // likewise
  uint64_t peak_bytes = 0;
  double cached_before = 0;  // share of the file in the page cache
};

// Runs argv, a program that prints LoadMoments, once; then what it said, and its run. cold: files
// are dropped from the page cache before.
struct LoadChild {
  LoadMoments moments;
  LoadRun run;
};
[[nodiscard]] Result<LoadChild> RunLoadChild(const std::vector<std::string>& argv,
                                             const std::vector<std::string>& files, bool cold);

struct LoadReport {
  std::string model;
  uint64_t file_bytes = 0;
  LoadMoments last = {};  // of which what doesn't differ between runs is shown
  uint32_t n_prompt = 0;
  std::vector<LoadRun> cold = {};
  std::vector<LoadRun> warm = {};
};
// Medians over the runs. Bytes of weights over the time to the first token.
double MedianFirstTokenMs(const std::vector<LoadRun>& runs);
double WeightsPerSecond(const LoadReport& report, const std::vector<LoadRun>& runs);

std::string LoadText(const LoadReport& report);
std::string LoadJson(const LoadReport& report);

}  // namespace fak::perf
