#include "text/byte_alphabet.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"

namespace fak::text {
namespace {

constexpr char32_t kAlphabetEnd = 0x144;  // 256 + the 68 bytes that don't print

constexpr bool Prints(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

struct Alphabet {
  std::array<char32_t, 256> of_byte{};
  std::array<int16_t, kAlphabetEnd> byte_of{};  // -1: stands for no byte
};

constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet;
  alphabet.byte_of.fill(-1);
  char32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t character = Prints(byte) ? static_cast<char32_t>(byte) : next++;
    alphabet.of_byte[static_cast<size_t>(byte)] = character;
    alphabet.byte_of[character] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

char32_t AlphabetOfByte(uint8_t byte) {
  return kAlphabet.of_byte[byte];
}

void AppendInAlphabet(std::string& out, std::string_view bytes) {
  for (const char byte : bytes) {
    AppendUtf8(out, kAlphabet.of_byte[static_cast<uint8_t>(byte)]);
  }
}

void AppendFromAlphabet(std::string& out, std::string_view characters) {
  while (!characters.empty()) {
    char32_t character = 0;
    const int length = std::max(1, DecodeUtf8(characters, &character));
    if (character < kAlphabetEnd && kAlphabet.byte_of[character] >= 0) {
      out += static_cast<char>(kAlphabet.byte_of[character]);
    } else {
      out += characters.substr(0, static_cast<size_t>(length));
    }
    characters.remove_prefix(static_cast<size_t>(length));
  }
}

}  // namespace fak::text
