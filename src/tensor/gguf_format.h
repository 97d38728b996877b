#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

// Numbers of the GGUF container that its reader and its writer share. A file is, in little-endian
// order: magic, u32 version, u64 tensor count, u64 key count, the keys with their values, the
// tensor infos, and after padding the data section. A string is u64 length and bytes; an array is
// u32 element type, u64 count and packed elements. docs/formats/gguf.md says what we accept.
namespace fak::tensor {

inline constexpr std::string_view kGgufMagic = "GGUF";
inline constexpr uint32_t kGgufVersionOldest = 2;  // 2 and 3 read the same
inline constexpr uint32_t kGgufVersionNewest = 3;
inline constexpr uint32_t kGgufAlignmentDefault = 32;
inline constexpr int kGgufDimsMax = 4;
inline constexpr size_t kGgufTensorNameBytesMax = 63;
inline constexpr size_t kGgufKeyBytesMax = 65'535;

inline constexpr std::string_view kGgufAlignmentKey = "general.alignment";
inline constexpr std::string_view kGgufArchitectureKey = "general.architecture";
inline constexpr std::string_view kGgufSplitNumberKey = "split.no";
inline constexpr std::string_view kGgufSplitCountKey = "split.count";
inline constexpr std::string_view kGgufSplitTensorsKey = "split.tensors.count";

// Types of metadata values; the numbers are those of the file.
enum class GgufType : uint8_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
inline constexpr uint32_t kGgufTypes = 13;

// "u8", "string", "array" ...
std::string_view GgufTypeName(GgufType type);
// Bytes of one value; 0 for strings and arrays, whose size varies.
size_t GgufTypeBytes(GgufType type);

}  // namespace fak::tensor
