#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace fak::text {

// Finds special tokens that are written in a text: leftmost first, of those the longest (as
// Hugging Face does it; llama.cpp goes by length alone, which differs only where two overlap).
// A trie over the bytes of their names. Immutable once made; any thread.
class SpecialMatcher {
 public:
  struct Match {
    size_t begin;
    size_t end;
    int32_t id;
  };
  // The half-open byte ranges of a text in which control tokens count; ascending, not touching.
  struct Range {
    size_t begin;
    size_t end;
  };

  // Takes the control, unknown and user-defined tokens. types: one a token.
  SpecialMatcher(const StringList& tokens, std::span<const TokenType> types);

  // The first match at or after `from`. User-defined tokens count everywhere, the others only
  // where they lie inside one of the ranges.
  std::optional<Match> Next(std::string_view text, size_t from,
                            std::span<const Range> parsed) const;

 private:
  struct Node {
    uint32_t child = 0;    // the first; 0: none
    uint32_t sibling = 0;  // the next; 0: none
    int32_t id = kNoToken;
    uint8_t byte = 0;
    bool anywhere = false;  // user-defined
  };
  void Insert(std::string_view name, int32_t id, bool anywhere);
  uint32_t ChildOf(uint32_t node, uint8_t byte) const;
  std::optional<Match> LongestAt(std::string_view text, size_t at, size_t parsed_end) const;

  std::vector<Node> nodes_;
  std::bitset<256> first_bytes_;
};

}  // namespace fak::text
