#include "tensor/cpu/weights.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "tensor/read_vector.h"

namespace fak::tensor::cpu {
namespace {

constexpr uint64_t kArenaBytes = uint64_t{64} << 20;
constexpr uint64_t kSliceBytes = uint64_t{1} << 20;  // of a file, a thread

Status CheckComputed(const WeightReader& weight) {
  if (!IsComputed(weight.dtype())) {
    return Fail(Code::kUnsupported, std::string(weight.name()) + ": type " +
                                        std::string(DTypeName(weight.dtype())) +
                                        " has no kernel on the CPU");
  }
  if (weight.cols() % InfoOf(weight.dtype()).block_elements != 0) {
    return Fail(Code::kDataCorrupt,
                std::string(weight.name()) + ": rows aren't whole quant blocks");
  }
  return {};
}

}  // namespace

Result<std::byte*> WeightMemory::Take(uint64_t bytes) {
  const uint64_t wanted = (bytes + kPackAlignment - 1) / kPackAlignment * kPackAlignment;
  if (arenas_.empty() || arenas_.back().bytes() - used_ < wanted) {
    TRY_ASSIGN(Arena arena, Arena::Make(std::max(wanted, kArenaBytes), "weights"));
    arenas_.push_back(std::move(arena));
    used_ = 0;
  }
  std::byte* const taken = arenas_.back().data() + used_;
  used_ += wanted;
  bytes_ += wanted;
  return taken;
}

void Matrix::EmbedRow(uint32_t row, float scale, float* out) const {
  for (const PackedPart& part : parts) {
    if (row < part.rows) {
      cpu::EmbedRow(part.type, cols, part.data, row, scale, out);
      return;
    }
    row -= part.rows;
  }
  CHECK(false) << "no such row";
}

Result<PackedPart> WeightLoader::LoadPart(const WeightReader& weight, uint32_t first,
                                          uint32_t rows) {
  const DType type = weight.dtype();
  const uint32_t cols = weight.cols();
  const auto row_bytes = static_cast<uint64_t>(RowBytes(type, cols));
  const uint64_t panel_bytes = PanelBytes(type, cols);
  TRY_ASSIGN(std::byte* const packed, memory_.Take(PackedBytes(type, rows, cols)));
  const PackedPart part{type, rows, packed, nullptr};
  const auto panels_a_slice = static_cast<uint32_t>(
      std::clamp<uint64_t>(kSliceBytes / (row_bytes * kPanelRows), 1, std::max(part.panels(), 1u)));
  const uint32_t slices = (part.panels() + panels_a_slice - 1) / panels_a_slice;
  std::vector<std::optional<Error>> errors(slices);
  std::vector<std::vector<std::byte>> staging(static_cast<size_t>(pool_.threads()));
  pool_.Run(slices, [&](size_t slice, int worker) {
    std::vector<std::byte>& rows_read = staging[static_cast<size_t>(worker)];
    const auto first_panel = static_cast<uint32_t>(slice) * panels_a_slice;
    const uint32_t end_panel = std::min(first_panel + panels_a_slice, part.panels());
    const uint32_t begin = first_panel * kPanelRows;
    const uint32_t count = std::min(end_panel * kPanelRows, rows) - begin;
    rows_read.resize(count * row_bytes);
    if (Status status = weight.ReadRows(first + begin, count, rows_read); !status) {
      errors[slice] = std::move(status).error();
      return;
    }
    for (uint32_t panel = first_panel; panel < end_panel; ++panel) {
      const uint32_t at = panel * kPanelRows - begin;
      PackPanel(type, std::min(kPanelRows, count - at), cols, rows_read.data() + at * row_bytes,
                packed + panel * panel_bytes);
    }
  });
  for (std::optional<Error>& error : errors) {
    if (error) {
      return Fail(*std::move(error));
    }
  }
  return part;
}

Result<Matrix> WeightLoader::LoadMatrix(std::span<const MatrixPart> parts) {
  Matrix matrix;
  for (const MatrixPart& source : parts) {
    TRY(CheckComputed(*source.weight));
    CHECK(matrix.parts.empty() || source.weight->cols() == matrix.cols)
        << "parts of a matrix differ in width";
    matrix.cols = source.weight->cols();
    TRY_ASSIGN(PackedPart part, LoadPart(*source.weight, 0, source.weight->rows()));
    if (source.maybe_bias != nullptr) {
      TRY_ASSIGN(const std::vector<float> bias, ReadVector(*source.maybe_bias));
      CHECK(bias.size() == part.rows) << "a bias isn't as long as its matrix has rows";
      TRY_ASSIGN(std::byte* const memory, memory_.Take(bias.size() * sizeof(float)));
      std::memcpy(memory, bias.data(), bias.size() * sizeof(float));
      part.maybe_bias = reinterpret_cast<const float*>(memory);
    }
    matrix.rows += part.rows;
    matrix.parts.push_back(part);
  }
  return matrix;
}

Result<Experts> WeightLoader::LoadExperts(const ExpertsSpec& spec) {
  for (const WeightReader* weight : {spec.gate, spec.up, spec.down}) {
    TRY(CheckComputed(*weight));
    CHECK(spec.experts > 0 && weight->rows() % spec.experts == 0)
        << "rows aren't divisible by the number of experts";
  }
  Experts experts;
  experts.ff = spec.gate->rows() / spec.experts;
  const uint32_t width = spec.down->rows() / spec.experts;
  CHECK(spec.up->rows() == spec.gate->rows() && spec.up->cols() == spec.gate->cols() &&
        spec.down->cols() == experts.ff)
      << "gate, up and down of the experts don't fit together";
  for (uint32_t e = 0; e < spec.experts; ++e) {
    TRY_ASSIGN(const PackedPart gate, LoadPart(*spec.gate, e * experts.ff, experts.ff));
    TRY_ASSIGN(const PackedPart up, LoadPart(*spec.up, e * experts.ff, experts.ff));
    TRY_ASSIGN(const PackedPart down, LoadPart(*spec.down, e * width, width));
    experts.gate_up.push_back({2 * experts.ff, spec.gate->cols(), {gate, up}});
    experts.down.push_back({width, experts.ff, {down}});
  }
  return experts;
}

}  // namespace fak::tensor::cpu
