#include "cli/suggest.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace fak::cli {
namespace {

// Insertions, deletions, replacements and swaps of neighbours that make one word the other.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last;
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  std::iota(last.begin(), last.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    before_last = std::exchange(last, row);
  }
  return last[b.size()];
}

}  // namespace

const std::string* Nearest(std::string_view typed, std::span<const std::string> words) {
  constexpr size_t kTypedMax = 64;  // nobody means a longer one
  const std::string* nearest = nullptr;
  size_t least = 2 + typed.size() / 4;  // what is farther was not meant
  for (const std::string& word : words) {
    const bool begins = typed.size() > 2 && word.starts_with(typed);
    const size_t distance = begins ? 1 : Distance(typed.substr(0, kTypedMax), word);
    if (distance < least) {
      nearest = &word;
      least = distance;
    }
  }
  return nearest;
}

std::string DidYouMean(std::string_view typed, std::span<const std::string> words) {
  const std::string* nearest = Nearest(typed, words);
  return nearest == nullptr ? "" : " (did you mean " + *nearest + "?)";
}

}  // namespace fak::cli
