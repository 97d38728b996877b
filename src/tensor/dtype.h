#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace fak::tensor {

// Element types of tensors. The values are the type ids of GGUF files. The enumerators are the
// types that kernels compute with; every other id that the table below knows is a valid value too
// (a file may hold it, and an error must be able to name it).
enum class DType : uint8_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2K = 10,
  kQ3K = 11,
  kQ4K = 12,
  kQ5K = 13,
  kQ6K = 14,
  kIq4Nl = 20,
  kIq4Xs = 23,
  kBf16 = 30,
};

enum class DTypeSupport : uint8_t {
  kComputed,  // has kernels: one of the enumerators
  kSized,     // its layout's size is known: files that hold it can be listed, not run
  kRetired,   // was withdrawn from the format
};

struct DTypeInfo {
  DType type;
  std::string_view name;    // as model files are labelled: "Q4_K"
  uint16_t block_elements;  // consecutive elements of a row that are stored as one block
  uint16_t block_bytes;     // 0 if retired
  DTypeSupport support;
};

// All known types, ascending by id.
std::span<const DTypeInfo> AllDTypes();
// nullptr if the id, or the name (in any case), is none of them.
const DTypeInfo* FindDType(uint32_t id);
const DTypeInfo* FindDType(std::string_view name);

// For a known type only.
const DTypeInfo& InfoOf(DType type);
inline std::string_view DTypeName(DType type) {
  return InfoOf(type).name;
}
inline bool IsComputed(DType type) {
  return InfoOf(type).support == DTypeSupport::kComputed;
}
// True for types whose block is more than one element.
inline bool IsQuantised(DType type) {
  return InfoOf(type).block_elements > 1;
}
// Bytes of a row; `elements` must be whole blocks and small enough not to overflow.
inline int64_t RowBytes(DType type, int64_t elements) {
  const DTypeInfo& info = InfoOf(type);
  return elements / info.block_elements * info.block_bytes;
}

}  // namespace fak::tensor
