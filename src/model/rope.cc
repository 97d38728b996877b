#include "model/rope.h"

#include <algorithm>
#include <cmath>

#include "tensor/spec/functions64.h"

namespace fak::model {
namespace {

// Yarn blends each pair's own angle (few turns within the trained context: keep) with the one
// divided by the factor (many positions a turn: interpolate) along a ramp between two pair indices.
class YarnRamp {
 public:
  YarnRamp(const RopeShape& shape)  // NOLINT(google-explicit-constructor)
      : low_(std::max(0.0, std::floor(PairOf(shape, shape.beta_fast)))),
        high_(std::min(static_cast<double>(shape.dims) - 1.0,
                       std::ceil(PairOf(shape, shape.beta_slow)))) {}

  // Share of the pair's own angle, 0 to 1.
  double Own(double pair) const {
    const double along = (pair - low_) / std::max(0.001, high_ - low_);
    return 1.0 - std::clamp(along, 0.0, 1.0);
  }

 private:
  // The pair that turns `turns` times within the original context.
  static double PairOf(const RopeShape& shape, double turns) {
    using tensor::spec::kTwoPi;
    using tensor::spec::Log64;
    return static_cast<double>(shape.dims) * Log64(shape.original_context / (turns * kTwoPi)) /
           (2.0 * Log64(shape.base));
  }

  double low_;
  double high_;
};

}  // namespace

tensor::RopeSpec MakeRope(const RopeShape& shape, tensor::RopeStyle style,
                          const std::vector<float>& factors) {
  tensor::RopeSpec spec{.style = style, .dims = shape.dims, .inverse_freq = {}, .magnitude = 1.0};
  const uint32_t pairs = shape.dims / 2;
  spec.inverse_freq.reserve(pairs);
  for (uint32_t i = 0; i < pairs; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(shape.dims);
    double angle = tensor::spec::Pow64(shape.base, exponent);
    if (!factors.empty()) {
      angle /= static_cast<double>(factors[i]);
    }
    if (shape.scaling == RopeScaling::kLinear) {
      angle /= shape.factor;
    } else if (shape.scaling == RopeScaling::kYarn) {
      const double own = YarnRamp(shape).Own(i);
      angle = angle / shape.factor * (1.0 - own) + angle * own;
    }
    spec.inverse_freq.push_back(angle);
  }
  if (shape.scaling == RopeScaling::kYarn) {
    spec.magnitude = shape.attention_factor * (1.0 + 0.1 * tensor::spec::Log64(shape.factor));
  }
  return spec;
}

}  // namespace fak::model
