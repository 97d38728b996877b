#include "model/rope.h"

#include "tensor/spec/rope.h"

namespace fak::model {

tensor::RopeSpec MakeRope(const RopeShape& shape, tensor::RopeStyle style,
                          const std::vector<float>& factors) {
  const tensor::spec::RopeScaling scaling{
      .dims = static_cast<int>(shape.dims),
      .base = shape.base,
      .factor = shape.factor,
      .yarn = shape.scaling == RopeScaling::kYarn,
      .yarn_attention = shape.attention_factor,
      .yarn_beta_fast = shape.beta_fast,
      .yarn_beta_slow = shape.beta_slow,
      .original_context = shape.original_context,
  };
  tensor::RopeSpec spec{.style = style, .dims = shape.dims, .inverse_freq = {}, .magnitude = 1.0};
  spec.inverse_freq.reserve(shape.dims / 2);
  for (uint32_t i = 0; i < shape.dims / 2; ++i) {
    const double divisor = factors.empty() ? 1.0 : static_cast<double>(factors[i]);
    spec.inverse_freq.push_back(tensor::spec::RopeFrequency(scaling, static_cast<int>(i), divisor));
  }
  spec.magnitude = tensor::spec::RopeMagnitude(scaling);
  return spec;
}

}  // namespace fak::model
