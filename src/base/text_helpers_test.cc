// utf8.h, hex.h, strings.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/hex.h"
#include "base/strings.h"
#include "base/utf8.h"

namespace fak {
namespace {

using testing::ElementsAre;

TEST(Utf8, FindsTheValidPrefix) {
  struct Case {
    std::string text;
    size_t valid;
  };
  const Case cases[] = {
      {"", 0},
      {"0123456789", 10},
      {"é€😀", 9},
      {"12345678é", 10},
      {"a\xC3", 1},
      {"a\x80", 1},
      {"\xC0\xAF", 0},          // overlong
      {"\xC1\xBF", 0},          // overlong
      {"\xE0\x9F\xBF", 0},      // overlong
      {"\xF0\x8F\xBF\xBF", 0},  // overlong
      {"\xED\x9F\xBF", 3},      // U+D7FF
      {"\xED\xA0\x80", 0},      // surrogate
      {"\xF4\x8F\xBF\xBF", 4},  // U+10FFFF
      {"\xF4\x90\x80\x80", 0},  // above
      {"\xF5\x80\x80\x80", 0},
      {"ok\xFF", 2},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(ValidUtf8Prefix(c.text), c.valid) << testing::PrintToString(c.text);
  }
}

TEST(Utf8, RoundTripsEveryCodePoint) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) {
      continue;
    }
    std::string text;
    AppendUtf8(text, c);
    char32_t back = 0xFFFFFFFF;
    ASSERT_EQ(DecodeUtf8(text, &back), static_cast<int>(text.size()));
    ASSERT_EQ(back, c);
    ASSERT_EQ(Utf8SequenceLength(static_cast<unsigned char>(text[0])),
              static_cast<int>(text.size()));
    for (size_t cut = 1; cut < text.size(); ++cut) {
      ASSERT_TRUE(IsIncompleteUtf8(text.substr(0, cut)));
    }
    ASSERT_FALSE(IsIncompleteUtf8(text));
  }
}

TEST(Utf8, ReplacesMaximalInvalidParts) {
  // Unicode 15, section 3.9, tables 3-8 to 3-11, with R for U+FFFD.
  const auto replaced = [](std::string text) {
    std::string out = ReplaceInvalidUtf8(text);
    for (size_t at; (at = out.find(kUtf8Replacement)) != std::string::npos;) {
      out.replace(at, kUtf8Replacement.size(), "R");
    }
    return out;
  };
  EXPECT_EQ(replaced("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), "RRRRRRRRA");
  EXPECT_EQ(replaced("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), "RRRRRRRRA");
  EXPECT_EQ(replaced("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), "RRRRRARRB");
  EXPECT_EQ(replaced("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "RRRRA");
  EXPECT_EQ(replaced("aé\xE2\x82"), "aéR");
}

TEST(Hex, RoundTrips) {
  EXPECT_EQ(ToHex(std::vector<unsigned char>{0, 1, 0xAB, 0xFF}), "0001abff");
  EXPECT_EQ(ToHex(uint64_t{0xABC}), "0000000000000abc");
  EXPECT_THAT(*ParseHex("00aBfF"), ElementsAre(0, 0xAB, 0xFF));
  EXPECT_FALSE(ParseHex("0"));
  EXPECT_FALSE(ParseHex("0g"));
}

TEST(Strings, SplitsCutsAndTrims) {
  EXPECT_THAT(Split("a,,b,", ','), ElementsAre("a", "", "b", ""));
  EXPECT_THAT(Split("", ','), ElementsAre(""));
  EXPECT_EQ(Cut("k=v=w", "=")->second, "v=w");
  EXPECT_FALSE(Cut("kv", "="));
  EXPECT_EQ(Trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(Trim(" \n"), "");
  EXPECT_EQ(Join({"a", "b"}, ", "), "a, b");
  EXPECT_TRUE(EqualsIgnoringCase("Content-Type", "content-tYPE"));
  EXPECT_FALSE(EqualsIgnoringCase("a", "ab"));
  EXPECT_EQ(ToLower("AZ[é"), "az[é");
}

TEST(Strings, LinesRowsUp) {
  EXPECT_EQ(LinedUp({{"A", "BB", "C"}, {"aaa", "", "c"}, {"a", "b", ""}}),
            "A    BB  C\naaa      c\na    b\n");
  EXPECT_EQ(LinedUp({{"A", "BB"}, {"aaa", "b"}}, Align::kRight), "  A  BB\naaa   b\n");
  EXPECT_EQ(LinedUp({}), "");
}

TEST(Strings, ParsesNumbersStrictly) {
  EXPECT_EQ(ParseInt("-42"), -42);
  EXPECT_EQ(ParseUint("18446744073709551615"), 18446744073709551615u);
  EXPECT_EQ(ParseFloat("1e3"), 1000.0);
  for (const char* bad : {"", " 1", "1 ", "+1", "0x1", "1.5", "99999999999999999999", "a"}) {
    EXPECT_FALSE(ParseInt(bad)) << bad;
  }
  EXPECT_FALSE(ParseUint("-1"));
  for (const char* bad : {"", "inf", "nan", "1e999", "1,5", " 1", "0x1p3"}) {
    EXPECT_FALSE(ParseFloat(bad)) << bad;
  }
}

TEST(Strings, ParsesByteSizes) {
  EXPECT_EQ(ParseBytes("0"), 0u);
  EXPECT_EQ(ParseBytes("512"), 512u);
  EXPECT_EQ(ParseBytes("4k"), 4096u);
  EXPECT_EQ(ParseBytes("1.5GiB"), 1610612736u);
  EXPECT_EQ(ParseBytes("2 MB"), 2097152u);
  EXPECT_EQ(ParseBytes("100B"), 100u);
  for (const char* bad : {"", "k", "1x", "1kk", "-1", "1.5", "99999999999T", "1..5k", "1ib"}) {
    EXPECT_FALSE(ParseBytes(bad)) << bad;
  }
}

TEST(Strings, FormatsForPeople) {
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(98'400'000), "98.4 MB");
  EXPECT_EQ(FormatBytes(999'600), "1.00 MB");
  EXPECT_EQ(FormatBytes(UINT64_MAX), "18.4 EB");
  EXPECT_EQ(FormatDuration(850 * kNsPerUs), "850 us");
  EXPECT_EQ(FormatDuration(12'500 * kNsPerUs), "12.5 ms");
  EXPECT_EQ(FormatDuration(3'210 * kNsPerMs), "3.21 s");
  EXPECT_EQ(FormatDuration(245 * kNsPerSecond), "4m 05s");
  EXPECT_EQ(FormatDuration(7'380 * kNsPerSecond), "2h 03m");
  EXPECT_EQ(FormatUtc(1'700'000'000'123'000'000), "2023-11-14T22:13:20.123Z");
}

}  // namespace
}  // namespace fak
