#include "model/weight_reader.h"

#include <fmt/format.h>

#include "tensor/block_check.h"

namespace fak::model {
namespace {

// What is wrong at a block, counted from the start of the tensor, in the words of the format.
std::string NotFinite(const tensor::GgufTensor& tensor, uint64_t block) {
  const tensor::DTypeInfo& info = tensor::InfoOf(tensor.type);
  const uint64_t at = tensor.offset + block * info.block_bytes;
  if (!tensor::IsQuantised(tensor.type)) {
    return fmt::format("element {}, at byte {} of the file, is not finite", block, at);
  }
  const uint64_t first = block * info.block_elements;
  return fmt::format(
      "block {} (elements {} to {}), at byte {} of the file, has a scale that is "
      "not finite",
      block, first, first + info.block_elements - 1, at);
}

}  // namespace

Status FileWeight::ReadRows(uint32_t first, uint32_t count, std::span<std::byte> out) const {
  const auto row_bytes = static_cast<uint64_t>(tensor::RowBytes(tensor_.type, tensor_.shape[0]));
  CHECK(out.size() == row_bytes * count) << "row buffer of " << tensor_.name;
  TRY(file_.Read(tensor_, first * row_bytes, out));
  if (const std::optional<size_t> bad = tensor::FirstNonFiniteBlock(tensor_.type, out)) {
    const uint64_t blocks_before = first * row_bytes / tensor::InfoOf(tensor_.type).block_bytes;
    return Fail(Code::kDataCorrupt, fmt::format("{}: tensor {}: {}", file_.part_path(tensor_.part),
                                                tensor::PrintableName(tensor_.name),
                                                NotFinite(tensor_, blocks_before + *bad)));
  }
  return {};
}

}  // namespace fak::model
