// Hot path: bench/micro/tokenizer_bench.cc.
#include "text/character_class.h"

#include <utf8proc.h>

#include <array>

#include "base/utf8.h"

namespace fak::text {
namespace {

bool IsBlank(char32_t c) {
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

uint8_t ClassOfCategory(char32_t c) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) {
    return kLetter;
  }
  if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) {
    return kNumber;
  }
  if (category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO) {
    return kPunctuation;
  }
  return IsBlank(c) ? kBlank : kOther;
}

constexpr std::array<Character, 128> MakeAscii() {
  std::array<Character, 128> table{};
  for (size_t c = 0; c < table.size(); ++c) {
    uint8_t classes = c > ' ' && c < 0x7F && c != '`' ? kPunctuation : kOther;
    if ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')) {
      classes = kLetter;
    } else if (c >= '0' && c <= '9') {
      classes = kNumber;
    } else if (c == '\r' || c == '\n') {
      classes = kBlank | kLineEnd;
    } else if (c == ' ' || (c >= '\t' && c <= '\r')) {
      classes = kBlank;
    }
    table[c] = {.classes = classes, .length = 1};
  }
  return table;
}

constexpr std::array<Character, 128> kAscii = MakeAscii();

// The basic plane's classes in one lookup: utf8proc takes three for each character.
constexpr size_t kPlane = 0x10000;
const std::array<uint8_t, kPlane>& PlaneClasses() {
  static const std::array<uint8_t, kPlane> kClasses = [] {
    std::array<uint8_t, kPlane> table{};
    for (size_t c = 0; c < kPlane; ++c) {
      table[c] = ClassOfCategory(static_cast<char32_t>(c));
    }
    return table;
  }();
  return kClasses;
}

}  // namespace

Character CharacterAt(std::string_view text, size_t at) {
  const uint8_t first = static_cast<uint8_t>(text[at]);
  if (first < 0x80) {
    return kAscii[first];
  }
  char32_t c = 0;
  const int length = DecodeUtf8(text.substr(at), &c);
  if (length == 0) {
    return {.classes = kOther, .length = 1};
  }
  return {.classes = c < kPlane ? PlaneClasses()[c] : ClassOfCategory(c),
          .length = static_cast<uint8_t>(length)};
}

}  // namespace fak::text
