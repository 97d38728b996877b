#include "wire/msgpack.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "base/hex.h"

namespace fak::wire {
namespace {

using Kind = MsgpackToken::Kind;

std::string Bytes(std::string_view hex) {
  const auto bytes = ParseHex(hex);
  EXPECT_TRUE(bytes.has_value()) << hex;
  return {bytes->begin(), bytes->end()};
}

std::string Hex(std::string_view bytes) {
  return ToHex(std::span(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

MsgpackToken One(std::string_view text) {
  MsgpackReader reader(text);
  const auto token = reader.Next();
  EXPECT_TRUE(token.has_value()) << Hex(text);
  return token.value_or(MsgpackToken{});
}

// Left: bytes that Python's msgpack wrote.
TEST(Msgpack, IntegersAreWhatOthersWriteForThem) {
  const struct {
    const char* hex;
    int64_t value;
  } cases[] = {
      {"00", 0},
      {"7f", 127},
      {"cc80", 128},
      {"ccff", 255},
      {"cd0100", 256},
      {"cdffff", 65535},
      {"ce00010000", 65536},
      {"ceffffffff", 4294967295},
      {"cf0000000100000000", 4294967296},
      {"ff", -1},
      {"e0", -32},
      {"d0df", -33},
      {"d080", -128},
      {"d1ff7f", -129},
      {"d18000", -32768},
      {"d2ffff7fff", -32769},
      {"d280000000", -2147483648},
      {"d3ffffffff7fffffff", -2147483649},
      {"d38000000000000000", std::numeric_limits<int64_t>::min()},
  };
  for (const auto& [hex, value] : cases) {
    EXPECT_EQ(One(Bytes(hex)).AsInt(), value) << hex;
    std::string written;
    MsgpackWriter(written).Int(value);
    EXPECT_EQ(Hex(written), hex);
  }
}

TEST(Msgpack, IntegersOutsideARangeAreNoneOfIt) {
  const MsgpackToken largest = One(Bytes("cfffffffffffffffff"));
  EXPECT_EQ(largest.AsUint(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(largest.AsInt(), std::nullopt);
  EXPECT_EQ(One(Bytes("ff")).AsUint(), std::nullopt);
  EXPECT_EQ(One(Bytes("ff")).AsDouble(), -1.0);
  EXPECT_EQ(One(Bytes("a131")).AsInt(), std::nullopt);
}

TEST(Msgpack, ReadsFloatsOfBothSizes) {
  EXPECT_EQ(One(Bytes("cb3ff8000000000000")).AsDouble(), 1.5);
  EXPECT_EQ(One(Bytes("ca3fc00000")).AsDouble(), 1.5);
  std::string written;
  MsgpackWriter(written).Double(-0.0);
  EXPECT_TRUE(std::signbit(One(written).number));
}

TEST(Msgpack, LengthsTakeTheirShortestForm) {
  for (const size_t length : {0u, 15u, 16u, 31u, 32u, 255u, 256u, 65535u, 65536u}) {
    const std::string bytes(length, 'x');
    std::string text;
    MsgpackWriter(text).String(bytes).Binary(bytes).Array(length);
    text.append(length, '\xc0');
    MsgpackWriter(text).Map(length);
    text.append(2 * length, '\xc0');
    MsgpackReader reader(text);
    const auto string = reader.Next();
    EXPECT_EQ(reader.offset(), length + (length < 32      ? 1
                                         : length < 256   ? 2
                                         : length < 65536 ? 3
                                                          : 5));
    ASSERT_TRUE(string && string->kind == Kind::kString);
    EXPECT_EQ(string->bytes, bytes);
    const auto binary = reader.Next();
    ASSERT_TRUE(binary && binary->kind == Kind::kBinary);
    EXPECT_EQ(binary->bytes, bytes);
    const size_t before = reader.offset();
    const auto array = reader.NextWhole();
    ASSERT_TRUE(array.has_value());
    EXPECT_EQ(array->size(), length + (length < 16 ? 1 : length < 65536 ? 3 : 5));
    EXPECT_EQ(reader.offset(), before + array->size());
    const auto map = reader.Expect(Kind::kMap, "a map");
    ASSERT_TRUE(map.has_value());
    EXPECT_EQ(map->count, length);
  }
}

TEST(Msgpack, WholeValuesAreTakenAtAnyDepth) {
  const std::string deep(100'000, '\x91');  // arrays in arrays
  const std::string closed = deep + "\xc0";
  EXPECT_EQ(MsgpackReader(closed).NextWhole()->size(), closed.size());
  EXPECT_FALSE(MsgpackReader(deep).NextWhole().has_value());
  // {"a": [1, {"b": nil}], "c": extension}, then 7
  const std::string text = Bytes(
      "82a1619201"
      "81a162c0"
      "a163d60501020304"
      "07");
  MsgpackReader reader(text);
  ASSERT_TRUE(reader.NextWhole().has_value());
  EXPECT_EQ(reader.Next()->AsInt(), 7);
  EXPECT_TRUE(reader.at_end());
}

TEST(Msgpack, ExtensionsOfEachFormAreTakenWhole) {
  for (const char* hex :
       {"d405aa", "d505aaaa", "d605aaaaaaaa", "d705aaaaaaaaaaaaaaaa",
        "d805aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "c70105aa", "c8000105aa", "c90000000105aa"}) {
    const std::string text = Bytes(hex);
    const MsgpackToken token = One(text);
    EXPECT_EQ(token.kind, Kind::kExtension) << hex;
    EXPECT_EQ(token.extension_type, 5) << hex;
    EXPECT_EQ(token.bytes.front(), '\xaa') << hex;
    EXPECT_TRUE(MsgpackReader(text).NextWhole().has_value()) << hex;
  }
}

TEST(Msgpack, WhatIsCutIsCorruptAndSaysWhere) {
  // One of every form, cut before its last byte.
  for (const char* hex : {"",
                          "c1",
                          "cc",
                          "cd01",
                          "ce010101",
                          "cf01010101010101",
                          "d0",
                          "d101",
                          "d2010101",
                          "d301010101010101",
                          "ca010101",
                          "cb01010101010101",
                          "a26f",
                          "d9",
                          "d90261",
                          "da00",
                          "db000000",
                          "c4",
                          "c40261",
                          "c50001",
                          "c600000001",
                          "c7",
                          "c701",
                          "c70105",
                          "d405",
                          "d4",
                          "d7050101",
                          "92c0",
                          "81c0",
                          "dc0002c0",
                          "dd00000001",
                          "de0001c0",
                          "df00000001c0"}) {
    const std::string text = Bytes(hex);
    const auto whole = MsgpackReader(text).NextWhole();
    ASSERT_FALSE(whole.has_value()) << hex;
    EXPECT_EQ(whole.error().code, Code::kDataCorrupt) << hex;
    EXPECT_NE(whole.error().detail.find("offset "), std::string::npos) << hex;
  }
}

TEST(Msgpack, CountsBeyondTheRestAreRefusedBeforeAnythingIsReserved) {
  for (const char* hex : {"ddffffffff", "dfffffffff", "dcffff00", "dbffffffff", "c6ffffffff"}) {
    const std::string text = Bytes(hex);
    EXPECT_FALSE(MsgpackReader(text).Next().has_value()) << hex;
  }
}

}  // namespace
}  // namespace fak::wire
