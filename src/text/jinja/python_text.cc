#include "text/jinja/python_text.h"

#include <string.h>  // memmem

#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/characters.h"

namespace fak::text::jinja {

namespace {

bool IsContinuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

// Decodes the character at `at`, which is valid; returns its length.
size_t CharacterAt(std::string_view bytes, size_t at, char32_t* c) {
  return static_cast<size_t>(DecodeUtf8(bytes.substr(at), c));
}

// Where the character that ends at `end` begins.
size_t CharacterBefore(std::string_view bytes, size_t end, char32_t* c) {
  size_t begin = end - 1;
  while (begin > 0 && IsContinuation(bytes[begin])) {
    --begin;
  }
  CharacterAt(bytes, begin, c);
  return begin;
}

Text Finish(TextBuilder& builder, const Text& like) {
  Text text = builder.Take();
  text.markup = like.markup;
  return text;
}

}  // namespace

int64_t CodePoints(std::string_view bytes) {
  return std::count_if(bytes.begin(), bytes.end(), [](char c) { return !IsContinuation(c); });
}

size_t ByteOffset(std::string_view bytes, int64_t index, size_t from) {
  size_t at = from;
  while (at < bytes.size() && index > 0) {
    ++at;
    while (at < bytes.size() && IsContinuation(bytes[at])) {
      ++at;
    }
    --index;
  }
  return at;
}

std::vector<Text> Characters(const Text& text) {
  std::vector<Text> characters;
  for (size_t begin = 0; begin < text.bytes.size();) {
    const size_t end = ByteOffset(text.bytes, 1, begin);
    characters.push_back(SubText(text, begin, end));
    begin = end;
  }
  return characters;
}

Text SubText(const Text& text, size_t begin, size_t end) {
  TextBuilder builder;
  builder.Append(text, begin, end);
  return Finish(builder, text);
}

Text SliceText(const Text& text, int64_t start, int64_t count, int64_t step) {
  if (step == 1) {
    const size_t begin = ByteOffset(text.bytes, start);
    return SubText(text, begin, ByteOffset(text.bytes, count, begin));
  }
  std::vector<size_t> offsets;  // of every character, and the end
  for (size_t at = 0; at < text.bytes.size(); at = ByteOffset(text.bytes, 1, at)) {
    offsets.push_back(at);
  }
  offsets.push_back(text.bytes.size());
  TextBuilder builder;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(start + i * step);
    builder.Append(text, offsets[at], offsets[at + 1]);
  }
  return Finish(builder, text);
}

size_t FindBytes(std::string_view bytes, std::string_view wanted, size_t from) {
  if (from > bytes.size()) {
    return std::string_view::npos;
  }
  if (wanted.empty()) {
    return from;
  }
  // Two-way search; string_view::find is quadratic on texts like "aaaa...".
  const void* found =
      ::memmem(bytes.data() + from, bytes.size() - from, wanted.data(), wanted.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<size_t>(static_cast<const char*>(found) - bytes.data());
}

size_t RFindBytes(std::string_view bytes, std::string_view wanted) {
  const std::string reversed_bytes(bytes.rbegin(), bytes.rend());
  const std::string reversed_wanted(wanted.rbegin(), wanted.rend());
  const size_t at = FindBytes(reversed_bytes, reversed_wanted);
  return at == std::string_view::npos ? at : bytes.size() - at - wanted.size();
}

int64_t CountBytes(std::string_view bytes, std::string_view wanted) {
  if (wanted.empty()) {
    return CodePoints(bytes) + 1;
  }
  int64_t count = 0;
  for (size_t at = FindBytes(bytes, wanted); at != std::string_view::npos;
       at = FindBytes(bytes, wanted, at + wanted.size())) {
    ++count;
  }
  return count;
}

Text Strip(const Text& text, const std::string_view* chars, bool left, bool right) {
  std::vector<char32_t> set;
  if (chars != nullptr) {
    char32_t c = 0;
    for (size_t i = 0; i < chars->size();) {
      i += CharacterAt(*chars, i, &c);
      set.push_back(c);
    }
    std::sort(set.begin(), set.end());
  }
  const auto goes = [&](char32_t c) {
    return chars == nullptr ? IsSpace(c) : std::binary_search(set.begin(), set.end(), c);
  };
  const std::string_view bytes = text.bytes;
  size_t begin = 0;
  size_t end = bytes.size();
  char32_t c = 0;
  while (left && begin < end) {
    const size_t length = CharacterAt(bytes, begin, &c);
    if (!goes(c)) {
      break;
    }
    begin += length;
  }
  while (right && begin < end) {
    const size_t at = CharacterBefore(bytes, end, &c);
    if (!goes(c)) {
      break;
    }
    end = at;
  }
  return SubText(text, begin, end);
}

namespace {

// str.split() without a separator: words between runs of white space.
std::vector<Text> SplitWords(const Text& text, int64_t limit) {
  const std::string_view bytes = text.bytes;
  std::vector<Text> words;
  size_t at = 0;
  char32_t c = 0;
  while (true) {
    while (at < bytes.size()) {
      const size_t length = CharacterAt(bytes, at, &c);
      if (!IsSpace(c)) {
        break;
      }
      at += length;
    }
    if (at >= bytes.size()) {
      return words;
    }
    const size_t begin = at;
    if (limit >= 0 && static_cast<int64_t>(words.size()) >= limit) {
      words.push_back(SubText(text, begin, bytes.size()));
      return words;
    }
    while (at < bytes.size()) {
      const size_t length = CharacterAt(bytes, at, &c);
      if (IsSpace(c)) {
        break;
      }
      at += length;
    }
    words.push_back(SubText(text, begin, at));
  }
}

std::vector<Text> RSplitWords(const Text& text, int64_t limit) {
  const std::string_view bytes = text.bytes;
  std::vector<Text> words;
  size_t end = bytes.size();
  char32_t c = 0;
  while (true) {
    while (end > 0) {
      const size_t before = CharacterBefore(bytes, end, &c);
      if (!IsSpace(c)) {
        break;
      }
      end = before;
    }
    if (end == 0) {
      break;
    }
    size_t begin = end;
    if (limit >= 0 && static_cast<int64_t>(words.size()) >= limit) {
      words.push_back(SubText(text, 0, end));
      break;
    }
    while (begin > 0) {
      const size_t before = CharacterBefore(bytes, begin, &c);
      if (IsSpace(c)) {
        break;
      }
      begin = before;
    }
    words.push_back(SubText(text, begin, end));
    end = begin;
  }
  std::reverse(words.begin(), words.end());
  return words;
}

// Where the separator stands, left to right, without overlaps.
std::vector<size_t> Occurrences(std::string_view bytes, std::string_view wanted, int64_t limit) {
  std::vector<size_t> places;
  for (size_t at = FindBytes(bytes, wanted);
       at != std::string_view::npos && (limit < 0 || static_cast<int64_t>(places.size()) < limit);
       at = FindBytes(bytes, wanted, at + wanted.size())) {
    places.push_back(at);
  }
  return places;
}

// The same from the right: overlapping candidates are taken from the end.
std::vector<size_t> ROccurrences(std::string_view bytes, std::string_view wanted, int64_t limit) {
  const std::string reversed_bytes(bytes.rbegin(), bytes.rend());
  const std::string reversed_wanted(wanted.rbegin(), wanted.rend());
  std::vector<size_t> places = Occurrences(reversed_bytes, reversed_wanted, limit);
  std::reverse(places.begin(), places.end());
  for (size_t& place : places) {
    place = bytes.size() - place - wanted.size();
  }
  return places;
}

std::vector<Text> CutAt(const Text& text, const std::vector<size_t>& places, size_t width) {
  std::vector<Text> parts;
  size_t begin = 0;
  for (const size_t place : places) {
    parts.push_back(SubText(text, begin, place));
    begin = place + width;
  }
  parts.push_back(SubText(text, begin, text.bytes.size()));
  return parts;
}

}  // namespace

std::vector<Text> Split(const Text& text, const Text* separator, int64_t limit) {
  if (separator == nullptr) {
    return SplitWords(text, limit);
  }
  return CutAt(text, Occurrences(text.bytes, separator->bytes, limit), separator->bytes.size());
}

std::vector<Text> RSplit(const Text& text, const Text* separator, int64_t limit) {
  if (separator == nullptr) {
    return RSplitWords(text, limit);
  }
  return CutAt(text, ROccurrences(text.bytes, separator->bytes, limit), separator->bytes.size());
}

std::vector<Text> SplitLines(const Text& text, bool keep_ends, int64_t lines_max) {
  const std::string_view bytes = text.bytes;
  std::vector<Text> lines;
  size_t begin = 0;
  char32_t c = 0;
  for (size_t at = 0; at < bytes.size() && static_cast<int64_t>(lines.size()) < lines_max;) {
    size_t next = at + CharacterAt(bytes, at, &c);
    if (IsLineBreak(c)) {
      next += c == '\r' && next < bytes.size() && bytes[next] == '\n' ? 1 : 0;
      lines.push_back(SubText(text, begin, keep_ends ? next : at));
      begin = next;
    }
    at = next;
  }
  if (begin < bytes.size()) {
    lines.push_back(SubText(text, begin, bytes.size()));
  }
  return lines;
}

Text Replace(const Text& text, std::string_view old_text, const Text& new_text, int64_t limit) {
  TextBuilder builder;
  if (old_text.empty()) {  // before every character and at the end
    size_t at = 0;
    for (int64_t done = 0; limit < 0 || done < limit; ++done) {
      builder.Append(new_text);
      if (at >= text.bytes.size()) {
        break;
      }
      const size_t next = ByteOffset(text.bytes, 1, at);
      builder.Append(text, at, next);
      at = next;
    }
    builder.Append(text, at, text.bytes.size());
    return Finish(builder, text);
  }
  size_t begin = 0;
  for (const size_t place : Occurrences(text.bytes, old_text, limit)) {
    builder.Append(text, begin, place);
    builder.Append(new_text);
    begin = place + old_text.size();
  }
  builder.Append(text, begin, text.bytes.size());
  return Finish(builder, text);
}

namespace {

// Whether the sigma at [begin, end) ends a word: a cased letter before it and none after, where
// what doesn't part words is skipped.
bool IsFinalSigma(std::string_view bytes, size_t begin, size_t end) {
  const auto is_cased = [](char32_t c) { return IsUpper(c) || IsLower(c) || IsTitle(c); };
  char32_t c = 0;
  bool cased_before = false;
  for (size_t at = begin; at > 0;) {
    at = CharacterBefore(bytes, at, &c);
    if (!IsCaseIgnorable(c)) {
      cased_before = is_cased(c);
      break;
    }
  }
  for (size_t at = end; cased_before && at < bytes.size();) {
    at += CharacterAt(bytes, at, &c);
    if (!IsCaseIgnorable(c)) {
      return !is_cased(c);
    }
  }
  return cased_before;
}

}  // namespace

Text MapCase(const Text& text, CaseOf what) {
  constexpr char32_t kSigma = 0x3A3;
  constexpr char32_t kFinalSigma = 0x3C2;
  const std::string_view bytes = text.bytes;
  TextBuilder builder;
  MarkCursor marks(text);
  bool after_letter = false;  // for kTitle: inside a word; for kCapitalize: past the start
  char32_t c = 0;
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = CharacterAt(bytes, at, &c);
    const bool goes_up = what == CaseOf::kUpper || (what == CaseOf::kSwap && IsLower(c));
    const bool goes_title =
        (what == CaseOf::kTitle || what == CaseOf::kCapitalize) && !after_letter;
    const bool stays = what == CaseOf::kSwap && !IsLower(c) && !IsUpper(c);
    CaseMapping mapped = stays        ? CaseMapping{{c, 0, 0}, 1}
                         : goes_up    ? ToUpper(c)
                         : goes_title ? ToTitle(c)
                                      : ToLower(c);
    if (c == kSigma && !goes_up && !goes_title && !stays && IsFinalSigma(bytes, at, at + length)) {
      mapped.to[0] = kFinalSigma;
    }
    for (int i = 0; i < mapped.count; ++i) {
      builder.AppendCodePoint(mapped.to[i], marks.IsUserContent(at));
    }
    after_letter = what == CaseOf::kCapitalize || IsUpper(c) || IsLower(c) || IsTitle(c);
    at += length;
  }
  return Finish(builder, text);
}

Text PadText(const Text& text, int64_t width, std::string_view fill, Pad where) {
  const int64_t missing = width - CodePoints(text.bytes);
  if (missing <= 0) {
    return text;
  }
  // Python puts the odd blank on the left when the width is odd.
  const int64_t left = where == Pad::kRight  ? 0
                       : where == Pad::kLeft ? missing
                                             : missing / 2 + (missing & width & 1);
  TextBuilder builder;
  for (int64_t i = 0; i < missing; ++i) {
    if (i == left) {
      builder.Append(text);
    }
    builder.Append(fill);
  }
  if (left == missing) {
    builder.Append(text);
  }
  return Finish(builder, text);
}

}  // namespace fak::text::jinja
