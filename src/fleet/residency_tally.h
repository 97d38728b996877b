#pragma once

#include <cstdint>
#include <mutex>

namespace fak::fleet {

// How far the residency index was from what the engines said afterwards (usage.cached_tokens). Only
// for requests whose engine says it. Any thread.
class ResidencyTally {
 public:
  // Sums over requests; only grow.
  struct Figures {
    uint64_t requests = 0;
    uint64_t prompt_tokens = 0;
    uint64_t estimated_tokens = 0;  // of these, cached as the index had it when the request left
    uint64_t cached_tokens = 0;     // the same as the engine had it
    uint64_t over_tokens = 0;       // estimated where the engine had fewer
    uint64_t under_tokens = 0;      // cached where we estimated fewer
    // Share of prompt tokens that were misjudged, either way. Engines compute a prompt's last token
    // in any case, and cache whole blocks only: up to a block a request isn't the index's fault.
    double error() const;
  };

  // All of one prompt. Figures that can't be are cut to what can.
  void Count(int64_t prompt_tokens, int64_t estimated_tokens, int64_t cached_tokens);
  Figures figures() const;

 private:
  mutable std::mutex mutex_;
  Figures figures_;  // guarded by mutex_
};

}  // namespace fak::fleet
