#include "base/printable.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "base/utf8.h"

namespace fak {
namespace {

TEST(Printable, NoControlCharacterIsLeft) {
  EXPECT_EQ(Printable("a\x1B[2Jb\r\n\t\x7F"), "a\\x1B[2Jb\\x0D\\x0A\\x09\\x7F");
  EXPECT_EQ(Printable("caf\xC3\xA9 \xF0\x9F\x99\x82 'x' \\"),
            "caf\xC3\xA9 \xF0\x9F\x99\x82 'x' \\");
  EXPECT_EQ(Printable("\xC2\x9B"
                      "31m"),
            "\\x9B31m");  // CSI of C1
  EXPECT_EQ(Printable("\xFF\xC3"), "\\xFF\\xC3");
  EXPECT_EQ(Printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(PrintableLines("a\n\tb\r\x1B"), "a\n\tb\\x0D\\x1B");
}

TEST(Printable, NothingEndsALineOrTurnsItRound) {
  for (const char32_t c : {0x061C, 0x200E, 0x200F, 0x2028, 0x2029, 0x202A, 0x202B, 0x202C, 0x202D,
                           0x202E, 0x2066, 0x2067, 0x2068, 0x2069}) {
    std::string text = "a";
    AppendUtf8(text, c);
    const std::string hex = fmt::format("{:04X}", static_cast<unsigned>(c));
    EXPECT_EQ(Printable(text), "a\\x" + (c < 0x1000 ? hex.substr(1) : hex));
    EXPECT_EQ(PrintableJson(text), fmt::format("a\\u{:04x}", static_cast<unsigned>(c)));
    const bool mark = c == 0x061C || c == 0x200E || c == 0x200F;
    EXPECT_EQ(PrintableLines(text), mark ? text : Printable(text)) << hex;
  }
  const std::string plain = "\"caf\xC3\xA9\" \xE2\x80\xA7\xE2\x80\xAF\xE2\x81\xAA \\n \xFF\xE2\x80";
  EXPECT_EQ(PrintableJson(plain), plain);
  EXPECT_EQ(PrintableJson("\x7F\xC2\x9B"), "\\u007f\\u009b");
  EXPECT_EQ(PrintableJson(""), "");
}

}  // namespace
}  // namespace fak
