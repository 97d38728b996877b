#include "tensor/gguf_value.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

namespace fak::tensor {
namespace {

template <class T>
T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

bool IsInteger(GgufType type) {
  switch (type) {
    case GgufType::kF32:
    case GgufType::kF64:
    case GgufType::kBool:
    case GgufType::kString:
    case GgufType::kArray: return false;
    default: return true;
  }
}

tl::unexpected<Error> WrongType(const GgufValue& value, std::string_view wanted) {
  return Fail(Code::kDataCorrupt, fmt::format("is {} and must be {}", value.TypeText(), wanted));
}

template <class T>
Result<T> IntegerAs(const GgufValue& value, uint64_t index) {
  if (!IsInteger(value.element)) {
    return WrongType(value, "an integer");
  }
  const int64_t number = value.IntegerAt(index);
  if (value.element == GgufType::kU64 && number < 0) {
    return Fail(Code::kDataCorrupt,
                fmt::format("{} is out of range", static_cast<uint64_t>(number)));
  }
  if (number < int64_t{std::numeric_limits<T>::min()} ||
      number > int64_t{std::numeric_limits<T>::max()}) {
    return Fail(Code::kDataCorrupt, fmt::format("{} is out of range", number));
  }
  return static_cast<T>(number);
}

Result<float> FloatAs(const GgufValue& value, uint64_t index) {
  if (value.element != GgufType::kF32 && value.element != GgufType::kF64) {
    return WrongType(value, "a float");
  }
  const double number = value.FloatAt(index);
  if (std::isfinite(number) && std::fabs(number) > double{std::numeric_limits<float>::max()}) {
    return Fail(Code::kDataCorrupt, fmt::format("{} is out of range", number));
  }
  return static_cast<float>(number);
}

// Element `index` as T, after a check of its type and range.
template <class T>
Result<T> ElementAs(const GgufValue& value, uint64_t index) {
  if constexpr (std::is_same_v<T, bool>) {
    if (value.element != GgufType::kBool) {
      return WrongType(value, "bool");
    }
    return value.IntegerAt(index) != 0;
  } else if constexpr (std::is_same_v<T, float>) {
    return FloatAs(value, index);
  } else {
    return IntegerAs<T>(value, index);
  }
}

template <class T>
Result<T> ScalarAs(const GgufValue& value) {
  if (value.is_array()) {
    return WrongType(value, "one value");
  }
  return ElementAs<T>(value, 0);
}

template <class T>
Result<std::vector<T>> ArrayAs(const GgufValue& value) {
  if (!value.is_array()) {
    return WrongType(value, "an array");
  }
  std::vector<T> elements;
  elements.reserve(value.count);
  for (uint64_t i = 0; i < value.count; ++i) {
    TRY_ASSIGN(const T element, ElementAs<T>(value, i));
    elements.push_back(element);
  }
  return elements;
}

template <class T>
Result<std::vector<T>> PerLayerAs(const GgufValue& value, uint32_t layers) {
  if (!value.is_array()) {
    TRY_ASSIGN(const T element, ElementAs<T>(value, 0));
    return std::vector<T>(layers, element);
  }
  if (value.count != layers) {
    return Fail(Code::kDataCorrupt,
                fmt::format("has {} elements for {} layers", value.count, layers));
  }
  return ArrayAs<T>(value);
}

}  // namespace

std::string_view GgufStrings::Iterator::operator*() const {
  return {reinterpret_cast<const char*>(at_ + sizeof(uint64_t)), Load<uint64_t>(at_)};
}

GgufStrings::Iterator& GgufStrings::Iterator::operator++() {
  at_ += sizeof(uint64_t) + Load<uint64_t>(at_);
  return *this;
}

int64_t GgufValue::IntegerAt(uint64_t index) const {
  const std::byte* at = bytes.data() + index * GgufTypeBytes(element);
  switch (element) {
    case GgufType::kU8:
    case GgufType::kBool: return Load<uint8_t>(at);
    case GgufType::kI8: return Load<int8_t>(at);
    case GgufType::kU16: return Load<uint16_t>(at);
    case GgufType::kI16: return Load<int16_t>(at);
    case GgufType::kU32: return Load<uint32_t>(at);
    case GgufType::kI32: return Load<int32_t>(at);
    case GgufType::kU64:
    case GgufType::kI64: return Load<int64_t>(at);
    default: CHECK(false) << "not an integer: " << GgufTypeName(element); return 0;
  }
}

double GgufValue::FloatAt(uint64_t index) const {
  const std::byte* at = bytes.data() + index * GgufTypeBytes(element);
  CHECK(element == GgufType::kF32 || element == GgufType::kF64)
      << "not a float: " << GgufTypeName(element);
  return element == GgufType::kF32 ? double{Load<float>(at)} : Load<double>(at);
}

std::string GgufValue::TypeText() const {
  const std::string name(GgufTypeName(element));
  return is_array() ? "array of " + name : name;
}

Result<uint32_t> GgufValue::AsU32() const {
  return ScalarAs<uint32_t>(*this);
}
Result<int32_t> GgufValue::AsI32() const {
  return ScalarAs<int32_t>(*this);
}
Result<bool> GgufValue::AsBool() const {
  return ScalarAs<bool>(*this);
}

Result<float> GgufValue::AsF32() const {
  TRY_ASSIGN(const float number, ScalarAs<float>(*this));
  if (!std::isfinite(number)) {
    return Fail(Code::kDataCorrupt, fmt::format("is {}", number));
  }
  return number;
}

Result<std::string_view> GgufValue::AsString() const {
  if (type != GgufType::kString) {
    return WrongType(*this, "a string");
  }
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<GgufStrings> GgufValue::AsStrings() const {
  if (!is_array() || element != GgufType::kString) {
    return WrongType(*this, "an array of strings");
  }
  return GgufStrings(bytes, count);
}

Result<std::vector<float>> GgufValue::AsF32Array() const {
  return ArrayAs<float>(*this);
}
Result<std::vector<int32_t>> GgufValue::AsI32Array() const {
  return ArrayAs<int32_t>(*this);
}

Result<std::vector<uint32_t>> GgufValue::AsU32PerLayer(uint32_t layers) const {
  return PerLayerAs<uint32_t>(*this, layers);
}

Result<std::vector<bool>> GgufValue::AsBoolPerLayer(uint32_t layers) const {
  return PerLayerAs<bool>(*this, layers);
}

}  // namespace fak::tensor
