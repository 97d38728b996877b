#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"
#include "tensor/gguf_format.h"
#include "tensor/gguf_head.h"

namespace fak::tensor {

// A type whose values GGUF metadata can hold directly.
template <class T>
concept GgufNumber =
    std::same_as<T, uint8_t> || std::same_as<T, int8_t> || std::same_as<T, uint16_t> ||
    std::same_as<T, int16_t> || std::same_as<T, uint32_t> || std::same_as<T, int32_t> ||
    std::same_as<T, float> || std::same_as<T, bool> || std::same_as<T, uint64_t> ||
    std::same_as<T, int64_t> || std::same_as<T, double>;

// Fills `rows` with the stored bytes of whole rows of a tensor, from row `first_row` on (rows of
// all outer dimensions are counted through).
using TensorRowsFiller = std::function<void(int64_t first_row, std::span<std::byte> rows)>;

// Writes model files in GGUF version 3, whole or split. The same calls give the same bytes: keys
// and tensors are written in the order in which they were first set, padding is zero. Tensor data
// is asked for a few megabytes at a time while the file is written. For tests and generators of
// models. Names, shapes and types that the format forbids are bugs of the caller and end the
// program. Not thread-safe.
class GgufWriter {
 public:
  // Setting a key again replaces its value in place.
  template <GgufNumber T>
  void Set(std::string_view key, T value) {
    SetBytes(key, TypeNumber<T>(), std::as_bytes(std::span(&value, 1)));
  }
  void Set(std::string_view key, std::string_view value);
  template <GgufNumber T>
  void SetArray(std::string_view key, std::span<const T> values) {
    SetArrayBytes(key, TypeNumber<T>(), values.size(), std::as_bytes(values));
  }
  void SetArray(std::string_view key, std::span<const std::string> values);
  // A key of another file, as it is.
  void Copy(const GgufKey& key);

  // shape[0] is the row length; 1 to 4 dimensions, whole blocks.
  void AddTensor(std::string_view name, DType type, std::vector<int64_t> shape,
                 TensorRowsFiller filler);
  void AddTensor(std::string_view name, DType type, std::vector<int64_t> shape,
                 std::vector<std::byte> data);

  // kIoError, with the file removed.
  [[nodiscard]] Status Write(const std::string& path) const;
  // Writes PREFIX-00001-of-0000N.gguf and so on: tensors in order, about as many in each part; all
  // metadata in the first, and general.architecture in the others too.
  [[nodiscard]] Status WriteSplit(const std::string& prefix, uint16_t parts) const;

 private:
  struct Key {
    std::string name;
    std::vector<std::byte> typed_value;  // type number and value, as in the file
  };
  struct Tensor {
    std::string name;
    DType type;
    std::vector<int64_t> shape;
    TensorRowsFiller filler;
    int64_t rows;
    uint64_t bytes;
  };

  template <class T>
  static constexpr GgufType TypeNumber() {
    if constexpr (std::same_as<T, bool>) {
      return GgufType::kBool;
    } else if constexpr (std::floating_point<T>) {
      return sizeof(T) == 4 ? GgufType::kF32 : GgufType::kF64;
    } else {
      constexpr GgufType kUnsigned[] = {GgufType::kU8, GgufType::kU16, GgufType::kU32,
                                        GgufType::kU64};
      constexpr GgufType kSigned[] = {GgufType::kI8, GgufType::kI16, GgufType::kI32,
                                      GgufType::kI64};
      constexpr int kIndex = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
      return std::signed_integral<T> ? kSigned[kIndex] : kUnsigned[kIndex];
    }
  }
  void SetBytes(std::string_view key, GgufType type, std::span<const std::byte> value);
  void SetArrayBytes(std::string_view key, GgufType element, uint64_t count,
                     std::span<const std::byte> elements);
  std::vector<std::byte> Head(std::span<const Tensor> tensors) const;
  Status WritePart(const std::string& path, std::span<const Tensor> tensors) const;
  uint32_t Alignment() const;

  std::vector<Key> keys_;
  std::vector<Tensor> tensors_;
};

}  // namespace fak::tensor
