#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace fak {

// UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.
// Pure functions, any thread.

// U+FFFD, in UTF-8.
inline constexpr std::string_view kUtf8Replacement = "\xEF\xBF\xBD";

// How many leading bytes of `text` are whole valid sequences; text.size() when all are.
size_t ValidUtf8Prefix(std::string_view text);

inline bool IsValidUtf8(std::string_view text) {
  return ValidUtf8Prefix(text) == text.size();
}

// Length a sequence announces by its first byte: 1 to 4; 0 for a byte that can't start one.
int Utf8SequenceLength(unsigned char first);

// Whether the bytes, all of them, could be the beginning of one valid sequence that is not whole
// yet. False for the empty text.
bool IsIncompleteUtf8(std::string_view bytes);

// Decodes the valid sequence at the start of `text` (not empty). Returns its length, and 0 with
// `*code_point` untouched when what stands there is invalid or cut short.
int DecodeUtf8(std::string_view text, char32_t* code_point);

// Appends a code point. Surrogates and values above U+10FFFF become U+FFFD.
void AppendUtf8(std::string& out, char32_t code_point);

// The text with every maximal invalid part replaced by one U+FFFD (Unicode 15, table 3-8; what
// Python's errors="replace" gives).
std::string ReplaceInvalidUtf8(std::string_view text);

}  // namespace fak
