#include "tensor/gguf.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/limits.h"
#include "tensor/gguf_split.h"

namespace fak::tensor {
namespace {

constexpr uint64_t kHeadBytesFirstTry = uint64_t{1} << 20;

// A key of a split model; files hold it in various integer types.
Result<std::optional<uint32_t>> SplitKey(const GgufHead& head, std::string_view key) {
  const GgufValue* value = head.Find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  Result<uint32_t> number = value->AsU32();
  if (!number) {
    return Fail(Within(fmt::format("metadata key '{}'", key), std::move(number).error()));
  }
  return *number;
}

// How many parts the model has that this head belongs to.
Result<uint32_t> SplitCount(const GgufHead& head) {
  TRY_ASSIGN(const auto count, SplitKey(head, kGgufSplitCountKey));
  if (count.value_or(0) > limits::kGgufSplitsMax) {
    return Fail(Code::kPayloadTooLarge,
                fmt::format("metadata key '{}': {} parts (at most {})", kGgufSplitCountKey, *count,
                            limits::kGgufSplitsMax));
  }
  return std::max(1u, count.value_or(1));  // merged files say 0
}

// Part `index` (from 0) of `count` must say that it is that.
Status CheckSplitKeys(const GgufHead& head, uint32_t index, uint32_t count) {
  TRY_ASSIGN(const auto number, SplitKey(head, kGgufSplitNumberKey));
  TRY_ASSIGN(const auto said_count, SplitKey(head, kGgufSplitCountKey));
  if (number.value_or(0) != index || said_count.value_or(1) != count) {
    return Fail(Code::kDataCorrupt,
                fmt::format("its name says part {} of {}, its keys {} and {} say part {} of {}",
                            index + 1, count, kGgufSplitNumberKey, kGgufSplitCountKey,
                            uint64_t{number.value_or(0)} + 1, said_count.value_or(1)));
  }
  return {};
}

}  // namespace

Result<GgufFile::Part> GgufFile::OpenPart(const std::string& path) {
  TRY_ASSIGN(RandomAccessFile file, RandomAccessFile::Open(path));
  uint64_t wanted = std::min(file.size(), kHeadBytesFirstTry);
  while (true) {
    auto bytes = std::make_unique_for_overwrite<std::byte[]>(wanted);
    const std::span<std::byte> head_bytes(bytes.get(), wanted);
    TRY(file.ReadAt(0, head_bytes));
    Result<GgufHead> head = ParseGgufHead(head_bytes, file.size(), &wanted);
    if (head) {
      return Part{path, std::move(file), std::move(bytes), std::move(*head)};
    }
    if (wanted == 0) {
      return Fail(Within(path, std::move(head).error()));
    }
  }
}

Status GgufFile::CheckPart(const std::string& path) {
  const Result<Part> part = OpenPart(path);
  return part ? Status() : Status(Fail(part.error()));
}

Result<std::vector<GgufFile::Part>> GgufFile::OpenParts(Part opened) {
  const std::string opened_path = opened.path;
  const auto fail = [&](Error error) { return Fail(Within(opened_path, std::move(error))); };
  const auto name = ParseSplitPath(opened_path);
  std::vector<Part> parts;
  const Result<uint32_t> count = SplitCount(opened.head);
  if (!count) {
    return fail(count.error());
  }
  if (*count == 1) {
    parts.push_back(std::move(opened));
    return parts;
  }
  if (!name) {
    return fail(
        {Code::kDataCorrupt, fmt::format("one of {} parts of a split model, but not named "
                                         "NAME-00001-of-{:05}.gguf: the others can't be found",
                                         *count, *count)});
  }
  if (Status checked = CheckSplitKeys(opened.head, name->number - 1, name->count); !checked) {
    return fail(std::move(checked).error());
  }
  parts.reserve(name->count);
  for (uint32_t i = 0; i < name->count; ++i) {
    const std::string path =
        FormatSplitPath({.prefix = name->prefix, .number = i + 1, .count = name->count});
    // NOLINTNEXTLINE(bugprone-use-after-move): one part has that path, so it moves once
    Result<Part> part = path == opened_path ? Result<Part>(std::move(opened)) : OpenPart(path);
    if (!part) {
      return Fail(Within(fmt::format("part {} of a split model", i + 1), std::move(part).error()));
    }
    if (Status checked = CheckSplitKeys(part->head, i, name->count); !checked) {
      return Fail(Within(path, std::move(checked).error()));
    }
    parts.push_back(std::move(*part));
  }
  return parts;
}

Status GgufFile::CollectTensors() {
  uint64_t count = 0;
  for (const Part& part : parts_) {
    count += part.head.tensors.size();
  }
  if (count > limits::kGgufTensorsMax) {
    return Fail(Code::kPayloadTooLarge, fmt::format("{}: {} tensors in all parts (at most {})",
                                                    first().path, count, limits::kGgufTensorsMax));
  }
  tensors_.reserve(count);
  for (size_t part = 0; part < parts_.size(); ++part) {
    for (GgufTensor tensor : parts_[part].head.tensors) {
      tensor.part = static_cast<uint32_t>(part);
      tensors_.push_back(tensor);
    }
    parts_[part].head.tensors = {};
  }
  tensor_order_.resize(tensors_.size());
  std::iota(tensor_order_.begin(), tensor_order_.end(), 0u);
  std::sort(tensor_order_.begin(), tensor_order_.end(),
            [this](uint32_t a, uint32_t b) { return tensors_[a].name < tensors_[b].name; });
  for (size_t i = 1; i < tensor_order_.size(); ++i) {
    const GgufTensor& a = tensors_[tensor_order_[i - 1]];
    const GgufTensor& b = tensors_[tensor_order_[i]];
    if (a.name == b.name) {
      return Fail(Code::kDataCorrupt,
                  fmt::format("tensor '{}' is in {} and in {}", PrintableName(a.name),
                              part_path(a.part), part_path(b.part)));
    }
  }
  TRY_ASSIGN(const auto expected, SplitKey(first().head, kGgufSplitTensorsKey));
  if (parts() > 1 && expected && *expected != tensors_.size()) {
    return Fail(Code::kDataCorrupt,
                fmt::format("{}: the parts hold {} tensors, {} says {}", first().path,
                            tensors_.size(), kGgufSplitTensorsKey, *expected));
  }
  return {};
}

Result<std::unique_ptr<GgufFile>> GgufFile::Open(const std::string& path) {
  TRY_ASSIGN(Part opened, OpenPart(path));
  std::unique_ptr<GgufFile> file(new GgufFile);  // tidy: allow new: the constructor is private
  TRY_ASSIGN(file->parts_, OpenParts(std::move(opened)));
  TRY(file->CollectTensors());
  return file;
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto at =
      std::lower_bound(tensor_order_.begin(), tensor_order_.end(), name,
                       [this](uint32_t i, std::string_view n) { return tensors_[i].name < n; });
  return at != tensor_order_.end() && tensors_[*at].name == name ? &tensors_[*at] : nullptr;
}

Status GgufFile::Read(const GgufTensor& tensor, uint64_t offset, std::span<std::byte> out) const {
  CHECK(offset <= tensor.bytes && out.size() <= tensor.bytes - offset)
      << "read beyond tensor " << tensor.name;
  Status read = parts_[tensor.part].file.ReadAt(tensor.offset + offset, out);
  if (!read) {
    return Fail(
        Within(fmt::format("tensor '{}'", PrintableName(tensor.name)), std::move(read).error()));
  }
  return {};
}

void GgufFile::WillNeed(const GgufTensor& tensor) const {
  parts_[tensor.part].file.WillNeed(tensor.offset, tensor.bytes);
}

uint64_t GgufFile::file_bytes() const {
  uint64_t bytes = 0;
  for (const Part& part : parts_) {
    bytes += part.file.size();
  }
  return bytes;
}

}  // namespace fak::tensor
