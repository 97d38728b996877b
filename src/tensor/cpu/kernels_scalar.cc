// Hot path: bench/micro/attention_bench.cc. The specification made runnable; its speed is that of
// plain loops.
#include <cstring>

#include "tensor/cpu/kernels.h"
#include "tensor/spec/attention.h"
#include "tensor/spec/convert.h"
#include "tensor/spec/dot.h"
#include "tensor/spec/functions.h"
#include "tensor/spec/reduce.h"
#include "tensor/spec/rope.h"
#include "tensor/spec/router.h"
#include "tensor/spec/sampling.h"
#include "tensor/spec/scalar.h"

namespace fak::tensor::cpu {
namespace {

void RmsNorm(const float* x, const float* weight, uint32_t n, float eps, float* y) {
  spec::RmsNorm(x, weight, n, eps, y);
}

void Rotate(RopeStyle style, const float* cos, const float* sin, uint32_t dims, float* head) {
  for (uint32_t i = 0; i < dims / 2; ++i) {
    float& first = head[style == RopeStyle::kAdjacent ? 2 * i : i];
    float& second = head[style == RopeStyle::kAdjacent ? 2 * i + 1 : i + dims / 2];
    const float x = first;
    const float y = second;
    first = spec::Fma(x, cos[i], -(y * sin[i]));
    second = spec::Fma(x, sin[i], y * cos[i]);
  }
}

void Gate(Activation activation, const float* gate, const float* up, uint32_t n, float* out) {
  for (uint32_t i = 0; i < n; ++i) {
    out[i] = activation == Activation::kSilu ? spec::SiluGate(gate[i], up[i])
                                             : spec::GeluGate(gate[i], up[i]);
  }
}

void Add(const float* y, uint32_t n, float* x) {
  for (uint32_t i = 0; i < n; ++i) {
    x[i] = spec::AddResidual(x[i], y[i]);
  }
}

void Scale(float scale, uint32_t n, float* x) {
  for (uint32_t i = 0; i < n; ++i) {
    x[i] = x[i] * scale;
  }
}

void AddScaled(float weight, const float* in, uint32_t n, float* y) {
  for (uint32_t i = 0; i < n; ++i) {
    y[i] = spec::AddExpert(y[i], weight, in[i]);
  }
}

bool AllFinite(const float* x, uint32_t n) {
  return spec::RowIsFinite(x, n);
}

uint32_t Store(KvType type, const float* x, uint32_t n, uint32_t stride, std::byte* out) {
  uint32_t clamped = 0;
  for (uint32_t i = 0; i < n; ++i) {
    if (type == KvType::kF32) {
      std::memcpy(out + sizeof(float) * i * stride, x + i, sizeof(float));
      continue;
    }
    const spec::StoredKv stored =
        type == KvType::kF16 ? spec::StoreKvF16(x[i]) : spec::StoreKvBf16(x[i]);
    std::memcpy(out + sizeof(uint16_t) * i * stride, &stored.bits, sizeof(uint16_t));
    clamped += stored.clamped ? 1 : 0;
  }
  return clamped;
}

float LoadValue(KvType type, const std::byte* tile, uint64_t index) {
  if (type == KvType::kF32) {
    float value;
    std::memcpy(&value, tile + sizeof value * index, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, tile + sizeof bits * index, sizeof bits);
  return type == KvType::kF16 ? spec::F16ToF32(bits) : spec::Bf16ToF32(bits);
}

void Attend(KvType type, const AttentionSplit& split) {
  for (uint32_t i = 0; i < split.n_queries; ++i) {
    const AttentionQuery& query = split.queries[i];
    const auto key = [&](int64_t t, int e) {
      return LoadValue(type, split.keys[t / 16], static_cast<uint64_t>(e) * 16 + t % 16);
    };
    const auto value = [&](int64_t t, int e) {
      return LoadValue(type, split.values[t / 16],
                       static_cast<uint64_t>(t % 16) * split.value_stride + e);
    };
    const spec::SplitResult result =
        spec::AttendSplit(query.q, static_cast<int>(split.head_dim), query.begin, query.end,
                          spec::ScoreScale{false, 0.0f, split.scale}, key, value, query.o);
    *query.maximum = result.max;
    *query.sum = result.sum;
  }
}

void Combine(const float* maxima, const float* sums, const float* o, uint32_t n, uint32_t stride,
             uint32_t dim, float* out) {
  const float max = spec::MaxOf(maxima, n);
  float sum = 0.0f;
  for (uint32_t e = 0; e < dim; ++e) {
    out[e] = 0.0f;
  }
  for (uint32_t i = 0; i < n; ++i) {
    const float weight = spec::Exp2(maxima[i] - max);
    sum = spec::Fma(weight, sums[i], sum);
    for (uint32_t e = 0; e < dim; ++e) {
      out[e] = spec::Fma(weight, o[uint64_t{i} * stride + e], out[e]);
    }
  }
  for (uint32_t e = 0; e < dim; ++e) {
    out[e] = out[e] / sum;
  }
}

float MaxOf(const float* x, uint32_t n) {
  return spec::MaxOf(x, n);
}

uint32_t ArgMax(const float* x, uint32_t n) {
  return static_cast<uint32_t>(spec::ArgMax(x, n));
}

void Divide(const float* x, float divisor, uint32_t n, float* y) {
  for (uint32_t i = 0; i < n; ++i) {
    y[i] = x[i] / divisor;
  }
}

void Weights(const float* x, float max, uint32_t n, uint64_t* out) {
  for (uint32_t i = 0; i < n; ++i) {
    out[i] = spec::SampleWeight(x[i], max);
  }
}

uint64_t WeightSum(const float* x, float max, uint32_t n) {
  return spec::WeightSum(x, n, max);
}

uint32_t CountAbove(const float* x, float bound, uint32_t n) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < n; ++i) {
    count += x[i] > bound ? 1 : 0;
  }
  return count;
}

}  // namespace

extern const Kernels kScalarKernels;
const Kernels kScalarKernels = {
    .isa = Isa::kScalar,
    .rms_norm = RmsNorm,
    .rotate = Rotate,
    .gate = Gate,
    .add = Add,
    .scale = Scale,
    .add_scaled = AddScaled,
    .all_finite = AllFinite,
    .store = Store,
    .attend = Attend,
    .combine = Combine,
    .max_of = MaxOf,
    .arg_max = ArgMax,
    .divide = Divide,
    .weights = Weights,
    .weight_sum = WeightSum,
    .count_above = CountAbove,
};

}  // namespace fak::tensor::cpu
