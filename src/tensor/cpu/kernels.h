// Hot path: bench/micro/attention_bench.cc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/cpu_backend.h"
#include "tensor/kv_spec.h"
#include "tensor/program.h"

// What the CPU back end computes besides matrix products (matmul.h), as one table of
// functions an instruction set. kernels_scalar.cc is the specification made runnable: it is
// written with spec/ alone. The others are kernels.inl compiled for their ISA and give its bits.
namespace fak::tensor::cpu {

inline constexpr uint32_t kSplitPositions = 256;  // numerics rule 10

// One query head of one row against one split of 256 positions.
struct AttentionQuery {
  const float* q = nullptr;  // head_dim values
  uint32_t begin = 0;        // visible positions of the split: [begin, end), not empty
  uint32_t end = 0;
  // Results: maximum, sum of weights, and the weighted sum of V (value_stride values; those from
  // head_dim on are undefined).
  float* maximum = nullptr;
  float* sum = nullptr;
  float* o = nullptr;
};

// Queries that share the K and V of one KV head in one split.
struct AttentionSplit {
  // Tile t holds positions [16 t, 16 t + 16) of the split; only tiles with a visible position need
  // to be there. Laid out as KvLayerLayout says.
  const std::byte* keys[kSplitPositions / 16] = {};
  const std::byte* values[kSplitPositions / 16] = {};
  uint32_t head_dim = 0;
  uint32_t value_stride = 0;
  float scale = 0.0f;  // "sc" of rule 10
  AttentionQuery* queries = nullptr;
  uint32_t n_queries = 0;
  float* scores = nullptr;  // scratch: 256 values a query, 64-byte aligned
};

struct Kernels {
  Isa isa = Isa::kScalar;

  // Rule 3. y may be x.
  void (*rms_norm)(const float* x, const float* weight, uint32_t n, float eps, float* y);
  // Rule 9, one head at one position. cos and sin: dims / 2 values each.
  void (*rotate)(RopeStyle style, const float* cos, const float* sin, uint32_t dims, float* head);
  // Rule 8: out = activation(gate) · up. out may be gate.
  void (*gate)(Activation activation, const float* gate, const float* up, uint32_t n, float* out);
  // x = x + y.
  void (*add)(const float* y, uint32_t n, float* x);
  // x = x · scale.
  void (*scale)(float scale, uint32_t n, float* x);
  // Rule 11: y = fma(weight, in, y).
  void (*add_scaled)(float weight, const float* in, uint32_t n, float* y);
  // Rule 2: no NaN, no infinity.
  bool (*all_finite)(const float* x, uint32_t n);
  // Writes n values of K (each `stride` values from the last) or of V (stride 1) in the storage
  // type; returns how many were clamped (rule 1).
  uint32_t (*store)(KvType type, const float* x, uint32_t n, uint32_t stride, std::byte* out);
  // Rule 10, one split, by storage type.
  void (*attend)(KvType type, const AttentionSplit& split);
  // Rule 10, the end: n splits in index order; split i has maxima[i], sums[i] and the row
  // o + i · stride. Writes dim values.
  void (*combine)(const float* maxima, const float* sums, const float* o, uint32_t n,
                  uint32_t stride, uint32_t dim, float* out);

  // Sampling, over n >= 1 finite values or -inf. The largest; which zero it is, of two, is left
  // open.
  float (*max_of)(const float* x, uint32_t n);
  // The first index of the largest value.
  uint32_t (*arg_max)(const float* x, uint32_t n);
  // y = x / divisor.
  void (*divide)(const float* x, float divisor, uint32_t n, float* y);
  // spec::SampleWeight of each, and their sum.
  void (*weights)(const float* x, float max, uint32_t n, uint64_t* out);
  uint64_t (*weight_sum)(const float* x, float max, uint32_t n);
  // How many of x are greater than the bound.
  uint32_t (*count_above)(const float* x, float bound, uint32_t n);
};

// isa must be one of CpuIsas().
const Kernels& KernelsFor(Isa isa);

}  // namespace fak::tensor::cpu
