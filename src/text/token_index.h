#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace fak::text {

// Token text -> id: open addressing over 8-byte slots, the texts stay in the vocabulary's list.
// Immutable once made; any thread.
class TokenIndex {
 public:
  // Both must outlive the index. types: one a token.
  TokenIndex(const StringList& tokens, std::span<const TokenType> types);

  // The lowest id with this text, or kNoToken.
  int32_t Find(std::string_view text) const;
  // The lowest id with this text among the tokens that text may turn into by merging. Control,
  // unknown and byte tokens are none of them: their names in a text are only text.
  int32_t FindOrdinary(std::string_view text) const;

 private:
  struct Slot {
    uint32_t tag = 0;
    int32_t id = kNoToken;
  };
  bool IsOrdinary(int32_t id) const;
  bool Matches(Slot slot, uint32_t tag, std::string_view text) const;

  const StringList& tokens_;
  std::span<const TokenType> types_;
  std::vector<Slot> slots_;  // a power of two, at most half full
};

}  // namespace fak::text
