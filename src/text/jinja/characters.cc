#include "text/jinja/characters.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

namespace fak::text::jinja {

namespace {

utf8proc_category_t Category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

char32_t Simple(utf8proc_int32_t (*map)(utf8proc_int32_t), char32_t c) {
  return static_cast<char32_t>(map(static_cast<utf8proc_int32_t>(c)));
}

// Uppercase forms of more than one code point, by code point. U+1F80 to U+1FAF are computed.
struct Special {
  char32_t from;
  char32_t to[3];
};
constexpr Special kSpecialUpper[] = {
    {0x00DF, {0x0053, 0x0053}},         {0x0149, {0x02BC, 0x004E}},
    {0x01F0, {0x004A, 0x030C}},         {0x0390, {0x0399, 0x0308, 0x0301}},
    {0x03B0, {0x03A5, 0x0308, 0x0301}}, {0x0587, {0x0535, 0x0552}},
    {0x1E96, {0x0048, 0x0331}},         {0x1E97, {0x0054, 0x0308}},
    {0x1E98, {0x0057, 0x030A}},         {0x1E99, {0x0059, 0x030A}},
    {0x1E9A, {0x0041, 0x02BE}},         {0x1F50, {0x03A5, 0x0313}},
    {0x1F52, {0x03A5, 0x0313, 0x0300}}, {0x1F54, {0x03A5, 0x0313, 0x0301}},
    {0x1F56, {0x03A5, 0x0313, 0x0342}}, {0x1FB2, {0x1FBA, 0x0399}},
    {0x1FB3, {0x0391, 0x0399}},         {0x1FB4, {0x0386, 0x0399}},
    {0x1FB6, {0x0391, 0x0342}},         {0x1FB7, {0x0391, 0x0342, 0x0399}},
    {0x1FBC, {0x0391, 0x0399}},         {0x1FC2, {0x1FCA, 0x0399}},
    {0x1FC3, {0x0397, 0x0399}},         {0x1FC4, {0x0389, 0x0399}},
    {0x1FC6, {0x0397, 0x0342}},         {0x1FC7, {0x0397, 0x0342, 0x0399}},
    {0x1FCC, {0x0397, 0x0399}},         {0x1FD2, {0x0399, 0x0308, 0x0300}},
    {0x1FD3, {0x0399, 0x0308, 0x0301}}, {0x1FD6, {0x0399, 0x0342}},
    {0x1FD7, {0x0399, 0x0308, 0x0342}}, {0x1FE2, {0x03A5, 0x0308, 0x0300}},
    {0x1FE3, {0x03A5, 0x0308, 0x0301}}, {0x1FE4, {0x03A1, 0x0313}},
    {0x1FE6, {0x03A5, 0x0342}},         {0x1FE7, {0x03A5, 0x0308, 0x0342}},
    {0x1FF2, {0x1FFA, 0x0399}},         {0x1FF3, {0x03A9, 0x0399}},
    {0x1FF4, {0x038F, 0x0399}},         {0x1FF6, {0x03A9, 0x0342}},
    {0x1FF7, {0x03A9, 0x0342, 0x0399}}, {0x1FFC, {0x03A9, 0x0399}},
    {0xFB00, {0x0046, 0x0046}},         {0xFB01, {0x0046, 0x0049}},
    {0xFB02, {0x0046, 0x004C}},         {0xFB03, {0x0046, 0x0046, 0x0049}},
    {0xFB04, {0x0046, 0x0046, 0x004C}}, {0xFB05, {0x0053, 0x0054}},
    {0xFB06, {0x0053, 0x0054}},         {0xFB13, {0x0544, 0x0546}},
    {0xFB14, {0x0544, 0x0535}},         {0xFB15, {0x0544, 0x053B}},
    {0xFB16, {0x054E, 0x0546}},         {0xFB17, {0x0544, 0x053D}},
};

constexpr char32_t kIota = 0x0399;           // GREEK CAPITAL LETTER IOTA
constexpr char32_t kIotaSubscript = 0x0345;  // what it is in the middle of a word

CaseMapping One(char32_t c) {
  return {{c, 0, 0}, 1};
}

const Special* FindSpecial(char32_t c) {
  const auto found = std::lower_bound(std::begin(kSpecialUpper), std::end(kSpecialUpper), c,
                                      [](const Special& s, char32_t x) { return s.from < x; });
  return found != std::end(kSpecialUpper) && found->from == c ? found : nullptr;
}

}  // namespace

bool IsSpace(char32_t c) {
  if (c < 0x80) {
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
  }
  return c == 0x85 || c == 0x2028 || c == 0x2029 || Category(c) == UTF8PROC_CATEGORY_ZS;
}

bool IsLineBreak(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool IsWordPart(char32_t c) {
  if (c < 0x80) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }
  const utf8proc_category_t category = Category(c);
  return IsLetter(c) || category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_NO;
}

bool IsIdentifierStart(char32_t c) {
  if (c < 0x80) {
    return IsWordPart(c) && !(c >= '0' && c <= '9');
  }
  return IsLetter(c) || Category(c) == UTF8PROC_CATEGORY_NL;
}

bool IsIdentifierPart(char32_t c) {
  if (c < 0x80) {
    return IsWordPart(c);
  }
  const utf8proc_category_t category = Category(c);
  return IsIdentifierStart(c) || category == UTF8PROC_CATEGORY_ND ||
         category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
         category == UTF8PROC_CATEGORY_PC;
}

bool IsPrintable(char32_t c) {
  if (c < 0x7F) {
    return c >= 0x20;
  }
  switch (Category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
  }
}

bool IsLetter(char32_t c) {
  if (c < 0x80) {
    return IsUpper(c) || IsLower(c);
  }
  const utf8proc_category_t category = Category(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool IsDecimal(char32_t c) {
  return Category(c) == UTF8PROC_CATEGORY_ND;
}

bool IsDigit(char32_t c) {
  return IsDecimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
         (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089);
}

bool IsUpper(char32_t c) {
  if (c < 0x80) {
    return c >= 'A' && c <= 'Z';
  }
  return Category(c) == UTF8PROC_CATEGORY_LU;
}

bool IsLower(char32_t c) {
  if (c < 0x80) {
    return c >= 'a' && c <= 'z';
  }
  return Category(c) == UTF8PROC_CATEGORY_LL;
}

bool IsTitle(char32_t c) {
  return c >= 0x80 && Category(c) == UTF8PROC_CATEGORY_LT;
}

bool IsCaseIgnorable(char32_t c) {
  if (c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x2019) {
    return true;
  }
  const utf8proc_category_t category = Category(c);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME ||
         category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_LM ||
         category == UTF8PROC_CATEGORY_SK;
}

CaseMapping ToUpper(char32_t c) {
  if (c < 0x80) {
    return One(c >= 'a' && c <= 'z' ? c - 32 : c);
  }
  if (c >= 0x1F80 && c <= 0x1FAF) {  // Greek vowels with a subscript iota, in three rows of 16
    constexpr char32_t kRows[] = {0x1F08, 0x1F28, 0x1F68};
    return {{kRows[(c - 0x1F80) / 16] + (c & 7), kIota, 0}, 2};
  }
  if (const Special* special = FindSpecial(c)) {
    return {{special->to[0], special->to[1], special->to[2]}, special->to[2] != 0 ? 3 : 2};
  }
  return One(Simple(utf8proc_toupper, c));
}

CaseMapping ToLower(char32_t c) {
  if (c < 0x80) {
    return One(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  if (c == 0x130) {  // LATIN CAPITAL LETTER I WITH DOT ABOVE
    return {{'i', 0x307, 0}, 2};
  }
  return One(Simple(utf8proc_tolower, c));
}

CaseMapping ToTitle(char32_t c) {
  const char32_t simple = Simple(utf8proc_totitle, c);
  if (FindSpecial(c) == nullptr || Category(simple) == UTF8PROC_CATEGORY_LT) {
    return One(simple);
  }
  CaseMapping title = ToUpper(c);
  for (int i = 1; i < title.count; ++i) {
    title.to[i] = title.to[i] == kIota ? kIotaSubscript : Simple(utf8proc_tolower, title.to[i]);
  }
  return title;
}

}  // namespace fak::text::jinja
