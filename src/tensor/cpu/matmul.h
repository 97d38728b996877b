// Hot path: bench/micro/matmul_bench.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tensor/cpu_backend.h"
#include "tensor/dtype.h"

// Products of weights and activations on the CPU (numerics rules 4 to 7), one table of kernels an
// ISA, all of which give the bits of spec::DotRow and spec::DotRowFloat for any number of rows.
//
// Weights are resident in one layout that every ISA reads: 16 weight rows (outputs) side by side
// are a panel; a panel is a run of chunks along the inputs (256, the last may be shorter), and a
// chunk holds first the scales and then the bits of its 16 rows, interleaved so that a vector lane
// is an output. Panels follow each other without gaps. layout.h says where each bit goes.
//
// Nothing here allocates, locks or keeps state. Kernels may be called from any number of threads
// on the same weights and activations; the caller divides the work by panels, and by rows of
// activations where that is more even.
namespace fak::tensor::cpu {

inline constexpr uint32_t kPanelRows = 16;
inline constexpr uint32_t kChunk = 256;
// Packed weights and activation buffers must be so aligned; panel sizes are multiples of it.
inline constexpr size_t kPackAlignment = 64;

// What a weight type wants its activations to be: f32, or int8 with a scale every 32 or 256.
enum class ActivationClass : uint8_t { kFloat, kInt8x32, kInt8x256 };
ActivationClass ClassOf(DType type);

// --- Weights. `type` is a computed type; cols is whole blocks of it. ---

uint64_t PanelBytes(DType type, uint32_t cols);
// Of a whole matrix. At most 2 % above the file's bytes (Q3_K), plus the padding of the last panel
// and, for some widths, up to 32 bytes a panel.
uint64_t PackedBytes(DType type, uint32_t rows, uint32_t cols);
// Packs up to 16 rows in the file's layout (`rows` of RowBytes(type, cols), one after the other)
// into one panel. Missing rows become zeros.
void PackPanel(DType type, uint32_t rows, uint32_t cols, const std::byte* file_rows,
               std::byte* panel);
// The exact inverse for one row of a packed matrix: out gets RowBytes(type, cols) bytes.
void UnpackRow(DType type, uint32_t cols, const std::byte* packed, uint32_t row, std::byte* out);
// Rule 11: a row as floats, each multiplied by scale unless that is 1.
void EmbedRow(DType type, uint32_t cols, const std::byte* packed, uint32_t row, float scale,
              float* out);

// --- Activations ---

// `rows` rows of `cols` activations as one class of weights wants them. A view: data is
// ActivationBytes() of the caller's memory, 64-byte aligned, filled by MatmulKernels::quantise, row
// by row in any order and by any threads. The bytes inside are the kernels' own.
struct Activations {
  ActivationClass type = ActivationClass::kFloat;
  uint32_t rows = 0;
  uint32_t cols = 0;
  std::byte* data = nullptr;
};
uint64_t ActivationBytes(ActivationClass type, uint32_t rows, uint32_t cols);
// to row i = from row rows[i]; same class and cols. For experts that see some of a step's rows.
void GatherRows(const Activations& from, std::span<const uint32_t> rows, const Activations& to);

// --- Products ---

struct Product {
  const std::byte* weights = nullptr;  // the packed matrix, from its first panel
  uint32_t outputs = 0;                // its rows
  const float* maybe_bias = nullptr;   // `outputs` values, added last
  Activations x;                       // x.cols is the matrix's
  // Rows of x to compute: [row_begin, row_end).
  uint32_t row_begin = 0;
  uint32_t row_end = 0;
  // out[row * out_stride + output] is written for the outputs of the panels asked for; nothing else
  // is touched. row counts from 0 as in x.
  float* out = nullptr;
  size_t out_stride = 0;
  // CpuOptions::wrong_order: chunks are summed last first.
  bool wrong_order = false;
};

struct MatmulKernels {
  using Multiply = void (*)(const Product& product, uint32_t panel_begin, uint32_t panel_end);

  std::string_view isa;  // "avx512", as reports name it
  // Rule 4 (or a copy, for kFloat): fills row `row` of out from out.cols floats.
  void (*quantise)(const float* x, const Activations& out, uint32_t row) = nullptr;
  // By weight type; never null for a computed type.
  Multiply MultiplyOf(DType type) const { return multiply[static_cast<size_t>(type)]; }
  Multiply multiply[32] = {};
};

// isa must be one of CpuIsas() (not kAuto).
const MatmulKernels& MatmulKernelsFor(Isa isa);
// What reports call the kernel of a product: "q4_k avx512".
std::string MatmulName(DType type, Isa isa);

}  // namespace fak::tensor::cpu
