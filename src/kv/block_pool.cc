#include "kv/block_pool.h"

#include "base/result.h"

namespace fak::kv {

BlockPool::BlockPool(uint32_t blocks) : counts_(blocks, 0), cached_(blocks, false) {
  free_.reserve(blocks);
  for (uint32_t i = blocks; i > 0; --i) {
    free_.push_back(BlockId{i - 1});
  }
}

BlockId BlockPool::Allocate() {
  if (free_.empty()) {
    return tensor::kNoBlock;
  }
  const BlockId block = free_.back();
  free_.pop_back();
  counts_[static_cast<uint32_t>(block)] = 1;
  return block;
}

void BlockPool::Hold(BlockId block) {
  const auto i = static_cast<uint32_t>(block);
  CHECK(counts_[i] > 0) << "block " << i << " is free";
  cached_only_ -= only_cached(i) ? 1 : 0;
  ++counts_[i];
}

void BlockPool::Release(BlockId block) {
  const auto i = static_cast<uint32_t>(block);
  CHECK(counts_[i] > 0) << "block " << i << " is free";
  cached_only_ -= only_cached(i) ? 1 : 0;
  --counts_[i];
  cached_only_ += only_cached(i) ? 1 : 0;
  if (counts_[i] == 0) {
    CHECK(!cached_[i]) << "block " << i << " is still in the tree";
    free_.push_back(block);
  }
}

void BlockPool::SetCached(BlockId block, bool cached) {
  const auto i = static_cast<uint32_t>(block);
  cached_only_ -= only_cached(i) ? 1 : 0;
  cached_[i] = cached;
  cached_only_ += only_cached(i) ? 1 : 0;
}

}  // namespace fak::kv
