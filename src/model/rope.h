#pragma once

#include <vector>

#include "model/shape.h"
#include "tensor/backend.h"

namespace fak::model {

// The angles a position of a RoPE variant: plain, linear (positions divided by a factor), yarn
// (Peng et al. 2023, arXiv:2309.00071) and llama3, whose file carries a divisor for each pair
// (`factors`, else empty). Computed in double by the functions of tensor/spec, so that they are
// the same on every machine.
tensor::RopeSpec MakeRope(const RopeShape& shape, tensor::RopeStyle style,
                          const std::vector<float>& factors);

}  // namespace fak::model
