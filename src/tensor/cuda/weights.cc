#include "tensor/cuda/weights.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tensor/read_vector.h"

namespace fak::tensor::cuda {

Status CheckSupported(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBf16:
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ4K:
    case DType::kQ5K:
    case DType::kQ6K: return {};
    default:
      return Fail(Code::kUnsupported, "type " + std::string(DTypeName(type)) +
                                          " has no kernel on a GPU (--device cpu has)");
  }
}

namespace {

Status CheckWeight(const WeightReader& weight) {
  if (Status supported = CheckSupported(weight.dtype()); !supported) {
    return Fail(Within(weight.name(), std::move(supported).error()));
  }
  if (weight.cols() % InfoOf(weight.dtype()).block_elements != 0) {
    return Fail(Code::kDataCorrupt,
                std::string(weight.name()) + ": rows aren't whole quant blocks");
  }
  return {};
}

}  // namespace

uint64_t PartBytes(DType type, uint32_t rows, uint32_t cols) {
  return Aligned(static_cast<uint64_t>(RowBytes(type, cols)) * rows);
}

Result<Part> WeightLoader::LoadPart(const WeightReader& weight) {
  TRY(CheckWeight(weight));
  Part part{.type = weight.dtype(), .rows = weight.rows(), .cols = weight.cols()};
  part.row_bytes = static_cast<uint64_t>(RowBytes(part.type, part.cols));
  TRY_ASSIGN(std::byte* const to, memory_.Take(part.row_bytes * part.rows));
  part.data = to;
  const auto slice = static_cast<uint32_t>(std::clamp<uint64_t>(
      Uploader::kSliceBytes / std::max<uint64_t>(part.row_bytes, 1), 1, UINT32_MAX));
  for (uint32_t first = 0; first < part.rows; first += std::min(slice, part.rows - first)) {
    const uint32_t count = std::min(slice, part.rows - first);
    const uint64_t bytes = count * part.row_bytes;
    TRY_ASSIGN(const std::span<std::byte> buffer, uploader_.Next(bytes));
    TRY(weight.ReadRows(first, count, buffer.first(bytes)));
    TRY(uploader_.Send(bytes, to + first * part.row_bytes, stream_));
  }
  return part;
}

Result<Matrix> WeightLoader::LoadMatrix(std::span<const MatrixPart> parts) {
  Matrix matrix;
  for (const MatrixPart& source : parts) {
    CHECK(matrix.parts.empty() || source.weight->cols() == matrix.cols)
        << "parts of a matrix differ in width";
    matrix.cols = source.weight->cols();
    TRY_ASSIGN(Part part, LoadPart(*source.weight));
    if (source.maybe_bias != nullptr) {
      CHECK(uint64_t{source.maybe_bias->rows()} * source.maybe_bias->cols() == part.rows)
          << "a bias isn't as long as its matrix has rows";
      TRY_ASSIGN(part.maybe_bias, LoadVector(*source.maybe_bias));
    }
    matrix.rows += part.rows;
    matrix.parts.push_back(part);
  }
  return matrix;
}

Result<Experts> WeightLoader::LoadExperts(const ExpertsSpec& spec) {
  for (const WeightReader* weight : {spec.gate, spec.up, spec.down}) {
    CHECK(spec.experts > 0 && weight->rows() % spec.experts == 0)
        << "rows aren't divisible by the number of experts";
  }
  Experts experts;
  experts.ff = spec.gate->rows() / spec.experts;
  experts.width = spec.down->rows() / spec.experts;
  CHECK(spec.up->rows() == spec.gate->rows() && spec.up->cols() == spec.gate->cols() &&
        spec.down->cols() == experts.ff)
      << "gate, up and down of the experts don't fit together";
  TRY_ASSIGN(experts.gate, LoadPart(*spec.gate));
  TRY_ASSIGN(experts.up, LoadPart(*spec.up));
  TRY_ASSIGN(experts.down, LoadPart(*spec.down));
  return experts;
}

Result<const float*> WeightLoader::LoadVector(const WeightReader& weight) {
  TRY_ASSIGN(const std::vector<float> values, ReadVector(weight));
  const uint64_t bytes = values.size() * sizeof(float);
  TRY_ASSIGN(const std::span<std::byte> buffer, uploader_.Next(bytes));
  std::memcpy(buffer.data(), values.data(), bytes);
  TRY_ASSIGN(std::byte* const to, memory_.Take(bytes));
  TRY(uploader_.Send(bytes, to, stream_));
  return reinterpret_cast<const float*>(to);
}

}  // namespace fak::tensor::cuda
