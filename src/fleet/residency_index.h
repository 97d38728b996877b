// Hot path: bench/micro/residency_bench.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"
#include "fleet/router.h"

namespace fak::fleet {

// Who is believed to hold which prefix: for each unit of a prompt (kv/unit_keys.h) the replicas
// that have it. Bounded: beyond its size the pairs (unit, replica) that were used longest ago go.
// A pair is never used later than those of the units before it, so that a path goes from its end.
//
// A pair stands for one of two things: a request was routed there, so that the replica will have
// the unit (Add), or the engine has said that it has it (Confirm, residency_feed.h).
//
// Any thread. Lookups run side by side; a change holds them up for 64 units at a time, some 50 us,
// so a lookup may see the end of a long change and not its beginning yet, and then answers too
// little, never too much. Of 6,250 units for 64 replicas a lookup takes 0.4 ms out of main memory.
// About 56 bytes a pair whose unit has no other replica, and 28 a further replica, for up to 64
// replicas; 8 a unit more for each further 64.
class ResidencyIndex {
 public:
  // `random`: for a hash that clients can't foresee.
  explicit ResidencyIndex(size_t pairs_max, RandomSource& random = RandomSource::Real());
  ~ResidencyIndex();

  // For each of `replicas`: how many of the first units in `keys` it holds, without a gap.
  std::vector<uint32_t> Match(std::span<const uint64_t> keys,
                              std::span<const ReplicaId> replicas) const;

  // A request with these units, from a prompt's first on, was routed to the replica. Counts as a
  // use of them. Ignored: a replica beyond limits::kResidencyReplicasMax of one time.
  void Add(ReplicaId replica, std::span<const uint64_t> keys);
  // The units of that request which no engine has confirmed go: its end, where the replica tells
  // what it stores and has not told these.
  void DropUnconfirmed(ReplicaId replica, std::span<const uint64_t> keys);

  // The engine has stored a block with these units, which follow the unit `after`, or start a
  // prompt. They count as used when `after` was: nothing new where the replica doesn't hold it.
  void Confirm(ReplicaId replica, std::optional<uint64_t> after, std::span<const uint64_t> keys);
  // The engine has dropped one of the blocks with these units: what no other block that it
  // confirmed stands for goes.
  void Remove(ReplicaId replica, std::span<const uint64_t> keys);

  // It holds nothing any more: restarted, asleep, its cache emptied, taken out. At once for
  // lookups; the time it takes here is that of removing each pair.
  void Clear(ReplicaId replica);

  size_t pairs() const;
  size_t bytes() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace fak::fleet
