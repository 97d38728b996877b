#include "model/weight_reader.h"

#include "tensor/block_check.h"

namespace fak::model {

Status FileWeight::ReadRows(uint32_t first, uint32_t count, std::span<std::byte> out) const {
  const auto row_bytes = static_cast<uint64_t>(tensor::RowBytes(tensor_.type, tensor_.shape[0]));
  CHECK(out.size() == row_bytes * count) << "row buffer of " << tensor_.name;
  TRY(file_.Read(tensor_, first * row_bytes, out));
  if (const std::optional<size_t> bad = tensor::FirstNonFiniteBlock(tensor_.type, out)) {
    return Fail(Code::kDataCorrupt,
                file_.part_path(tensor_.part) + ": tensor " + tensor::PrintableName(tensor_.name) +
                    ": a scale near byte " + std::to_string(first * row_bytes + *bad) +
                    " is not finite");
  }
  return {};
}

}  // namespace fak::model
