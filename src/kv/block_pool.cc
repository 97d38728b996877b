#include "kv/block_pool.h"

namespace fak::kv {

BlockPool::BlockPool(uint32_t blocks) : counts_(blocks, 0) {
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
  uint32_t& count = counts_[static_cast<uint32_t>(block)];
  CHECK(count > 0) << "block " << static_cast<uint32_t>(block) << " is free";
  ++count;
}

void BlockPool::Release(BlockId block) {
  uint32_t& count = counts_[static_cast<uint32_t>(block)];
  CHECK(count > 0) << "block " << static_cast<uint32_t>(block) << " is free";
  if (--count == 0) {
    free_.push_back(block);
  }
}

}  // namespace fak::kv
