#include "tensor/gguf_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace fak::tensor {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A value over bytes that it owns.
struct Owned {
  std::vector<std::byte> bytes;
  GgufValue value;
};

template <class T>
Owned Array(GgufType element, const std::vector<T>& values) {
  const auto raw = std::as_bytes(std::span(values));
  // One byte in front: nothing in a file is aligned.
  Owned owned;
  owned.bytes.resize(1);
  owned.bytes.insert(owned.bytes.end(), raw.begin(), raw.end());
  owned.value = {.type = GgufType::kArray,
                 .element = element,
                 .count = values.size(),
                 .bytes = std::span(owned.bytes).subspan(1)};
  return owned;
}

template <class T>
Owned Scalar(GgufType type, T value) {
  Owned owned = Array<T>(type, {value});
  owned.value.type = type;
  return owned;
}

template <class T>
void ExpectRefused(const Result<T>& result, std::string_view says) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kDataCorrupt);
  EXPECT_THAT(result.error().detail, HasSubstr(std::string(says)));
}

TEST(GgufValue, ReadsAnIntegerOfAnyTypeInWhichItFits) {
  EXPECT_EQ(Scalar<uint8_t>(GgufType::kU8, 255).value.AsU32().value(), 255u);
  EXPECT_EQ(Scalar<int8_t>(GgufType::kI8, 7).value.AsU32().value(), 7u);
  EXPECT_EQ(Scalar<uint16_t>(GgufType::kU16, 65535).value.AsU32().value(), 65535u);
  EXPECT_EQ(Scalar<int16_t>(GgufType::kI16, 9).value.AsU32().value(), 9u);
  EXPECT_EQ(Scalar<uint32_t>(GgufType::kU32, 4294967295u).value.AsU32().value(), 4294967295u);
  EXPECT_EQ(Scalar<int32_t>(GgufType::kI32, 5).value.AsU32().value(), 5u);
  EXPECT_EQ(Scalar<uint64_t>(GgufType::kU64, 6).value.AsU32().value(), 6u);
  EXPECT_EQ(Scalar<int64_t>(GgufType::kI64, 8).value.AsU32().value(), 8u);
}

TEST(GgufValue, RefusesIntegersOutOfRange) {
  EXPECT_EQ(Scalar<int8_t>(GgufType::kI8, -1).value.AsI32().value(), -1);
  ExpectRefused(Scalar<uint32_t>(GgufType::kU32, 4'294'967'295u).value.AsI32(),
                "4294967295 is out of range");
  ExpectRefused(Scalar<int8_t>(GgufType::kI8, -1).value.AsU32(), "-1 is out of range");
  ExpectRefused(Scalar<int64_t>(GgufType::kI64, int64_t{1} << 32).value.AsU32(),
                "4294967296 is out of range");
  ExpectRefused(
      Scalar<uint64_t>(GgufType::kU64, std::numeric_limits<uint64_t>::max()).value.AsU32(),
      "18446744073709551615 is out of range");
  ExpectRefused(Array<uint32_t>(GgufType::kU32, {1, 3'000'000'000u}).value.AsI32Array(),
                "3000000000 is out of range");
}

TEST(GgufValue, RefusesOtherTypesByName) {
  ExpectRefused(Scalar<float>(GgufType::kF32, 1.0f).value.AsU32(), "is f32 and must be an integer");
  ExpectRefused(Scalar<uint8_t>(GgufType::kBool, 1).value.AsU32(),
                "is bool and must be an integer");
  ExpectRefused(Scalar<uint32_t>(GgufType::kU32, 1).value.AsF32(), "is u32 and must be a float");
  ExpectRefused(Scalar<uint8_t>(GgufType::kU8, 1).value.AsBool(), "is u8 and must be bool");
  ExpectRefused(Scalar<uint32_t>(GgufType::kU32, 1).value.AsString(),
                "is u32 and must be a string");
  ExpectRefused(Array<uint32_t>(GgufType::kU32, {1}).value.AsU32(),
                "is array of u32 and must be one value");
  ExpectRefused(Array<uint32_t>(GgufType::kU32, {1}).value.AsStrings(),
                "is array of u32 and must be an array of strings");
  ExpectRefused(Scalar<float>(GgufType::kF32, 1.0f).value.AsF32Array(),
                "is f32 and must be an array");
  ExpectRefused(Array<float>(GgufType::kF32, {1.0f}).value.AsI32Array(),
                "is array of f32 and must be an integer");
  const GgufValue text = {.type = GgufType::kString, .element = GgufType::kString, .bytes = {}};
  ExpectRefused(text.AsU32PerLayer(3), "is string and must be an integer");
}

TEST(GgufValue, ReadsFloatsAndRefusesWhatIsNone) {
  EXPECT_EQ(Scalar<float>(GgufType::kF32, 1e-5f).value.AsF32().value(), 1e-5f);
  EXPECT_EQ(Scalar<double>(GgufType::kF64, 0.5).value.AsF32().value(), 0.5f);
  ExpectRefused(Scalar<double>(GgufType::kF64, 1e300).value.AsF32(), "1e+300 is out of range");
  ExpectRefused(Scalar<float>(GgufType::kF32, std::nanf("")).value.AsF32(), "is nan");
  ExpectRefused(
      Scalar<float>(GgufType::kF32, -std::numeric_limits<float>::infinity()).value.AsF32(),
      "is -inf");
  // Scores of tokens may be infinite.
  const auto scores = Array<float>(GgufType::kF32, {0.0f, -std::numeric_limits<float>::infinity()})
                          .value.AsF32Array();
  EXPECT_THAT(scores.value(), ElementsAre(0.0f, -std::numeric_limits<float>::infinity()));
}

TEST(GgufValue, GivesOneValueALayerFromAScalarOrAnArray) {
  EXPECT_THAT(Scalar<uint32_t>(GgufType::kU32, 4).value.AsU32PerLayer(3).value(),
              ElementsAre(4, 4, 4));
  EXPECT_THAT(Array<int32_t>(GgufType::kI32, {1, 2, 3}).value.AsU32PerLayer(3).value(),
              ElementsAre(1, 2, 3));
  ExpectRefused(Array<int32_t>(GgufType::kI32, {1, 2, 3}).value.AsU32PerLayer(4),
                "has 3 elements for 4 layers");
  ExpectRefused(Array<int32_t>(GgufType::kI32, {1, -2}).value.AsU32PerLayer(2),
                "-2 is out of range");
  EXPECT_THAT(Array<uint8_t>(GgufType::kBool, {1, 0}).value.AsBoolPerLayer(2).value(),
              ElementsAre(true, false));
  EXPECT_THAT(Scalar<uint8_t>(GgufType::kBool, 1).value.AsBoolPerLayer(2).value(),
              ElementsAre(true, true));
  ExpectRefused(Scalar<uint32_t>(GgufType::kU32, 1).value.AsBoolPerLayer(2),
                "is u32 and must be bool");
}

}  // namespace
}  // namespace fak::tensor
