#include "text/jinja/marked_text.h"

#include <algorithm>

#include "base/utf8.h"

namespace fak::text::jinja {

void TextBuilder::Mark(size_t begin, size_t end) {
  if (begin == end) {
    return;
  }
  if (!text_.user.empty() && text_.user.back().end == begin) {
    text_.user.back().end = end;
  } else {
    text_.user.push_back({begin, end});
  }
}

void TextBuilder::Append(std::string_view bytes, bool is_user_content) {
  const size_t begin = text_.bytes.size();
  text_.bytes += bytes;
  if (is_user_content) {
    Mark(begin, text_.bytes.size());
  }
}

void TextBuilder::Append(const Text& text, size_t begin, size_t end) {
  const size_t base = text_.bytes.size();
  text_.bytes.append(text.bytes, begin, end - begin);
  auto range = std::partition_point(text.user.begin(), text.user.end(),
                                    [&](const ByteRange& r) { return r.end <= begin; });
  for (; range != text.user.end() && range->begin < end; ++range) {
    Mark(base + std::max(range->begin, begin) - begin, base + std::min(range->end, end) - begin);
  }
}

void TextBuilder::AppendCodePoint(char32_t code_point, bool is_user_content) {
  const size_t begin = text_.bytes.size();
  AppendUtf8(text_.bytes, code_point);
  if (is_user_content) {
    Mark(begin, text_.bytes.size());
  }
}

bool IsUserContent(const Text& text, size_t offset) {
  const auto range = std::partition_point(text.user.begin(), text.user.end(),
                                          [&](const ByteRange& r) { return r.end <= offset; });
  return range != text.user.end() && range->begin <= offset;
}

}  // namespace fak::text::jinja
