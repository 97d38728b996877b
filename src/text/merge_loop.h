#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "text/merge_table.h"

namespace fak::text {

// The loop under both tokenizers: of all neighbours that can merge, the pair of the lowest rank
// does, the leftmost of equals, until none can. A heap of candidates makes that O(n log n) for a
// word of n symbols. Reused from word to word, so that it allocates only to grow.
// Hot path: bench/micro/tokenizer_bench.cc.
class MergeLoop {
 public:
  static constexpr uint32_t kEnd = UINT32_MAX;

  void Clear() { symbols_.clear(); }
  void Add(int32_t id) {
    const uint32_t at = static_cast<uint32_t>(symbols_.size());
    symbols_.push_back({.id = id, .previous = at - 1, .next = at + 1, .merge = {}});
  }
  size_t size() const { return symbols_.size(); }
  int32_t id(uint32_t at) const { return symbols_[at].id; }
  // The symbol after this one, or size() after the last. Symbol 0 is always the first.
  uint32_t next(uint32_t at) const { return symbols_[at].next; }

  // merge_of(left, right) -> Merge, for two neighbours given by their positions. A symbol stays at
  // the position of its first part.
  template <class MergeOf>
  void Run(const MergeOf& merge_of);

 private:
  struct Symbol {
    int32_t id;
    uint32_t previous;  // wraps to kEnd before the first
    uint32_t next;
    Merge merge;  // with the next symbol
  };
  template <class MergeOf>
  void Consider(uint32_t left, const MergeOf& merge_of);

  std::vector<Symbol> symbols_;
  std::vector<uint64_t> heap_;  // rank, then position: a min-heap
};

template <class MergeOf>
void MergeLoop::Consider(uint32_t left, const MergeOf& merge_of) {
  Symbol& symbol = symbols_[left];
  symbol.merge = symbol.next < symbols_.size() ? merge_of(left, symbol.next) : Merge{};
  if (symbol.merge.rank != kNoRank) {
    heap_.push_back(uint64_t{symbol.merge.rank} << 32 | left);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }
}

template <class MergeOf>
void MergeLoop::Run(const MergeOf& merge_of) {
  heap_.clear();
  for (uint32_t at = 0; at < symbols_.size(); ++at) {
    Consider(at, merge_of);
  }
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const uint32_t rank = static_cast<uint32_t>(heap_.back() >> 32);
    const uint32_t left = static_cast<uint32_t>(heap_.back());
    heap_.pop_back();
    Symbol& symbol = symbols_[left];
    if (symbol.merge.rank != rank) {
      continue;  // one of the two has merged with another since
    }
    Symbol& right = symbols_[symbol.next];
    symbol.id = symbol.merge.id;
    symbol.next = right.next;
    right.merge.rank = kNoRank;
    if (symbol.next < symbols_.size()) {
      symbols_[symbol.next].previous = left;
    }
    Consider(left, merge_of);
    if (symbol.previous != kEnd) {
      Consider(symbol.previous, merge_of);
    }
  }
}

}  // namespace fak::text
