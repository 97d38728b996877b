#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "kv/block_pool.h"
#include "kv/event_log.h"

namespace fak::kv {

// Remembers which token paths have their KV in which blocks: a radix tree whose node is one block
// (or the partly filled last block of a path), keyed by the tokens inside. Tokens are compared, not
// only hashed, so a collision can't serve a wrong block. Each salt has a tree of its own: paths
// never match across salts. Prompt and generated tokens are alike.
//
// The tree holds every block that it names (BlockPool::Hold). Blocks that only the tree holds
// (BlockPool::cached_only) are evictable, leaf by leaf, the least recently used first.
// Engine thread only. Find and Insert cost O(tokens · log siblings); Evict O(log nodes) a block and
// a step over each older leaf that a sequence holds.
class PrefixTree {
 public:
  PrefixTree(BlockPool& pool, uint32_t block_size);
  ~PrefixTree();
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  // Tells of every whole block that enters or leaves the tree from now on, by its BlockKey(). The
  // log outlives the tree, or null is set.
  void set_event_log(EventLog* maybe_log) { maybe_log_ = maybe_log; }

  struct Match {
    std::vector<BlockId> blocks;  // the caller holds each; the last may be matched in part
    uint32_t tokens = 0;          // matched, to the token
    // Recurrent models: the deepest checkpoint at or before `tokens`, and its position.
    StateSlot state = tensor::kNoState;
    uint32_t state_tokens = 0;
  };
  // The longest known prefix of `tokens`, at most `tokens_max` long. Holds the blocks for the
  // caller and marks the path as used.
  Match Find(std::string_view salt, std::span<const int32_t> tokens, uint32_t tokens_max);

  // Remembers a path whose KV is complete. blocks[i] holds tokens [i·bs, (i+1)·bs). Where the tree
  // already has a block for the same tokens it keeps its own; a longer fill of a known partial
  // block replaces it. A state checkpoint may be given when the path ends at a block's edge; the
  // tree owns the slot from then on.
  void Insert(std::string_view salt, std::span<const int32_t> tokens,
              std::span<const BlockId> blocks, StateSlot state = tensor::kNoState);

  // Frees blocks that nobody but the tree holds until `wanted` were freed or nothing is left to
  // evict. Returns how many were freed.
  uint32_t Evict(uint32_t wanted);

  struct Pruned {
    uint32_t nodes = 0;        // that went
    uint32_t tokens_left = 0;  // of the path, that Find() would still match
  };
  // Exact removal: the nodes that hold the last token of `path`, and all below them; those before
  // stay. Blocks that sequences still hold leave the tree too.
  Pruned Prune(std::string_view salt, std::span<const int32_t> path);
  // All, or all under the salts that `goes` names. Return how many nodes went.
  uint32_t Clear();
  uint32_t ClearSalts(FunctionRef<bool(std::string_view salt)> goes);

  uint64_t nodes() const { return nodes_; }
  size_t salts() const;  // with at least one block, or not yet swept
  // Slots of checkpoints that left the tree since the last call; the caller may use them again.
  std::vector<StateSlot> TakeReleasedStates();

 private:
  struct Node;
  struct Forest;

  Node& Root(std::string_view salt);
  void Touch(Node& node);
  void AddLeaf(Node& node);
  void RemoveLeaf(Node& node);
  void Drop(Node& node);  // a childless node: out of the tree, its block released
  void DropEmptyRoots();
  uint32_t DropBranch(Node& node);  // a node and everything below

  BlockPool& pool_;
  const uint32_t block_size_;
  std::unique_ptr<Forest> forest_;
  std::vector<StateSlot> released_states_;
  EventLog* maybe_log_ = nullptr;
  uint64_t nodes_ = 0;
  uint64_t clock_ = 0;
};

}  // namespace fak::kv
