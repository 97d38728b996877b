#include "base/utf8.h"

#include <cstring>

namespace fak {
namespace {

// What the second byte of a sequence may be; Unicode 15, table 3-7.
struct SecondByteRange {
  unsigned char low;
  unsigned char high;
};

SecondByteRange SecondByteOf(unsigned char first) {
  switch (first) {
    case 0xE0: return {0xA0, 0xBF};
    case 0xED: return {0x80, 0x9F};
    case 0xF0: return {0x90, 0xBF};
    case 0xF4: return {0x80, 0x8F};
    default: return {0x80, 0xBF};
  }
}

unsigned char ByteAt(std::string_view text, size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// How many bytes at the start of `text` (not empty) belong together: a whole sequence, or the
// longest part of one; `*whole` says which. 0 when the first byte starts nothing.
size_t MatchSequence(std::string_view text, bool* whole) {
  *whole = false;
  const int length = Utf8SequenceLength(ByteAt(text, 0));
  if (length == 0) {
    return 0;
  }
  const SecondByteRange second = SecondByteOf(ByteAt(text, 0));
  size_t matched = 1;
  while (matched < static_cast<size_t>(length) && matched < text.size()) {
    const unsigned char byte = ByteAt(text, matched);
    const SecondByteRange range = matched == 1 ? second : SecondByteRange{0x80, 0xBF};
    if (byte < range.low || byte > range.high) {
      return matched;
    }
    ++matched;
  }
  *whole = matched == static_cast<size_t>(length);
  return matched;
}

}  // namespace

int Utf8SequenceLength(unsigned char first) {
  if (first < 0x80) {
    return 1;
  }
  if (first < 0xC2) {
    return 0;
  }
  if (first < 0xE0) {
    return 2;
  }
  if (first < 0xF0) {
    return 3;
  }
  return first < 0xF5 ? 4 : 0;
}

size_t ValidUtf8Prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    // Eight ASCII bytes at a time; text is mostly that.
    while (at + 8 <= text.size()) {
      uint64_t word = 0;
      std::memcpy(&word, text.data() + at, 8);
      if ((word & 0x8080808080808080u) != 0) {
        break;
      }
      at += 8;
    }
    if (at == text.size()) {
      break;
    }
    bool whole = false;
    const size_t matched = MatchSequence(text.substr(at), &whole);
    if (!whole) {
      break;
    }
    at += matched;
  }
  return at;
}

bool IsIncompleteUtf8(std::string_view bytes) {
  if (bytes.empty()) {
    return false;
  }
  bool whole = false;
  return MatchSequence(bytes, &whole) == bytes.size() && !whole;
}

int DecodeUtf8(std::string_view text, char32_t* code_point) {
  bool whole = false;
  const size_t length = MatchSequence(text, &whole);
  if (!whole) {
    return 0;
  }
  if (length == 1) {
    *code_point = ByteAt(text, 0);
    return 1;
  }
  char32_t value = ByteAt(text, 0) & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    value = (value << 6) | (ByteAt(text, i) & 0x3Fu);
  }
  *code_point = value;
  return static_cast<int>(length);
}

void AppendUtf8(std::string& out, char32_t code_point) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point <= 0xDFFF)) {
    out += kUtf8Replacement;
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t valid = ValidUtf8Prefix(text);
    out += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty()) {
      break;
    }
    bool whole = false;
    const size_t matched = MatchSequence(text, &whole);
    out += kUtf8Replacement;
    text.remove_prefix(matched == 0 ? 1 : matched);
  }
  return out;
}

}  // namespace fak
