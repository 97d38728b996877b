#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "tensor/gguf_head.h"

namespace fak::tensor {

// A model file in GGUF version 2 or 3, whole or split in parts, open for reading. Metadata is held
// in memory; tensor data is read on request, with pread and never through a map, so that a file
// that is cut short behind our back is an error and not a signal. docs/formats/gguf.md says what is
// accepted.
//
// Errors name the file. kDataCorrupt: the format is broken, a key that was asked for is absent or
// has another type. kPayloadTooLarge: beyond a bound of base/limits.h. kUnsupported: a version,
// byte order or tensor type that isn't offered. kNotFound: no such file, or a part of a split model
// is missing.
//
// Const functions may be called from any thread. Views live as long as the GgufFile.
class GgufFile {
 public:
  // path may be any part of a split model (NAME-00002-of-00003.gguf); all parts are opened, and the
  // metadata is the first part's.
  [[nodiscard]] static Result<std::unique_ptr<GgufFile>> Open(const std::string& path);

  // Only whether one file is whole, of a split model too and wherever its other parts are: its
  // head, and that its tensors lie inside it.
  [[nodiscard]] static Status CheckPart(const std::string& path);

  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;

  // Metadata. Integers may be stored in any integer type in which the value fits; floats as f32 or
  // f64; the rest must match. The overloads with a fallback return it if the key is absent; a value
  // of a wrong type or out of range is an error in both.
  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  const GgufValue* Find(std::string_view key) const { return first().head.Find(key); }
  std::span<const GgufKey> keys() const { return first().head.keys; }  // as in the file
  [[nodiscard]] Result<uint32_t> GetU32(std::string_view key) const;
  [[nodiscard]] Result<uint32_t> GetU32(std::string_view key, uint32_t fallback) const;
  [[nodiscard]] Result<int32_t> GetI32(std::string_view key) const;
  [[nodiscard]] Result<float> GetF32(std::string_view key) const;
  [[nodiscard]] Result<float> GetF32(std::string_view key, float fallback) const;
  [[nodiscard]] Result<bool> GetBool(std::string_view key) const;
  [[nodiscard]] Result<bool> GetBool(std::string_view key, bool fallback) const;
  [[nodiscard]] Result<std::string_view> GetString(std::string_view key) const;
  [[nodiscard]] Result<std::string_view> GetString(std::string_view key,
                                                   std::string_view fallback) const;
  // Arrays. Strings come as a view that walks the file's bytes.
  [[nodiscard]] Result<GgufStrings> GetStrings(std::string_view key) const;
  [[nodiscard]] Result<std::vector<float>> GetF32Array(std::string_view key) const;
  [[nodiscard]] Result<std::vector<int32_t>> GetI32Array(std::string_view key) const;
  // One value a layer from a key that files hold as a scalar (the same for all) or as an array of
  // exactly `layers` elements.
  [[nodiscard]] Result<std::vector<uint32_t>> GetU32PerLayer(std::string_view key,
                                                             uint32_t layers) const;
  [[nodiscard]] Result<std::vector<uint32_t>> GetU32PerLayer(std::string_view key, uint32_t layers,
                                                             uint32_t fallback) const;
  [[nodiscard]] Result<std::vector<bool>> GetBoolPerLayer(std::string_view key,
                                                          uint32_t layers) const;

  // Tensors of all parts, in order of part and place in its list.
  std::span<const GgufTensor> tensors() const { return tensors_; }
  // nullptr if there is none.
  const GgufTensor* FindTensor(std::string_view name) const;

  // Reads out.size() bytes of a tensor, from byte `offset` of it; the range must lie inside the
  // tensor. kDataCorrupt if the file was cut short since it was opened, kIoError if the system
  // refuses.
  [[nodiscard]] Status Read(const GgufTensor& tensor, uint64_t offset,
                            std::span<std::byte> out) const;
  // Tells the system that the tensor will be read soon. Returns at once.
  void WillNeed(const GgufTensor& tensor) const;

  uint32_t version() const { return first().head.version; }
  size_t parts() const { return parts_.size(); }
  const std::string& part_path(size_t part) const { return parts_[part].path; }
  uint64_t part_bytes(size_t part) const { return parts_[part].file.size(); }
  uint64_t file_bytes() const;  // of all parts

 private:
  struct Part {
    std::string path;
    RandomAccessFile file;
    std::unique_ptr<std::byte[]> head_bytes;  // what the head's views point into
    GgufHead head;
  };

  GgufFile() = default;
  static Result<Part> OpenPart(const std::string& path);
  static Result<std::vector<Part>> OpenParts(Part opened);
  Status CollectTensors();
  const Part& first() const { return parts_.front(); }

  std::vector<Part> parts_;
  std::vector<GgufTensor> tensors_;
  std::vector<uint32_t> tensor_order_;  // indices into tensors_, ascending by name
};

}  // namespace fak::tensor
