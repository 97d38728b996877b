#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace fak::text::jinja {

struct ByteRange {
  size_t begin = 0;
  size_t end = 0;
};

// A Python str: valid UTF-8, and which of its bytes a user wrote (see RenderedPrompt). Shared as
// const once made.
struct Text {
  std::string bytes;
  std::vector<ByteRange> user;  // in order, disjoint, not touching, none empty
  // Python's Markup, which `safe` and `escape` make: adding a plain string to it escapes that one.
  bool markup = false;
};

// Appends pieces of texts and keeps their marks. Plain value, owned by one thread.
class TextBuilder {
 public:
  void Append(std::string_view scaffolding) { text_.bytes += scaffolding; }
  void Append(std::string_view bytes, bool is_user_content);
  void Append(const Text& text) { Append(text, 0, text.bytes.size()); }
  // Bytes [begin, end) of the text.
  void Append(const Text& text, size_t begin, size_t end);
  void AppendCodePoint(char32_t code_point, bool is_user_content);

  size_t size() const { return text_.bytes.size(); }
  Text Take() { return std::move(text_); }

 private:
  void Mark(size_t begin, size_t end);
  Text text_;
};

// Whether the byte at `offset` is user content.
bool IsUserContent(const Text& text, size_t offset);

// Walks marks in step with a walk over the bytes, in amortised constant time.
class MarkCursor {
 public:
  explicit MarkCursor(const Text& text) : text_(text) {}
  // Offsets must not decrease from call to call.
  bool IsUserContent(size_t offset) {
    while (next_ < text_.user.size() && text_.user[next_].end <= offset) {
      ++next_;
    }
    return next_ < text_.user.size() && text_.user[next_].begin <= offset;
  }

 private:
  const Text& text_;
  size_t next_ = 0;
};

}  // namespace fak::text::jinja
