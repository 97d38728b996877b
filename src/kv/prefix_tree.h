#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kv/block_pool.h"

namespace fak::kv {

// Remembers which token paths have their KV in which blocks: a radix tree whose node is one block
// (or the partly filled last block of a path), keyed by the tokens inside. Tokens are compared, not
// only hashed, so a collision can't serve a wrong block. Each salt has a tree of its own: paths
// never match across salts. Prompt and generated tokens are alike.
//
// The tree holds every block that it names (BlockPool::Hold). Blocks that only the tree holds are
// evictable, leaf by leaf, the least recently used first.
// Engine thread only. Match and Insert cost O(tokens); Evict O(log nodes) a block.
class PrefixTree {
 public:
  PrefixTree(BlockPool& pool, uint32_t block_size);
  ~PrefixTree();
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  struct Match {
    std::vector<BlockId> blocks;         // the caller holds each; the last may be partly matched
    uint32_t tokens = 0;                 // matched, to the token
    StateSlot state = tensor::kNoState;  // checkpoint at or before `tokens`, recurrent models
    uint32_t state_tokens = 0;           // its position
  };
  // The longest known prefix of `tokens`, at most `tokens_max` long. Holds the blocks for the
  // caller and marks the path as used.
  Match Find(std::string_view salt, std::span<const int32_t> tokens, uint32_t tokens_max);

  // Remembers a path whose KV is complete. blocks[i] holds tokens [i·bs, (i+1)·bs). Where the tree
  // already has a block for the same tokens it keeps its own. A longer fill of a known partial
  // block replaces it. State checkpoints may be attached at a block boundary.
  void Insert(std::string_view salt, std::span<const int32_t> tokens,
              std::span<const BlockId> blocks);

  // Frees blocks that nobody but the tree holds until `wanted` are free in the pool or nothing is
  // left to evict. Returns how many were freed.
  uint32_t Evict(uint32_t wanted);

  // Exact removal: the whole branch at and below the given path (from its last token on), or
  // everything of a salt, or everything. Blocks that sequences still hold leave the tree too.
  // Returns how many nodes went.
  uint32_t Prune(std::string_view salt, std::span<const int32_t> path);
  uint32_t PruneAll(std::string_view salt);
  uint32_t Clear();

  uint32_t evictable() const;  // blocks that only the tree holds
  uint64_t nodes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fak::kv
