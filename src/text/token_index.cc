#include "text/token_index.h"

#include <bit>

#include "base/hash.h"

namespace fak::text {
namespace {
uint32_t Tag(uint64_t hash) {
  return static_cast<uint32_t>(hash >> 32);
}

}  // namespace

TokenIndex::TokenIndex(const StringList& tokens, std::span<const TokenType> types)
    : tokens_(tokens), types_(types), slots_(std::bit_ceil(tokens.size() * 2)) {
  const size_t mask = slots_.size() - 1;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int32_t id = static_cast<int32_t>(i);
    const uint64_t hash = Xxh3(tokens[i]);
    size_t at = hash & mask;
    // Of a text that is there twice, the lowest ordinary and the lowest other id are kept.
    while (slots_[at].id != kNoToken && !(Matches(slots_[at], Tag(hash), tokens[i]) &&
                                          IsOrdinary(slots_[at].id) == IsOrdinary(id))) {
      at = (at + 1) & mask;
    }
    if (slots_[at].id == kNoToken) {
      slots_[at] = {.tag = Tag(hash), .id = id};
    }
  }
}

bool TokenIndex::IsOrdinary(int32_t id) const {
  const TokenType type = types_[static_cast<size_t>(id)];
  return type == TokenType::kNormal || type == TokenType::kUserDefined ||
         type == TokenType::kUnused;
}

bool TokenIndex::Matches(Slot slot, uint32_t tag, std::string_view text) const {
  return slot.tag == tag && tokens_[static_cast<size_t>(slot.id)] == text;
}

// Ids were entered in ascending order, so the first match on the way is the lowest.
int32_t TokenIndex::Find(std::string_view text) const {
  const uint64_t hash = Xxh3(text);
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask; slots_[at].id != kNoToken; at = (at + 1) & mask) {
    if (Matches(slots_[at], Tag(hash), text)) {
      return slots_[at].id;
    }
  }
  return kNoToken;
}

int32_t TokenIndex::FindOrdinary(std::string_view text) const {
  const uint64_t hash = Xxh3(text);
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask; slots_[at].id != kNoToken; at = (at + 1) & mask) {
    if (Matches(slots_[at], Tag(hash), text) && IsOrdinary(slots_[at].id)) {
      return slots_[at].id;
    }
  }
  return kNoToken;
}

}  // namespace fak::text
