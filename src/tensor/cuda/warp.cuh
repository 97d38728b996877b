#pragma once

#include <cstdint>

#include "tensor/spec/scalar.h"

namespace fak::tensor::cuda {

// Rule 3's tree over the lanes 0 to 15 of a warp; lane 0 has the result. All 32 take part.
__device__ inline float Tree16(float lane) {
  for (int distance = 8; distance > 0; distance /= 2) {
    lane = lane + __shfl_down_sync(0xffffffffu, lane, static_cast<unsigned>(distance));
  }
  return lane;
}

__device__ inline uint32_t WarpMax(uint32_t x) {
  return __reduce_max_sync(0xffffffffu, x);
}

}  // namespace fak::tensor::cuda
