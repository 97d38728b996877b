#include "tensor/gguf_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "tensor/gguf_split.h"

namespace fak::tensor {
namespace {

constexpr uint64_t kChunkBytes = uint64_t{4} << 20;

void Append(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

template <class T>
void AppendNumber(std::vector<std::byte>& out, T value) {
  Append(out, std::as_bytes(std::span(&value, 1)));
}

void AppendString(std::vector<std::byte>& out, std::string_view text) {
  AppendNumber<uint64_t>(out, text.size());
  Append(out, std::as_bytes(std::span(text)));
}

uint64_t AlignUp(uint64_t at, uint64_t alignment) {
  return (at + alignment - 1) / alignment * alignment;
}

// A file that is removed again unless it was written to the end.
class OutputFile {
 public:
  explicit OutputFile(std::string path)
      : path_(std::move(path)), file_(std::fopen(path_.c_str(), "wb")) {}
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile() {
    if (file_ != nullptr) {
      std::fclose(file_);
      std::error_code ignored;
      if (std::filesystem::is_regular_file(path_, ignored)) {  // and not, say, /dev/full
        std::filesystem::remove(path_, ignored);
      }
    }
  }

  Status Write(std::span<const std::byte> bytes) {
    if (file_ == nullptr || std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) {
      return SystemError();
    }
    return {};
  }

  Status Close() {
    if (file_ == nullptr || std::fflush(file_) != 0) {
      return SystemError();
    }
    std::fclose(std::exchange(file_, nullptr));
    return {};
  }

 private:
  tl::unexpected<Error> SystemError() const {
    return Fail(Code::kIoError,
                fmt::format("can't write {}: {}", path_, std::generic_category().message(errno)));
  }

  const std::string path_;
  std::FILE* file_;
};

}  // namespace

void GgufWriter::SetBytes(std::string_view key, GgufType type, std::span<const std::byte> value) {
  CHECK(!key.empty() && key.size() <= kGgufKeyBytesMax) << "bad key";
  std::vector<std::byte> typed;
  AppendNumber(typed, static_cast<uint32_t>(type));
  Append(typed, value);
  const auto at =
      std::find_if(keys_.begin(), keys_.end(), [&](const Key& k) { return k.name == key; });
  if (at != keys_.end()) {
    at->typed_value = std::move(typed);
  } else {
    keys_.push_back({std::string(key), std::move(typed)});
  }
}

void GgufWriter::SetArrayBytes(std::string_view key, GgufType element, uint64_t count,
                               std::span<const std::byte> elements) {
  std::vector<std::byte> value;
  AppendNumber(value, static_cast<uint32_t>(element));
  AppendNumber(value, count);
  Append(value, elements);
  SetBytes(key, GgufType::kArray, value);
}

void GgufWriter::Set(std::string_view key, std::string_view value) {
  std::vector<std::byte> bytes;
  AppendString(bytes, value);
  SetBytes(key, GgufType::kString, bytes);
}

void GgufWriter::SetArray(std::string_view key, std::span<const std::string> values) {
  std::vector<std::byte> bytes;
  for (const std::string& value : values) {
    AppendString(bytes, value);
  }
  SetArrayBytes(key, GgufType::kString, values.size(), bytes);
}

void GgufWriter::Copy(const GgufKey& key) {
  const GgufValue& value = key.value;
  if (value.is_array()) {
    SetArrayBytes(key.name, value.element, value.count, value.bytes);
  } else if (value.type == GgufType::kString) {
    Set(key.name,
        std::string_view(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size()));
  } else {
    SetBytes(key.name, value.type, value.bytes);
  }
}

void GgufWriter::AddTensor(std::string_view name, DType type, std::vector<int64_t> shape,
                           TensorRowsFiller filler) {
  CHECK(!name.empty() && name.size() <= kGgufTensorNameBytesMax) << "bad tensor name " << name;
  CHECK(!shape.empty() && shape.size() <= size_t{kGgufDimsMax}) << "bad shape of " << name;
  CHECK(std::all_of(shape.begin(), shape.end(), [](int64_t n) { return n > 0; }) &&
        shape[0] % InfoOf(type).block_elements == 0)
      << "bad shape of " << name;
  int64_t rows = 1;
  for (size_t i = 1; i < shape.size(); ++i) {
    rows *= shape[i];
  }
  const auto bytes = static_cast<uint64_t>(rows * RowBytes(type, shape[0]));
  tensors_.push_back({std::string(name), type, std::move(shape), std::move(filler), rows, bytes});
}

void GgufWriter::AddTensor(std::string_view name, DType type, std::vector<int64_t> shape,
                           std::vector<std::byte> data) {
  const auto shared = std::make_shared<const std::vector<std::byte>>(std::move(data));
  const auto row_bytes = static_cast<size_t>(RowBytes(type, shape.at(0)));
  AddTensor(name, type, std::move(shape),
            [shared, row_bytes](int64_t first, std::span<std::byte> out) {
              std::memcpy(out.data(), shared->data() + static_cast<size_t>(first) * row_bytes,
                          out.size());
            });
  CHECK(shared->size() == tensors_.back().bytes) << "wrong size of " << name;
}

uint32_t GgufWriter::Alignment() const {
  for (const Key& key : keys_) {
    if (key.name == kGgufAlignmentKey) {
      uint32_t alignment = 0;
      std::memcpy(&alignment, key.typed_value.data() + sizeof(uint32_t), sizeof alignment);
      return alignment;
    }
  }
  return kGgufAlignmentDefault;
}

std::vector<std::byte> GgufWriter::Head(std::span<const Tensor> tensors) const {
  std::vector<std::byte> head;
  Append(head, std::as_bytes(std::span(kGgufMagic)));
  AppendNumber(head, kGgufVersionNewest);
  AppendNumber<uint64_t>(head, tensors.size());
  AppendNumber<uint64_t>(head, keys_.size());
  for (const Key& key : keys_) {
    AppendString(head, key.name);
    Append(head, key.typed_value);
  }
  const uint32_t alignment = Alignment();
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors) {
    AppendString(head, tensor.name);
    AppendNumber(head, static_cast<uint32_t>(tensor.shape.size()));
    for (const int64_t n : tensor.shape) {
      AppendNumber(head, n);
    }
    AppendNumber(head, static_cast<uint32_t>(tensor.type));
    AppendNumber(head, offset);
    offset = AlignUp(offset + tensor.bytes, alignment);
  }
  head.resize(AlignUp(head.size(), alignment));
  return head;
}

Status GgufWriter::WritePart(const std::string& path, std::span<const Tensor> tensors) const {
  OutputFile file(path);
  TRY(file.Write(Head(tensors)));
  const uint32_t alignment = Alignment();
  std::vector<std::byte> buffer;
  for (const Tensor& tensor : tensors) {
    const uint64_t row_bytes = tensor.bytes / static_cast<uint64_t>(tensor.rows);
    const auto chunk_rows = static_cast<int64_t>(std::max<uint64_t>(1, kChunkBytes / row_bytes));
    for (int64_t row = 0; row < tensor.rows; row += chunk_rows) {
      const auto rows = static_cast<uint64_t>(std::min(chunk_rows, tensor.rows - row));
      buffer.resize(rows * row_bytes);
      tensor.filler(row, buffer);
      TRY(file.Write(buffer));
    }
    buffer.assign(AlignUp(tensor.bytes, alignment) - tensor.bytes, std::byte{0});
    TRY(file.Write(buffer));
  }
  return file.Close();
}

Status GgufWriter::Write(const std::string& path) const {
  return WritePart(path, tensors_);
}

Status GgufWriter::WriteSplit(const std::string& prefix, uint16_t parts) const {
  CHECK(parts > 0) << "a model has at least one part";
  for (uint16_t part = 0; part < parts; ++part) {
    GgufWriter writer;
    for (const Key& key : keys_) {
      if (part == 0 || key.name == kGgufArchitectureKey || key.name == kGgufAlignmentKey) {
        writer.keys_.push_back(key);
      }
    }
    writer.Set(kGgufSplitNumberKey, part);
    writer.Set(kGgufSplitCountKey, parts);
    writer.Set(kGgufSplitTensorsKey, static_cast<int32_t>(tensors_.size()));
    const size_t begin = tensors_.size() * part / parts;
    const size_t end = tensors_.size() * (part + 1u) / parts;
    const std::string path =
        FormatSplitPath({.prefix = prefix, .number = part + 1u, .count = parts});
    TRY(writer.WritePart(path, std::span(tensors_).subspan(begin, end - begin)));
  }
  return {};
}

}  // namespace fak::tensor
