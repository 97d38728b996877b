#include "ride/chunk_shape.h"

#include <algorithm>

#include "base/utf8.h"

namespace fak::ride {
namespace {

constexpr size_t kShapeBytesMax = 4096;

// Whether it stands for itself between quotes.
bool IsPlain(std::string_view text) {
  bool ascii = true;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || c == '"' || c == '\\') {
      return false;
    }
    ascii = ascii && byte < 0x80;
  }
  return ascii || ValidUtf8Prefix(text) == text.size();
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
