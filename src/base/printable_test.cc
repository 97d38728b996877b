#include "base/printable.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace fak
