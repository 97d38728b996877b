#pragma once

#include <cstdint>
#include <vector>

#include "tensor/kv_spec.h"

namespace fak::kv {

using tensor::BlockId;
using tensor::StateSlot;

// Hands out the blocks of a back end's KV memory and counts who holds each. A block is free when
// its count is 0. Holders are sequences (their block tables) and the prefix tree; a block that more
// than one holds is read-only: who wants to append to it copies it first (Backend::CopyBlock).
// Knows ids only, never bytes. All operations O(1). Engine thread only.
class BlockPool {
 public:
  explicit BlockPool(uint32_t blocks);

  uint32_t total() const { return static_cast<uint32_t>(counts_.size()); }
  uint32_t free() const { return static_cast<uint32_t>(free_.size()); }
  // Blocks that nothing but the prefix tree holds: they come free on demand.
  uint32_t cached_only() const { return cached_only_; }

  // A block with count 1, or kNoBlock when none is free. The most recently freed goes first.
  BlockId Allocate();
  void Hold(BlockId block);     // count + 1; CHECKs that it is held already
  void Release(BlockId block);  // count - 1; free at 0
  uint32_t count(BlockId block) const { return counts_[static_cast<uint32_t>(block)]; }
  bool shared(BlockId block) const { return count(block) > 1; }
  // The prefix tree says which of the holds is its own.
  void SetCached(BlockId block, bool cached);

 private:
  bool only_cached(uint32_t i) const { return cached_[i] && counts_[i] == 1; }

  std::vector<uint32_t> counts_;
  std::vector<bool> cached_;
  std::vector<BlockId> free_;
  uint32_t cached_only_ = 0;
};

}  // namespace fak::kv
