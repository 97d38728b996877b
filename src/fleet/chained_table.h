// Hot path: bench/micro/residency_bench.cc.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace fak::fleet {

// A number in a table; no number.
inline constexpr uint32_t kNone = UINT32_MAX;

// Grows by chunks: what is in it stays where it is, and no call pays for copying all of it.
// Not thread-safe; const members may run at the same time.
template <class T>
class ChunkedArray {
 public:
  T& operator[](size_t i) { return chunks_[i / kChunk][i % kChunk]; }
  const T& operator[](size_t i) const { return chunks_[i / kChunk][i % kChunk]; }
  // Makes room for elements below `size`; new ones are T{}.
  void Reserve(size_t size) {
    while (chunks_.size() * kChunk < size) {
      chunks_.push_back(std::make_unique<T[]>(kChunk));
    }
  }
  size_t bytes() const {
    return chunks_.size() * kChunk * sizeof(T) + chunks_.capacity() * sizeof(chunks_[0]);
  }

 private:
  static constexpr size_t kChunk = 4096;
  std::vector<std::unique_ptr<T[]>> chunks_;
};

// A hash table of nodes that are named by numbers, which hold until the node is erased. It grows by
// one bucket with every node (linear hashing, Litwin 1980), so that there is never a moment when
// everything is hashed anew. Node: `uint32_t next` is the table's while the node is in it,
// `uint64_t Id() const` is what it is found by, and stays the same. `seed`: what nobody who chooses
// ids may know, or he would choose ids of one bucket. Threads as ChunkedArray.
template <class Node>
class ChainedTable {
 public:
  explicit ChainedTable(uint64_t seed) : seed_(seed) {
    heads_.Reserve(1);
    heads_[0] = kNone;
  }

  Node& operator[](uint32_t node) { return nodes_[node]; }
  const Node& operator[](uint32_t node) const { return nodes_[node]; }
  size_t size() const { return size_; }
  size_t numbers() const { return used_; }  // all that were ever given are below
  size_t bytes() const { return nodes_.bytes() + heads_.bytes(); }

  uint32_t Find(uint64_t id) const { return FindFrom(FirstOf(BucketOf(id)), id); }
  // Find() in steps, for those that look many up at once and hide the wait for memory.
  size_t BucketOf(uint64_t id) const {
    const uint64_t hash = Mix(id);
    const size_t mask = std::bit_ceil(buckets_) - 1;
    const size_t bucket = hash & mask;
    return bucket < buckets_ ? bucket : bucket & (mask >> 1);
  }
  void PrefetchBucket(size_t bucket) const { __builtin_prefetch(&heads_[bucket]); }
  uint32_t FirstOf(size_t bucket) const { return heads_[bucket]; }
  void Prefetch(uint32_t node) const { __builtin_prefetch(&nodes_[node]); }
  uint32_t FindFrom(uint32_t node, uint64_t id) const {
    while (node != kNone && nodes_[node].Id() != id) {
      node = nodes_[node].next;
    }
    return node;
  }

  // `node.Id()` must not be there yet. At most kNone nodes.
  uint32_t Insert(Node&& node) {
    uint32_t at = free_;
    if (at != kNone) {
      free_ = nodes_[at].next;
    } else {
      at = used_++;
      nodes_.Reserve(used_);
    }
    nodes_[at] = std::move(node);
    Link(at);
    if (++size_ > buckets_) {
      Split();
    }
    return at;
  }
  void Erase(uint32_t node) {
    uint32_t* link = &heads_[BucketOf(nodes_[node].Id())];
    while (*link != node) {
      link = &nodes_[*link].next;
    }
    *link = nodes_[node].next;
    nodes_[node] = Node{};
    nodes_[node].next = free_;
    free_ = node;
    --size_;
  }

 private:
  uint64_t Mix(uint64_t id) const {
    uint64_t mixed = (id ^ seed_) * 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 32)) * 0xd6e8feb86659fd93;
    return mixed >> 32;
  }
  void Link(uint32_t node) {
    uint32_t& head = heads_[BucketOf(nodes_[node].Id())];
    nodes_[node].next = head;
    head = node;
  }
  // One bucket more: it takes its share of the bucket that stood for both.
  void Split() {
    const size_t added = buckets_;
    uint32_t node = heads_[added - std::bit_floor(added)];
    heads_[added - std::bit_floor(added)] = kNone;
    heads_.Reserve(++buckets_);
    heads_[added] = kNone;
    while (node != kNone) {
      const uint32_t next = nodes_[node].next;
      Link(node);
      node = next;
    }
  }

  const uint64_t seed_;
  ChunkedArray<Node> nodes_;
  ChunkedArray<uint32_t> heads_;
  size_t buckets_ = 1;
  size_t size_ = 0;
  uint32_t used_ = 0;  // nodes ever given
  uint32_t free_ = kNone;
};

}  // namespace fak::fleet
