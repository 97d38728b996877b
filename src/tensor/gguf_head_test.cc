#include "tensor/gguf_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/limits.h"

namespace fak::tensor {
namespace {

using testing::HasSubstr;

// Little-endian bytes of a file, written piece by piece.
class Bytes {
 public:
  template <class T>
  Bytes& Number(T value) {
    const auto raw = std::as_bytes(std::span(&value, 1));
    bytes_.insert(bytes_.end(), raw.begin(), raw.end());
    return *this;
  }
  Bytes& U32(uint32_t value) { return Number(value); }
  Bytes& U64(uint64_t value) { return Number(value); }
  Bytes& Raw(std::string_view text) {
    const auto raw = std::as_bytes(std::span(text));
    bytes_.insert(bytes_.end(), raw.begin(), raw.end());
    return *this;
  }
  Bytes& String(std::string_view text) { return U64(text.size()).Raw(text); }
  Bytes& Head(uint32_t version, uint64_t tensors, uint64_t keys) {
    return Raw("GGUF").U32(version).U64(tensors).U64(keys);
  }
  Bytes& KeyU32(std::string_view key, uint32_t value) { return String(key).U32(4).U32(value); }
  // An array's head; its elements follow.
  Bytes& KeyArray(std::string_view key, uint32_t element, uint64_t count) {
    return String(key).U32(9).U32(element).U64(count);
  }
  Bytes& Tensor(std::string_view name, const std::vector<int64_t>& shape, uint32_t type,
                uint64_t offset) {
    String(name).U32(static_cast<uint32_t>(shape.size()));
    for (const int64_t n : shape) {
      Number(n);
    }
    return U32(type).U64(offset);
  }
  // The data section: zeros.
  Bytes& Data(size_t bytes, size_t alignment = 32) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment + bytes);
    return *this;
  }
  std::span<const std::byte> span() const { return bytes_; }
  size_t size() const { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
};

Result<GgufHead> Parse(std::span<const std::byte> bytes) {
  uint64_t wanted = 0;
  Result<GgufHead> head = ParseGgufHead(bytes, bytes.size(), &wanted);
  EXPECT_EQ(wanted, 0u) << "there are no more bytes to want";
  return head;
}

// Two keys, one of them an array of strings, and two tensors.
Bytes SmallFile() {
  return Bytes()
      .Head(3, 2, 2)
      .KeyU32("general.alignment", 32)
      .KeyArray("names", 8, 2)
      .String("a")
      .String("bcd")
      .Tensor("first", {8, 2}, 0, 0)
      .Tensor("second", {32}, 8, 64)
      .Data(64 + 34);
}

TEST(ParseGgufHead, ReadsKeysAndPlacesTensors) {
  const Bytes file = SmallFile();
  const Result<GgufHead> head = Parse(file.span());
  ASSERT_TRUE(head) << head.error().detail;
  EXPECT_EQ(head->version, 3u);
  EXPECT_EQ(head->data_offset, file.size() - 98);
  ASSERT_EQ(head->keys.size(), 2u);
  EXPECT_EQ(head->keys[0].name, "general.alignment");
  const GgufValue* names = head->Find("names");
  ASSERT_NE(names, nullptr);
  const auto strings = names->AsStrings();
  ASSERT_TRUE(strings);
  EXPECT_EQ(std::vector<std::string>(strings->begin(), strings->end()),
            (std::vector<std::string>{"a", "bcd"}));
  EXPECT_EQ(head->Find("name"), nullptr);
  ASSERT_EQ(head->tensors.size(), 2u);
  EXPECT_EQ(head->tensors[0].rows(), 2);
  EXPECT_EQ(head->tensors[0].bytes, 64u);
  EXPECT_EQ(head->tensors[1].type, DType::kQ8_0);
  EXPECT_EQ(head->tensors[1].offset, head->data_offset + 64);
}

TEST(ParseGgufHead, AcceptsVersion2AndGapsAndTensorsOutOfOrder) {
  const Bytes file =
      Bytes().Head(2, 2, 0).Tensor("late", {1}, 0, 4096).Tensor("early", {1}, 0, 0).Data(4096 + 4);
  const Result<GgufHead> head = Parse(file.span());
  ASSERT_TRUE(head) << head.error().detail;
  EXPECT_EQ(head->version, 2u);
}

TEST(ParseGgufHead, ListsTypesThatCantBeComputedWith) {
  const Bytes file = Bytes().Head(3, 1, 0).Tensor("t", {32, 2}, 39, 0).Data(34);
  const Result<GgufHead> head = Parse(file.span());
  ASSERT_TRUE(head) << head.error().detail;
  EXPECT_EQ(DTypeName(head->tensors[0].type), "MXFP4");
  EXPECT_FALSE(IsComputed(head->tensors[0].type));
}

TEST(ParseGgufHead, RefusesEveryTruncation) {
  const Bytes file = SmallFile();
  for (size_t size = 0; size < file.size(); ++size) {
    const Result<GgufHead> head = Parse(file.span().first(size));
    ASSERT_FALSE(head) << size;
    EXPECT_EQ(head.error().code, Code::kDataCorrupt) << size;
    EXPECT_FALSE(head.error().detail.empty());
  }
}

TEST(ParseGgufHead, AsksForMoreOfTheFileUntilThePrefixSuffices) {
  const Bytes file = SmallFile();
  for (size_t start = 0; start < file.size(); ++start) {
    uint64_t size = start;
    int tries = 0;
    while (true) {
      uint64_t wanted = 0;
      const Result<GgufHead> head = ParseGgufHead(file.span().first(size), file.size(), &wanted);
      if (head) {
        break;
      }
      ASSERT_GT(wanted, size) << head.error().detail;
      ASSERT_LE(wanted, file.size());
      size = wanted;
      ASSERT_LT(++tries, 12);
    }
  }
}

struct Malformed {
  std::string name;
  Bytes file;
  std::string says;
  Code code = Code::kDataCorrupt;
};

class MalformedGguf : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedGguf, IsRefusedByName) {
  const Result<GgufHead> head = Parse(GetParam().file.span());
  ASSERT_FALSE(head);
  EXPECT_EQ(head.error().code, GetParam().code) << head.error().detail;
  EXPECT_THAT(head.error().detail, HasSubstr(GetParam().says));
}

constexpr uint64_t kHuge = uint64_t{1} << 63;

std::vector<Malformed> MalformedHeaders() {
  return {
      {"Empty", Bytes(), "needed, 0 are left); the file is empty: download it again"},
      {"NotGguf", Bytes().Raw("PK\x03\x04-some-zip-file-of-a-model"),
       "not a GGUF file: it starts with 'PK\\x03"},
      {"Version0", Bytes().Head(0, 0, 0), "version 0 isn't supported", Code::kUnsupported},
      {"Version1", Bytes().Head(1, 0, 0), "version 1 isn't supported", Code::kUnsupported},
      {"Version4", Bytes().Head(4, 0, 0), "version 4 isn't supported", Code::kUnsupported},
      {"BigEndian", Bytes().Head(0x0300'0000, 0, 0), "big-endian", Code::kUnsupported},
      {"ManyTensors", Bytes().Head(3, kHuge, 0), "9223372036854775808 tensors (at most 65536)",
       Code::kPayloadTooLarge},
      {"ManyKeys", Bytes().Head(3, 0, kHuge), "9223372036854775808 metadata keys (at most 65536)",
       Code::kPayloadTooLarge},
      {"FewerKeysThanSaid", Bytes().Head(3, 0, 2).KeyU32("a", 1),
       "metadata key 1, byte 41: the file ends"},
      {"FewerTensorsThanSaid", Bytes().Head(3, 1, 0),
       "tensor 0, byte 24: the file ends inside a tensor name"},
  };
}

std::vector<Malformed> MalformedKeys() {
  const auto one = [] { return Bytes().Head(3, 0, 1); };
  return {
      {"EmptyKey", one().KeyU32("", 1), "metadata key 0, byte 32: the key is empty"},
      {"HugeKey", one().U64(kHuge).Raw("a"), "a key of 9223372036854775808 bytes (at most 65535)"},
      {"KeyBeyondTheFile", one().U64(1000).Raw("a"),
       "the file ends inside a key (1000 bytes are needed, 1 are left)"},
      {"UnknownType", one().String("a").U32(13).U64(0),
       "metadata key 0 'a', byte 37: the type of the value is 13"},
      {"HugeString", one().String("a").U32(8).U64(kHuge), "a string of 9223372036854775808 bytes",
       Code::kPayloadTooLarge},
      {"StringBeyondTheFile", one().String("a").U32(8).U64(9).Raw("x"),
       "the file ends inside a string"},
      {"BoolThatIsTwo", one().String("a").U32(7).Number(uint8_t{2}), "a bool that is 2"},
      {"BoolInAnArray", one().KeyArray("a", 7, 2).Number(uint8_t{1}).Number(uint8_t{7}),
       "a bool that is 7"},
      {"ArrayOfArrays", one().KeyArray("a", 9, 1).U32(4).U64(0),
       "'a', byte 41: an array of arrays"},
      {"ArrayOfUnknown", one().KeyArray("a", 77, 1), "the type of the elements is 77"},
      {"HugeArray", one().KeyArray("a", 4, kHuge), "an array of 9223372036854775808 elements",
       Code::kPayloadTooLarge},
      {"ArrayBeyondTheFile", one().KeyArray("a", 4, 3).U32(1).U32(2),
       "the file ends inside an array"},
      {"HugeStringInAnArray", one().KeyArray("a", 8, 2).String("x").U64(kHuge),
       "string 1 of an array of 9223372", Code::kPayloadTooLarge},
      {"StringsBeyondTheFile", one().KeyArray("a", 8, 3).String("x"),
       "the file ends inside string 1 of an array"},
      {"SameKeyTwice", Bytes().Head(3, 0, 3).KeyU32("x", 1).KeyU32("a", 1).KeyU32("x", 2),
       "metadata key 2 'x': the same key as number 0"},
      {"AlignmentOfAnotherType", one().String("general.alignment").U32(10).U64(32),
       "is u64 and must be u32"},
      {"AlignmentThatIsAnArray", one().KeyArray("general.alignment", 4, 1).U32(32),
       "is array and must be u32"},
      {"AlignmentOfZero", one().KeyU32("general.alignment", 0), "is 0 and must be a power of two"},
      {"AlignmentOf48", one().KeyU32("general.alignment", 48), "is 48 and must be a power of two"},
      {"ControlCharactersInAKey", one().String("a\n\x7f").U32(13), "metadata key 0 'a\\x0A\\x7F'"},
  };
}

std::vector<Malformed> MalformedTensors() {
  const auto one = [] { return Bytes().Head(3, 1, 0); };
  const auto two = [] { return Bytes().Head(3, 2, 0); };
  const int64_t big = int64_t{1} << 40;
  return {
      {"EmptyName", one().Tensor("", {1}, 0, 0).Data(4), "the name is empty"},
      {"LongName", one().Tensor(std::string(64, 'n'), {1}, 0, 0).Data(4),
       "a tensor name of 64 bytes (at most 63)"},
      {"NoDimensions", one().Tensor("t", {}, 0, 0).Data(4), "'t', byte 37: 0 dimensions (1 to 4)"},
      {"FiveDimensions", one().Tensor("t", {1, 1, 1, 1, 1}, 0, 0).Data(4), "5 dimensions (1 to 4)"},
      {"ZeroDimension", one().Tensor("t", {4, 0}, 0, 0).Data(16), "dimension 1 is 0"},
      {"NegativeDimension", one().Tensor("t", {-4}, 0, 0).Data(16), "dimension 0 is -4"},
      {"UnknownType", one().Tensor("t", {4}, 999, 0).Data(16), "type 999 isn't known",
       Code::kUnsupported},
      {"WithdrawnType", one().Tensor("t", {32}, 31, 0).Data(32), "type Q4_0_4_4 was withdrawn",
       Code::kUnsupported},
      {"PartOfABlock", one().Tensor("t", {48}, 8, 0).Data(64),
       "rows of 48 elements aren't whole Q8_0 blocks of 32"},
      {"ProductOverflows", one().Tensor("t", {big, big, 4}, 0, 0).Data(64),
       "is larger than the file"},
      {"BytesOverflow", one().Tensor("t", {int64_t{1} << 61, 3}, 0, 0).Data(64),
       "is larger than the file"},
      {"BeyondTheFile", one().Tensor("t", {8, 2}, 0, 0).Data(63),
       "its 64 bytes at 0 of the data section"},
      {"OffsetBeyondTheFile", one().Tensor("t", {8}, 0, kHuge).Data(64),
       "at 9223372036854775808 of the data section"},
      {"OffsetOffTheGrid", one().Tensor("t", {8}, 0, 8).Data(64),
       "offset 8 isn't a multiple of the alignment, 32"},
      {"Overlap", two().Tensor("a", {16}, 0, 0).Tensor("b", {8}, 0, 32).Data(64),
       "tensor 1 'b': overlaps tensor 0 'a'"},
      {"SamePlace", two().Tensor("a", {8}, 0, 32).Tensor("b", {8}, 0, 32).Data(64),
       "overlaps tensor 0 'a'"},
      {"SameName", two().Tensor("a", {8}, 0, 0).Tensor("a", {8}, 0, 32).Data(64),
       "tensor 1 'a': has the same name as tensor 0"},
      {"NoDataSection", one().Tensor("t", {8}, 0, 0), "the file is cut short ("},
  };
}

std::string NameOf(const testing::TestParamInfo<Malformed>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Header, MalformedGguf, testing::ValuesIn(MalformedHeaders()), NameOf);
INSTANTIATE_TEST_SUITE_P(Keys, MalformedGguf, testing::ValuesIn(MalformedKeys()), NameOf);
INSTANTIATE_TEST_SUITE_P(Tensors, MalformedGguf, testing::ValuesIn(MalformedTensors()), NameOf);

// Five arrays of 128 MiB, in memory that is reserved and hardly touched.
TEST(ParseGgufHead, RefusesAHeadBeyondItsBound) {
  const uint64_t array_bytes = limits::kGgufArrayLengthMax * sizeof(uint64_t);
  const size_t size = limits::kGgufHeadBytesMax + 2 * array_bytes;
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const std::span<std::byte> bytes(static_cast<std::byte*>(memory), size);
  size_t at = 0;
  const auto write = [&](const Bytes& piece) {
    std::copy(piece.span().begin(), piece.span().end(),
              bytes.begin() + static_cast<std::ptrdiff_t>(at));
    at += piece.size();
  };
  write(Bytes().Head(3, 0, 5));
  for (const char* key : {"a", "b", "c", "d", "e"}) {
    write(Bytes().KeyArray(key, 10, limits::kGgufArrayLengthMax));
    at += array_bytes;
  }
  const Result<GgufHead> head = Parse(bytes);
  munmap(memory, size);
  ASSERT_FALSE(head);
  EXPECT_EQ(head.error().code, Code::kPayloadTooLarge);
  EXPECT_THAT(head.error().detail, HasSubstr("metadata key 3 'd', byte "));
  EXPECT_THAT(head.error().detail, HasSubstr("more than 536870912 bytes before the tensor data"));
}

TEST(PrintableName, IsOneShortLineOfAscii) {
  EXPECT_EQ(PrintableName("blk.0.attn_q.weight"), "blk.0.attn_q.weight");
  EXPECT_EQ(PrintableName("a\r\n\xC3\xA9"), "a\\x0D\\x0A\\xC3\\xA9");
  EXPECT_EQ(PrintableName(std::string(100, 'a')), std::string(64, 'a') + "...");
}

}  // namespace
}  // namespace fak::tensor
