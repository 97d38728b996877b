#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fak::text {

// Finds stop strings in a text that arrives in pieces, and holds back exactly what may be the
// beginning of one. The stop string that ends first wins, of those the longest: the outcome doesn't
// depend on how the text is cut. Time is O(bytes x stop strings) (Knuth, Morris and Pratt 1977).
// Owned by one sequence; not thread-safe.
class StopMatcher {
 public:
  // Empty stop strings are ignored. include_stop: the stop string is part of the output.
  explicit StopMatcher(std::span<const std::string> stops, bool include_stop = false);

  // Appends to out what is now known to come before any stop string. Returns the index of the stop
  // string that was found; from then on nothing comes out any more.
  std::optional<size_t> Feed(std::string_view text, std::string& out);
  // The text ended without a stop string: what is held comes out.
  void Flush(std::string& out);
  size_t held_bytes() const { return held_.size(); }

 private:
  struct Stop {
    std::string text;
    size_t index;                    // in the caller's list
    std::vector<uint32_t> fallback;  // Knuth-Morris-Pratt: longest border of each prefix
    uint32_t matched = 0;            // bytes of it that the text now ends with
  };
  std::vector<Stop> stops_;
  bool include_stop_;
  std::optional<size_t> found_;
  std::string held_;
};

}  // namespace fak::text
