#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "text/token_index.h"
#include "text/vocabulary.h"

namespace fak::text {

inline constexpr uint32_t kNoRank = UINT32_MAX;

// What two neighbours become, and when: the lowest rank goes first.
struct Merge {
  uint32_t rank = kNoRank;
  int32_t id = kNoToken;
};

// (left id, right id) -> Merge, open addressing. Immutable once made; any thread.
class MergeTable {
 public:
  // kDataCorrupt names a merge whose parts or whole are no tokens.
  [[nodiscard]] static Result<MergeTable> Create(const StringList& merges, const TokenIndex& index);

  Merge Find(int32_t left, int32_t right) const {
    const size_t mask = slots_.size() - 1;
    for (size_t at = Hash(left, right) & mask; slots_[at].merge.rank != kNoRank;
         at = (at + 1) & mask) {
      if (slots_[at].left == left && slots_[at].right == right) {
        return slots_[at].merge;
      }
    }
    return {};
  }

 private:
  struct Slot {
    int32_t left = kNoToken;
    int32_t right = kNoToken;
    Merge merge;
  };
  explicit MergeTable(size_t slots) : slots_(slots) {}
  static size_t Hash(int32_t left, int32_t right) {
    // The high bits of a product by an odd constant (2^64 / golden ratio) are well mixed.
    const uint64_t key =
        uint64_t{static_cast<uint32_t>(left)} << 32 | uint64_t{static_cast<uint32_t>(right)};
    const uint64_t mixed = (key ^ (key >> 29)) * 0x9E3779B97F4A7C15u;
    return static_cast<size_t>(mixed >> 32);
  }
  void Insert(int32_t left, int32_t right, Merge merge);

  std::vector<Slot> slots_;  // a power of two, at most two thirds full
};

}  // namespace fak::text
