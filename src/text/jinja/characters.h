#pragma once

namespace fak::text::jinja {

// What Python says of a code point, from utf8proc's tables (CPython's may be of another Unicode).
bool IsSpace(char32_t c);      // str.isspace, \s
bool IsLineBreak(char32_t c);  // where str.splitlines cuts
bool IsWordPart(char32_t c);   // \w: letters, numbers, '_'
bool IsIdentifierStart(char32_t c);
bool IsIdentifierPart(char32_t c);
bool IsPrintable(char32_t c);  // repr() leaves it alone
bool IsLetter(char32_t c);     // str.isalpha
bool IsDecimal(char32_t c);    // a decimal digit of any script
bool IsDigit(char32_t c);      // those and raised or lowered ones
bool IsUpper(char32_t c);
bool IsLower(char32_t c);
bool IsTitle(char32_t c);
bool IsCaseIgnorable(char32_t c);  // does not part a word, for the final sigma

// Full case mappings: one to three code points. Source: Unicode's SpecialCasing.txt.
struct CaseMapping {
  char32_t to[3] = {0, 0, 0};
  int count = 0;
};
CaseMapping ToUpper(char32_t c);
CaseMapping ToLower(char32_t c);  // without the final sigma, which depends on the neighbours
CaseMapping ToTitle(char32_t c);

}  // namespace fak::text::jinja
