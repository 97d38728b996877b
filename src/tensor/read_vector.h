#pragma once

#include <vector>

#include "base/result.h"
#include "tensor/backend.h"

namespace fak::tensor {

// A weight of floats (a norm, a bias), whole. Errors: the reader's; kUnsupported, naming weight and
// type, where it is quantised.
[[nodiscard]] Result<std::vector<float>> ReadVector(const WeightReader& weight);

}  // namespace fak::tensor
