#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/gguf_format.h"

namespace fak::tensor {

// The strings of an array, in order, without a copy. Valid as long as the bytes it was made over,
// which were checked when the head was parsed.
class GgufStrings {
 public:
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using pointer = const std::string_view*;
    using reference = std::string_view;

    Iterator() = default;
    explicit Iterator(const std::byte* at) : at_(at) {}
    std::string_view operator*() const;
    Iterator& operator++();
    Iterator operator++(int) {
      Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator&) const = default;

   private:
    const std::byte* at_ = nullptr;  // at the length of the string
  };

  GgufStrings() = default;
  GgufStrings(std::span<const std::byte> bytes, size_t count) : bytes_(bytes), count_(count) {}
  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  Iterator begin() const { return Iterator(bytes_.data()); }
  Iterator end() const { return Iterator(bytes_.data() + bytes_.size()); }

 private:
  std::span<const std::byte> bytes_;
  size_t count_ = 0;
};

// One metadata value, as it lies in the file (little-endian, not aligned). Parsing a head checked
// that the bytes are what the types and the count say. The conversions return kDataCorrupt, without
// the key's name, if the type is another or a number is out of range. Any integer type will do for
// an integer, f32 and f64 for a float, nothing else is converted.
struct GgufValue {
  GgufType type = GgufType::kU8;
  GgufType element = GgufType::kU8;  // of an array; else equal to type
  uint64_t count = 1;                // elements of an array; else 1
  // A string's bytes, without its length; an array's elements; else the value.
  std::span<const std::byte> bytes;

  bool is_array() const { return type == GgufType::kArray; }
  // "u32", or "array of u32".
  std::string TypeText() const;

  [[nodiscard]] Result<uint32_t> AsU32() const;
  [[nodiscard]] Result<int32_t> AsI32() const;
  [[nodiscard]] Result<float> AsF32() const;  // finite
  [[nodiscard]] Result<bool> AsBool() const;
  [[nodiscard]] Result<std::string_view> AsString() const;
  [[nodiscard]] Result<GgufStrings> AsStrings() const;
  [[nodiscard]] Result<std::vector<float>> AsF32Array() const;
  [[nodiscard]] Result<std::vector<int32_t>> AsI32Array() const;
  // One number a layer, from an array of exactly `layers` elements or from one value for all of
  // them.
  [[nodiscard]] Result<std::vector<uint32_t>> AsU32PerLayer(uint32_t layers) const;
  [[nodiscard]] Result<std::vector<bool>> AsBoolPerLayer(uint32_t layers) const;

  // Element `index` of an integer or boolean value or array; u64 above the greatest i64 comes out
  // negative.
  int64_t IntegerAt(uint64_t index) const;
  // The same for f32 and f64.
  double FloatAt(uint64_t index) const;
};

}  // namespace fak::tensor
