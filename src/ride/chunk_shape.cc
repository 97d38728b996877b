#include "ride/chunk_shape.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/utf8.h"

namespace fak::ride {
namespace {

constexpr size_t kShapeBytesMax = 4096;

constexpr uint64_t Each(uint8_t byte) {
  return byte * (UINT64_MAX / 0xFF);
}

// The high bit of some byte, if any of them is below `bound` (0x80 at most); else 0. Source: the
// "hasless" of S. E. Anderson's Bit Twiddling Hacks.
constexpr uint64_t AnyBelow(uint64_t bytes, uint8_t bound) {
  return (bytes - Each(bound)) & ~bytes & Each(0x80);
}

constexpr uint64_t AnyIs(uint64_t bytes, char c) {
  return AnyBelow(bytes ^ Each(static_cast<uint8_t>(c)), 1);
}

// Of eight bytes of a string.
constexpr bool AnyNeedsEscape(uint64_t bytes) {
  return (AnyBelow(bytes, ' ') | AnyIs(bytes, '"') | AnyIs(bytes, '\\')) != 0;
}

// Whether it stands for itself between quotes.
bool IsPlain(std::string_view text) {
  constexpr size_t kStep = sizeof(uint64_t);
  uint64_t seen = 0;
  size_t at = 0;
  for (; at + kStep <= text.size(); at += kStep) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, text.data() + at, kStep);
    if (AnyNeedsEscape(bytes)) {
      return false;
    }
    seen |= bytes;
  }
  uint64_t rest = Each(' ');
  for (; at < text.size(); ++at) {
    rest = rest << 8 | static_cast<uint8_t>(text[at]);
  }
  seen |= rest;
  return !AnyNeedsEscape(rest) &&
         ((seen & Each(0x80)) == 0 || ValidUtf8Prefix(text) == text.size());
}

}  // namespace

// Without a backslash every string of the document stands there as it is. What is quoted only once
// is therefore the text's own place, whatever its key.
void ChunkShape::Learn(std::string_view raw, std::string_view text) {
  if (spare_ == 0 || raw.size() > kShapeBytesMax || text.empty() ||
      raw.find('\\') != std::string_view::npos) {
    return;
  }
  --spare_;
  const std::string quoted = '"' + std::string(text) + '"';
  const size_t at = raw.find(quoted);
  if (at == std::string_view::npos || raw.find(quoted, at + 1) != std::string_view::npos) {
    return;
  }
  raw_ = raw;
  text_at_ = at + 1;
  text_size_ = text.size();
}

std::optional<std::string_view> ChunkShape::TextOf(std::string_view raw) {
  const std::string_view before = std::string_view(raw_).substr(0, text_at_);
  const std::string_view behind = std::string_view(raw_).substr(text_at_ + text_size_);
  if (raw_.empty() || raw.size() <= before.size() + behind.size() || !raw.starts_with(before) ||
      !raw.ends_with(behind)) {
    return std::nullopt;
  }
  const std::string_view text =
      raw.substr(before.size(), raw.size() - before.size() - behind.size());
  if (!IsPlain(text)) {
    return std::nullopt;
  }
  spare_ = std::min(spare_ + 1, 8);
  return text;
}

}  // namespace fak::ride
