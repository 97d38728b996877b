#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/limits.h"
#include "fleet/residency_index.h"
#include "wire/kv_event.h"

namespace fak::fleet {

// What became of a replica's KV events. Only grows.
struct ResidencyFeedStats {
  uint64_t stored = 0;           // blocks, in one more medium
  uint64_t removed = 0;          // blocks, from one medium
  uint64_t duplicates = 0;       // blocks stored where they were already
  uint64_t unknown_parents = 0;  // stored events behind a block that isn't known
  uint64_t unknown_blocks = 0;   // that were moved or removed, and weren't there as far as we knew
  uint64_t left_out = 0;         // stored events with an adapter or extra keys, from there on
  uint64_t ignored = 0;          // events of caches that no prompt's prefix can be looked up in
  uint64_t malformed = 0;        // stored events whose tokens don't fit their blocks
  uint64_t late = 0;             // batches of a generation that was over
  uint64_t cleared = 0;          // times that a rank's cache was emptied
  uint64_t forgotten = 0;        // blocks, for want of room
};

// Keeps the residency index true to what one replica says of its cache.
//
// A block, of whatever size, counts as the units of 16 tokens that lie in it: a unit that lies in
// several is held while all of them are. A block may lie in several media, and is held while it is
// in the device's or the host's memory; storage and pools that replicas share don't count. A
// removal takes one medium, however often the block was stored there. Blocks with equal tokens
// (ranks, an offloading connector's own blocks) hold a unit until the last of them goes.
//
// - Only plain text is indexed. Blocks with an adapter or extra keys (images), and what follows
//   them, are left out: no prompt's unit keys know of either. The salt is part of the keys, so
//   prompts must be keyed with the salt that this engine was given.
// - Of several groups of layers that keep the whole prefix the first that is heard of counts.
// - Ranks have caches, generations and hashes of their own; a unit is held if any rank has it.
//   Beyond limits::kKvEventRanksMax they are ignored.
// - Blocks known: at most `blocks_max` pieces of a unit or less, about 80 bytes each. Beyond, the
//   path goes whose end was stored longest ago, from its end.
//
// What was only routed here (ResidencyIndex::Add) and no event confirmed goes when its request
// ends, if the replica's events are live: OnEnded().
//
// Any thread; one call at a time gets on.
class ResidencyFeed {
 public:
  // The index must outlive it.
  ResidencyFeed(ResidencyIndex& index, ReplicaId replica,
                size_t blocks_max = limits::kResidencyBlocksMax);
  ~ResidencyFeed();

  // For driver::KvEventSource::Subscribe().
  void OnBatch(const wire::KvEventBatch& batch);
  // A request that was routed here is over. `keys`: what was added for it; `cached_tokens`: of its
  // prompt, as the engine said (0: it didn't), which it had without any event.
  void OnEnded(std::span<const uint64_t> keys, int64_t cached_tokens);
  // Our own knowledge that the cache is gone: the replica is new, down, asleep, its cache was
  // reset. Generations are forgotten, too: a new driver begins them anew.
  void Clear();

  // The replica has stored something since its cache was last emptied: it does tell.
  bool live() const;
  ResidencyFeedStats stats() const;
  size_t bytes() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace fak::fleet
