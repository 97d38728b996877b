// Hot path: bench/micro/attention_bench.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/backend.h"
#include "tensor/cpu/workspace.h"
#include "tensor/program.h"

// How the attention of a step is divided into tasks.
namespace fak::tensor::cpu {

// Rows of one sequence that are served together, and the splits of 256 positions that they see.
// With a KV head it is a pair: `tasks` tasks of `splits_a_task` splits each, the last maybe fewer.
struct AttentionTile {
  uint32_t sequence = 0;
  uint32_t first_row = 0;  // of the step
  uint32_t rows = 0;
  uint32_t last_position = 0;  // of its last row
  uint32_t first_split = 0;
  uint32_t splits = 0;
  uint32_t splits_a_task = 0;
  uint32_t tasks = 0;
  size_t first_task = 0;        // those of KV head 0, then those of the others
  size_t first_pair = 0;        // of KV head 0
  uint64_t first_partials = 0;  // of KV head 0, in floats
};

struct AttentionPlan {
  HeadShape heads;
  uint32_t window = 0;
  std::vector<AttentionTile> tiles;
  size_t tasks = 0;
  // Some pair has several tasks. The results by split of all pairs then lie side by side in what
  // all threads have for them, and the last task of a pair combines. Otherwise a task is a pair and
  // uses its own thread's share.
  bool cut = false;
};

// The most pairs of a plan that is cut.
constexpr size_t PairsMax(int threads) {
  return static_cast<size_t>(threads) * 32;
}

// Fills in a plan that has its heads and window. Splits are divided where pairs alone would leave
// threads without work (decode of few sequences), if partials_a_thread floats of each thread hold
// the partials of all pairs.
void PlanAttention(std::span<const SequenceRows> sequences, int threads, uint64_t partials_a_thread,
                   AttentionPlan& plan);

}  // namespace fak::tensor::cpu
