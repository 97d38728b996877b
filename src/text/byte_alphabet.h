#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fak::text {

// GPT-2's byte alphabet, in which byte-level BPE vocabularies are written: bytes that print
// (33..126, 161..172, 174..255) stand for themselves, the other 68 are U+0100, U+0101, ... in
// ascending order (blank is U+0120). Pure functions, any thread.

// The character that stands for a byte; below U+0144, so at most two bytes of UTF-8.
char32_t AlphabetOfByte(uint8_t byte);

// Appends the characters that stand for the bytes.
void AppendInAlphabet(std::string& out, std::string_view bytes);

// Appends the bytes that the characters stand for. A character outside the alphabet stays as it
// is: some vocabularies hold added tokens as plain text.
void AppendFromAlphabet(std::string& out, std::string_view characters);

}  // namespace fak::text
