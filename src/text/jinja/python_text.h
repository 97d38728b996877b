#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/jinja/marked_text.h"

namespace fak::text::jinja {

// Python's str methods over marked texts. Positions are code points, except where it says bytes.
// Pure functions; every one keeps the marks, and the markup flag of its first text.

int64_t CodePoints(std::string_view bytes);
// Byte offset of the code point at `index`, counted from byte `from`; bytes.size() past the end.
size_t ByteOffset(std::string_view bytes, int64_t index, size_t from = 0);
// One text a code point.
std::vector<Text> Characters(const Text& text);

Text SubText(const Text& text, size_t begin, size_t end);  // bytes
// text[start:stop:step], with all of them in range already (step is not 0).
Text SliceText(const Text& text, int64_t start, int64_t count, int64_t step);

// First occurrence at or after byte `from`; npos when there is none. Linear time.
size_t FindBytes(std::string_view bytes, std::string_view wanted, size_t from = 0);
size_t RFindBytes(std::string_view bytes, std::string_view wanted);
int64_t CountBytes(std::string_view bytes, std::string_view wanted);

// Null chars: white space.
Text Strip(const Text& text, const std::string_view* chars, bool left, bool right);
// Null separator: runs of white space. limit < 0: all.
std::vector<Text> Split(const Text& text, const Text* separator, int64_t limit);
std::vector<Text> RSplit(const Text& text, const Text* separator, int64_t limit);
// At most `lines_max` of them.
std::vector<Text> SplitLines(const Text& text, bool keep_ends, int64_t lines_max);
// limit < 0: all.
Text Replace(const Text& text, std::string_view old_text, const Text& new_text, int64_t limit);

enum class CaseOf { kUpper, kLower, kCapitalize, kTitle, kSwap };
Text MapCase(const Text& text, CaseOf what);

// Pads to `width` code points with blanks or the given character.
enum class Pad { kLeft, kRight, kCenter };
Text PadText(const Text& text, int64_t width, std::string_view fill, Pad where);

}  // namespace fak::text::jinja
