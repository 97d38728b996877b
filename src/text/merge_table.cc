#include "text/merge_table.h"

#include <bit>
#include <string>

namespace fak::text {

Result<MergeTable> MergeTable::Create(const StringList& merges, const TokenIndex& index) {
  const size_t count = merges.size() / 2;
  MergeTable table(std::bit_ceil(count + count / 2 + 1));
  std::string whole;
  for (size_t rank = 0; rank < count; ++rank) {
    const std::string_view left = merges[2 * rank];
    const std::string_view right = merges[2 * rank + 1];
    whole.assign(left).append(right);
    const int32_t left_id = index.FindOrdinary(left);
    const int32_t right_id = index.FindOrdinary(right);
    const int32_t whole_id = index.FindOrdinary(whole);
    if (left_id == kNoToken || right_id == kNoToken || whole_id == kNoToken) {
      const std::string_view missing = left_id == kNoToken    ? left
                                       : right_id == kNoToken ? right
                                                              : std::string_view(whole);
      return Fail(Code::kDataCorrupt, "merge " + std::to_string(rank) + ": '" +
                                          std::string(missing) + "' is no token of text");
    }
    table.Insert(left_id, right_id, {static_cast<uint32_t>(rank), whole_id});
  }
  return table;
}

void MergeTable::Insert(int32_t left, int32_t right, Merge merge) {
  const size_t mask = slots_.size() - 1;
  size_t at = Hash(left, right) & mask;
  while (slots_[at].merge.rank != kNoRank) {
    if (slots_[at].left == left && slots_[at].right == right) {
      return;  // listed twice: the first counts
    }
    at = (at + 1) & mask;
  }
  slots_[at] = {.left = left, .right = right, .merge = merge};
}

}  // namespace fak::text
