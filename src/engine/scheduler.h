#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/sequence.h"
#include "kv/block_pool.h"
#include "kv/prefix_tree.h"

namespace fak::engine {

// Names and defaults as vLLM has them where it has them; rows and sequences are those of a small
// machine. Flags of the same names set them.
struct SchedulerOptions {
  uint32_t max_num_seqs = 32;
  uint32_t max_num_batched_tokens = 512;
  uint32_t long_prefill_token_threshold = 0;  // rows of one sequence in a step; 0: no bound
  uint32_t block_size = 16;
  bool enable_prefix_caching = true;
  // Rows of a step whose logits are wanted: one of each sequence, or some of a scored prompt.
  uint32_t logit_rows_max() const { return max_num_seqs; }
  // A waiting sequence gains one level of priority each time this passes.
  int64_t aging_ns = 10 * kNsPerSecond;
};

// Rows [sequence->computed, + rows) of a sequence go into this step.
struct Slice {
  Sequence* sequence = nullptr;
  uint32_t rows = 0;
  bool samples() const { return rows == sequence->pending(); }
};

// Decides what a step computes: first a row of every sequence that generates, then chunks of
// prompts, then waiting sequences, until the budget of rows is spent. So a long prompt stalls a
// running stream for one chunk at most. Which waiting sequence goes first: the lowest priority
// value (less one for each `aging` waited), then the tenant that got least, in rows over its
// weight, then order of arrival. When blocks run out, the running sequence of the highest priority
// value that came last loses its blocks and waits again; it computes the same bits anew. One that
// runs alone keeps them, and the cache gives way to it altogether.
//
// Engine thread only. A plan costs O(running + waiting).
class Scheduler {
 public:
  // Copies the first `positions` positions of a block (Backend::CopyBlock).
  using CopyBlock = std::function<void(kv::BlockId from, kv::BlockId to, uint32_t positions)>;

  Scheduler(const SchedulerOptions& options, kv::BlockPool& pool, kv::PrefixTree& tree,
            const Clock& clock, CopyBlock copy_block);

  void Add(Sequence& sequence);
  // The sequence ended, for whatever reason. keep: what it computed may be cached.
  void Remove(Sequence& sequence, bool keep);

  // Slices in row order; empty when there is nothing to do. Blocks for all rows are in place and
  // owned by their sequences alone.
  std::span<const Slice> Plan();
  // The planned rows were computed. Call before sampled tokens are appended.
  void Commit();

  uint32_t running() const { return static_cast<uint32_t>(running_.size()); }
  uint32_t waiting() const { return static_cast<uint32_t>(waiting_.size()); }
  uint64_t backlog_tokens() const;  // admitted and not yet computed
  uint64_t preemptions() const { return preemptions_; }
  bool idle() const { return running_.empty() && waiting_.empty(); }

 private:
  bool Schedule(Sequence& sequence);
  bool Admit(Sequence& sequence);
  void TakeCached(Sequence& sequence);
  bool MakeRoom(Sequence& sequence, uint32_t end);
  bool EnsureFree(uint32_t blocks);
  void Preempt(Sequence& sequence);
  // Keeps its first positions for others, where that is wanted.
  void Remember(const Sequence& sequence, uint32_t positions);
  void ReleaseBlocks(Sequence& sequence);
  void RunningInsert(Sequence& sequence);
  Sequence* NextWaiting() const;
  uint32_t BlocksFor(uint32_t tokens) const {
    return (tokens + options_.block_size - 1) / options_.block_size;
  }

  const SchedulerOptions options_;
  kv::BlockPool& pool_;
  kv::PrefixTree& tree_;
  const Clock& clock_;
  const CopyBlock copy_block_;

  std::vector<Sequence*> waiting_;
  std::vector<Sequence*> running_;  // lowest priority value first, then arrival
  std::vector<Slice> plan_;
  uint32_t rows_left_ = 0;
  uint32_t logit_rows_left_ = 0;
  std::map<std::string, double, std::less<>> served_;  // rows over weight, of tenants with work
  uint64_t preemptions_ = 0;
};

}  // namespace fak::engine
