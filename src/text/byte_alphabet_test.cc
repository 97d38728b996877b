#include "text/byte_alphabet.h"

#include <gtest/gtest.h>

#include <set>

namespace fak::text {
namespace {

TEST(ByteAlphabet, IsTheOneOfGpt2) {
  EXPECT_EQ(AlphabetOfByte('A'), U'A');
  EXPECT_EQ(AlphabetOfByte(' '), U'\u0120');
  EXPECT_EQ(AlphabetOfByte('\n'), U'\u010A');
  EXPECT_EQ(AlphabetOfByte(0), U'\u0100');
  EXPECT_EQ(AlphabetOfByte(0x7F), U'\u0121');
  EXPECT_EQ(AlphabetOfByte(0xA0), U'\u0142');
  EXPECT_EQ(AlphabetOfByte(0xAD), U'\u0143');
  EXPECT_EQ(AlphabetOfByte(0xFF), U'\u00FF');
}

TEST(ByteAlphabet, BringsEveryByteBack) {
  std::set<char32_t> seen;
  for (int byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    seen.insert(AlphabetOfByte(static_cast<uint8_t>(byte)));
    std::string name, back;
    AppendInAlphabet(name, {&raw, 1});
    AppendFromAlphabet(back, name);
    EXPECT_EQ(back, std::string(1, raw)) << byte;
  }
  EXPECT_EQ(seen.size(), 256u);
}

TEST(ByteAlphabet, LeavesCharactersOutsideItAlone) {
  std::string out;
  AppendFromAlphabet(out,
                     "a\xC4\xA0\xE2\x80\xBC z\xFF");  // a, U+0120, U+203C, blank, z, a bad byte
  EXPECT_EQ(out, "a \xE2\x80\xBC z\xFF");
}

}  // namespace
}  // namespace fak::text
