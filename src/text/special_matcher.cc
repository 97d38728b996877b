#include "text/special_matcher.h"

namespace fak::text {

SpecialMatcher::SpecialMatcher(const StringList& tokens, std::span<const TokenType> types)
    : nodes_(1) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool anywhere = types[i] == TokenType::kUserDefined;
    if (anywhere || types[i] == TokenType::kControl || types[i] == TokenType::kUnknown) {
      Insert(tokens[i], static_cast<int32_t>(i), anywhere);
    }
  }
}

void SpecialMatcher::Insert(std::string_view name, int32_t id, bool anywhere) {
  if (name.empty()) {
    return;
  }
  first_bytes_.set(static_cast<uint8_t>(name[0]));
  uint32_t node = 0;
  for (const char c : name) {
    const uint8_t byte = static_cast<uint8_t>(c);
    uint32_t child = ChildOf(node, byte);
    if (child == 0) {
      child = static_cast<uint32_t>(nodes_.size());
      nodes_.push_back({.child = 0, .sibling = nodes_[node].child, .byte = byte});
      nodes_[node].child = child;
    }
    node = child;
  }
  if (nodes_[node].id == kNoToken) {  // of duplicates the first
    nodes_[node].id = id;
    nodes_[node].anywhere = anywhere;
  }
}

uint32_t SpecialMatcher::ChildOf(uint32_t node, uint8_t byte) const {
  uint32_t child = nodes_[node].child;
  while (child != 0 && nodes_[child].byte != byte) {
    child = nodes_[child].sibling;
  }
  return child;
}

std::optional<SpecialMatcher::Match> SpecialMatcher::LongestAt(std::string_view text, size_t at,
                                                               size_t parsed_end) const {
  std::optional<Match> longest;
  uint32_t node = 0;
  for (size_t end = at; end < text.size();) {
    node = ChildOf(node, static_cast<uint8_t>(text[end]));
    if (node == 0) {
      break;
    }
    ++end;
    if (nodes_[node].id != kNoToken && (nodes_[node].anywhere || end <= parsed_end)) {
      longest = Match{.begin = at, .end = end, .id = nodes_[node].id};
    }
  }
  return longest;
}

std::optional<SpecialMatcher::Match> SpecialMatcher::Next(std::string_view text, size_t from,
                                                          std::span<const Range> parsed) const {
  for (size_t at = from; at < text.size(); ++at) {
    if (!first_bytes_[static_cast<uint8_t>(text[at])]) {
      continue;
    }
    while (!parsed.empty() && parsed.front().end <= at) {
      parsed = parsed.subspan(1);
    }
    const bool inside = !parsed.empty() && parsed.front().begin <= at;
    if (const auto match = LongestAt(text, at, inside ? parsed.front().end : 0)) {
      return match;
    }
  }
  return std::nullopt;
}

}  // namespace fak::text
