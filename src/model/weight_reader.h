#pragma once

#include <cstdint>
#include <string>

#include "tensor/backend.h"
#include "tensor/gguf.h"

namespace fak::model {

// A tensor of a model file as the back end reads it: rows of the innermost dimension, checked for
// non-finite scales on the way. Thread-safe; the file must outlive it.
class FileWeight final : public tensor::WeightReader {
 public:
  FileWeight(const tensor::GgufFile& file, const tensor::GgufTensor& tensor)
      : file_(file), tensor_(tensor) {}

  std::string_view name() const override { return tensor_.name; }
  tensor::DType dtype() const override { return tensor_.type; }
  uint32_t rows() const override { return static_cast<uint32_t>(tensor_.rows()); }
  uint32_t cols() const override { return static_cast<uint32_t>(tensor_.shape[0]); }
  Status ReadRows(uint32_t first, uint32_t count, std::span<std::byte> out) const override;

 private:
  const tensor::GgufFile& file_;
  const tensor::GgufTensor& tensor_;
};

}  // namespace fak::model
