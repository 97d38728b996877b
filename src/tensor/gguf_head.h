#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"
#include "tensor/gguf_format.h"
#include "tensor/gguf_value.h"

namespace fak::tensor {

struct GgufKey {
  std::string_view name;
  GgufValue value;
};

struct GgufTensor {
  std::string_view name;
  DType type = DType::kF32;
  int dims = 1;  // 1 to 4
  std::array<int64_t, kGgufDimsMax>
      shape{};          // shape[0] is the row length and varies fastest; absent: 1
  uint32_t part = 0;    // which file of a split model
  uint64_t offset = 0;  // of the first byte, from the start of that file
  uint64_t bytes = 0;

  int64_t elements() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
  int64_t rows() const { return shape[1] * shape[2] * shape[3]; }
};

// All that stands before the data section. Names and values point into the bytes that were parsed.
struct GgufHead {
  uint32_t version = 0;
  uint32_t alignment = kGgufAlignmentDefault;
  uint64_t data_offset = 0;         // where the data section starts
  std::vector<GgufKey> keys;        // as in the file
  std::vector<uint32_t> key_order;  // indices into keys, ascending by name
  std::vector<GgufTensor> tensors;  // as in the file; part is 0

  // nullptr if there is none.
  const GgufValue* Find(std::string_view key) const;
};

// Parses the first bytes of a file of file_bytes bytes. Afterwards everything holds: counts and
// lengths lie inside the file and the bounds of base/limits.h; keys and tensor names are unique;
// every tensor is made of whole blocks, aligned, inside the file, and overlaps no other.
// kDataCorrupt: the format is broken; the detail names section, byte and key or tensor.
// kPayloadTooLarge: a bound of base/limits.h; the detail has both numbers.
// kUnsupported: another version, byte order, or a type that is unknown or withdrawn.
// bytes may be a prefix of the file. If more are needed to go on, *wanted_bytes is set to a length
// to try with (at most file_bytes) and the error is to be ignored; else it is set to 0.
[[nodiscard]] Result<GgufHead> ParseGgufHead(std::span<const std::byte> bytes, uint64_t file_bytes,
                                             uint64_t* wanted_bytes);

// A name from a file made fit for a one-line message: cut at 64 bytes, what isn't printable ASCII
// as \xNN.
std::string PrintableName(std::string_view name);

}  // namespace fak::tensor
