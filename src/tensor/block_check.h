#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "tensor/dtype.h"

namespace fak::tensor {

// The first thing in a tensor's bytes that no computation may meet: a block whose scale or minimum
// is NaN or infinite or, for F32, F16 and BF16, such an element. Counted in blocks from the start
// of bytes; nullopt if all is finite. bytes must be whole blocks of a computed type. Thread-safe;
// one pass over the bytes, made to run while they are loaded.
std::optional<size_t> FirstNonFiniteBlock(DType type, std::span<const std::byte> bytes);

}  // namespace fak::tensor
