#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "perf/route_trace.h"

namespace fak::perf {

// How an engine of the simulation works: continuous batching with chunked prompts. A step takes a
// token of each sequence that generates, and prompt tokens in order of arrival up to `step_tokens`;
// it lasts max(step_us, prompt tokens / prefill_tokens_per_s) and sequence_us a generating
// sequence.
struct SimEngine {
  int64_t prefill_tokens_per_s = 8000;
  int64_t step_us = 20'000;
  int64_t sequence_us = 100;
  int64_t step_tokens = 2048;
  int64_t sequences_max = 256;
  int64_t kv_blocks = 1000;  // of kTraceBlockTokens

  friend bool operator==(const SimEngine&, const SimEngine&) = default;
};

// The blocks of one replica: those of running requests, and what is cached, of which the least
// recently used go when there is need; of one request's the last ones first. Not thread-safe.
class SimCache {
 public:
  explicit SimCache(int64_t blocks) : free_(blocks) {}

  // How many of the first keys are there.
  size_t Match(std::span<const uint64_t> keys) const;
  // Holds these blocks and `more` without a key until Release(). False, and nothing happens, where
  // they don't fit beside what is held. Appends the keys that went for it.
  bool Hold(std::span<const uint64_t> keys, int64_t more, std::vector<uint64_t>& evicted);
  void Release(std::span<const uint64_t> keys, int64_t more);

 private:
  struct Block {
    int holders = 0;
    std::list<uint64_t>::iterator unheld = {};  // valid while holders is 0
  };
  int64_t free_;
  std::unordered_map<uint64_t, Block> blocks_;
  std::list<uint64_t> unheld_;  // least recently used first
};

// One replica. Time is the caller's: it starts a step with Next(), and ends it at its time with
// Finish(). Not thread-safe.
class SimReplica {
 public:
  struct Ended {
    size_t request = 0;
    bool whole = false;           // its answer; else its prompt alone, and its first token is out
    int64_t uncached_tokens = 0;  // of its prompt
  };
  // What its KV events say.
  struct Change {
    bool stored = false;
    size_t request = 0;  // stored: whose blocks, from `first` on
    size_t first = 0;
    std::vector<uint64_t> keys = {};  // removed
  };

  SimReplica(const SimEngine& engine, std::span<const TraceRequest> requests)
      : engine_(engine), requests_(requests), cache_(engine.kv_blocks) {}

  void Submit(size_t request) { waiting_.push_back(request); }
  bool busy() const { return step_.has_value(); }
  // Starts a step and returns when it ends; nullopt: nothing to do. Not while busy.
  std::optional<int64_t> Next(int64_t now_us);
  // A request came within steps that only generate: they are cut at the end of the one that is
  // being made. Returns the new end; nullopt: it stays.
  std::optional<int64_t> CutShort(int64_t now_us);
  // The step has ended.
  void Finish(std::vector<Ended>& ended);
  std::vector<Change> TakeChanges();

  int64_t backlog_tokens() const;  // what its cache now says of those that wait
  int64_t in_flight() const;
  int64_t computed_tokens() const { return computed_tokens_; }

 private:
  struct Sequence {
    size_t request = 0;
    int64_t uncached_tokens = 0;
    int64_t prompt_left = 0;
    int64_t output_left = 0;
    size_t cached_blocks = 0;
    int64_t step_tokens = 0;  // of its prompt, in this step
  };
  struct Step {
    int64_t start_us = 0;
    int64_t each_us = 0;
    int64_t count = 1;  // steps like it, made together: more than one only without prompts
  };

  bool Admit();
  int64_t MoreBlocks(const TraceRequest& request) const;

  const SimEngine engine_;
  const std::span<const TraceRequest> requests_;
  SimCache cache_;
  std::deque<size_t> waiting_;
  std::deque<Sequence> prompts_;  // being computed
  std::vector<Sequence> generating_;
  std::optional<Step> step_;
  std::vector<Change> changes_;
  int64_t computed_tokens_ = 0;
};

// The blocks that a request holds while it runs.
int64_t SimBlocks(const TraceRequest& request);

}  // namespace fak::perf
