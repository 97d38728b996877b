#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/program.h"

namespace fak::tensor {

// Which values of a program may share memory: a value's buffer is taken over by later values once
// no op reads it any more.
struct ValueBuffers {
  static constexpr size_t kNone = SIZE_MAX;

  std::vector<uint32_t> widths;   // of each buffer: its widest value
  std::vector<size_t> of_values;  // the buffer of each value; kNone: no op uses it
};
ValueBuffers PlanValueBuffers(const Program& program);

// The widest row that goes into a product of the op; 0: it has none.
uint32_t ProductWidth(const Op& op);

// Which RoPE tables a program uses, without repeats.
std::vector<RopeId> RopesOf(const Program& program);

}  // namespace fak::tensor
