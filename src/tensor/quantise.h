#pragma once

#include <cstddef>
#include <span>

#include "tensor/dtype.h"

namespace fak::tensor {

// Stores a row of floats as `type`, any computed one: row.size() is whole blocks, out.size() is
// RowBytes(type, row.size()). The values must be finite; scales that f16 can't hold become its
// largest. The same bits on every machine: only + - * / and rounding, in a fixed order.
//
// Method (ours). Codes without an offset: scales around "the largest element gets the outermost
// code", of both signs, are tried; for the codes that each gives, the best scale by least squares
// is known, and the one with the least square error stays. Codes with an offset: the same with
// scale and offset solved together. Blocks of 256 fit each sub-block so, store the sub-blocks'
// scales relative to the largest, and choose the codes again with the scales as they are stored.
// For generators of models and tests; not a hot path.
void QuantiseRow(DType type, std::span<const float> row, std::span<std::byte> out);

}  // namespace fak::tensor
