#include <fmt/format.h>

#include "tensor/gguf.h"

// GgufFile's typed access to metadata: GgufValue's conversions, with the file and the key in the
// errors.
namespace fak::tensor {
namespace {

template <class T>
Result<T> Converted(const GgufFile& file, std::string_view key, Result<T> value) {
  if (!value) {
    return Fail(Within(fmt::format("{}: metadata key '{}'", file.part_path(0), PrintableName(key)),
                       std::move(value).error()));
  }
  return value;
}

tl::unexpected<Error> Missing(const GgufFile& file, std::string_view key) {
  return Fail(Code::kDataCorrupt,
              fmt::format("{}: metadata key '{}' is missing", file.part_path(0), key));
}

}  // namespace

Result<uint32_t> GgufFile::GetU32(std::string_view key) const {
  const GgufValue* value = Find(key);
  return value != nullptr ? Converted(*this, key, value->AsU32()) : Missing(*this, key);
}

Result<uint32_t> GgufFile::GetU32(std::string_view key, uint32_t fallback) const {
  const GgufValue* value = Find(key);
  return value != nullptr ? Converted(*this, key, value->AsU32()) : fallback;
}

Result<int32_t> GgufFile::GetI32(std::string_view key) const {
  const GgufValue* value = Find(key);
  return value != nullptr ? Converted(*this, key, value->AsI32()) : Missing(*this, key);
}

Result<float> GgufFile::GetF32(std::string_view key) const {
  const GgufValue* value = Find(key);
  return value != nullptr ? Converted(*this, key, value->AsF32()) : Missing(*this, key);
}

Result<float> GgufFile::GetF32(std::string_view key, float fallback) const {
  const GgufValue* value = Find(key);
  return value != nullptr ? Converted(*this, key, value->AsF32()) : fallback;
}

Result<bool> GgufFile::GetBool(std::string_view key) const {
  const GgufValue* value = Find(key);
  return value != nullptr ? Converted(*this, key, value->AsBool()) : Missing(*this, key);
}

Result<bool> GgufFile::GetBool(std::string_view key, bool fallback) const {
  const GgufValue* value = Find(key);
  return value != nullptr ? Converted(*this, key, value->AsBool()) : fallback;
}

Result<std::string_view> GgufFile::GetString(std::string_view key) const {
  const GgufValue* value = Find(key);
  return value != nullptr ? Converted(*this, key, value->AsString()) : Missing(*this, key);
}

Result<std::string_view> GgufFile::GetString(std::string_view key,
                                             std::string_view fallback) const {
  const GgufValue* value = Find(key);
  return value != nullptr ? Converted(*this, key, value->AsString()) : fallback;
}

Result<GgufStrings> GgufFile::GetStrings(std::string_view key) const {
  const GgufValue* value = Find(key);
  return value != nullptr ? Converted(*this, key, value->AsStrings()) : Missing(*this, key);
}

Result<std::vector<float>> GgufFile::GetF32Array(std::string_view key) const {
  const GgufValue* value = Find(key);
  return value != nullptr ? Converted(*this, key, value->AsF32Array()) : Missing(*this, key);
}

Result<std::vector<int32_t>> GgufFile::GetI32Array(std::string_view key) const {
  const GgufValue* value = Find(key);
  return value != nullptr ? Converted(*this, key, value->AsI32Array()) : Missing(*this, key);
}

Result<std::vector<uint32_t>> GgufFile::GetU32PerLayer(std::string_view key,
                                                       uint32_t layers) const {
  const GgufValue* value = Find(key);
  return value != nullptr ? Converted(*this, key, value->AsU32PerLayer(layers))
                          : Missing(*this, key);
}

Result<std::vector<uint32_t>> GgufFile::GetU32PerLayer(std::string_view key, uint32_t layers,
                                                       uint32_t fallback) const {
  const GgufValue* value = Find(key);
  return value != nullptr ? Converted(*this, key, value->AsU32PerLayer(layers))
                          : std::vector<uint32_t>(layers, fallback);
}

Result<std::vector<bool>> GgufFile::GetBoolPerLayer(std::string_view key, uint32_t layers) const {
  const GgufValue* value = Find(key);
  return value != nullptr ? Converted(*this, key, value->AsBoolPerLayer(layers))
                          : Missing(*this, key);
}

}  // namespace fak::tensor
