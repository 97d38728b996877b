#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

namespace fak::text::jinja {

// Stable sort that stays inside the vector whatever `less` answers: orders that templates make up
// (NaN among numbers, a comparison that fails half way) are none, and std::sort may then read past
// the end. Bottom-up merges, O(n log n).
template <class T, class Less>
void MergeSort(std::vector<T>& items, Less less) {
  std::vector<T> merged;
  for (size_t width = 1; width < items.size(); width *= 2) {
    merged.clear();
    merged.reserve(items.size());
    for (size_t begin = 0; begin < items.size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, items.size());
      const size_t end = std::min(begin + 2 * width, items.size());
      size_t left = begin;
      size_t right = middle;
      while (left < middle && right < end) {
        merged.push_back(
            std::move(less(items[right], items[left]) ? items[right++] : items[left++]));
      }
      std::move(items.begin() + static_cast<std::ptrdiff_t>(left),
                items.begin() + static_cast<std::ptrdiff_t>(middle), std::back_inserter(merged));
      std::move(items.begin() + static_cast<std::ptrdiff_t>(right),
                items.begin() + static_cast<std::ptrdiff_t>(end), std::back_inserter(merged));
    }
    items.swap(merged);
  }
}

}  // namespace fak::text::jinja
