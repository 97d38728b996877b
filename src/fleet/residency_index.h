#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fleet/router.h"

namespace fak::fleet {

// Who is believed to hold which prefix: for each unit of a prompt (kv/unit_keys.h) the replicas
// that have it. Bounded: beyond its size the pairs (unit, replica) that were used longest ago go.
// Any thread.
class ResidencyIndex {
 public:
  explicit ResidencyIndex(size_t pairs_max);
  ~ResidencyIndex();

  // For each of `replicas`: how many of the first units in `keys` it holds, without a gap.
  std::vector<uint32_t> Match(std::span<const uint64_t> keys,
                              std::span<const ReplicaId> replicas) const;
  // The replica has these units, or will when the request that was routed there has run; counts as
  // a use of them.
  void Add(ReplicaId replica, std::span<const uint64_t> keys);
  void Remove(ReplicaId replica, std::span<const uint64_t> keys);
  // It holds nothing any more: restarted, asleep, its cache emptied, taken out.
  void Clear(ReplicaId replica);

  size_t pairs() const;
  size_t bytes() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace fak::fleet
