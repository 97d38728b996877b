#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "tensor/kv_spec.h"
#include "tensor/program.h"

// Rotation, the KV append and attention: numerics rules 3, 9, 10. All pointers are the device's.
namespace fak::tensor::cuda {

// Where the rows of a step stand, and KV memory as they see it. A layer's K or V of a block is
// [position][kv head][dim] in the storage type.
struct PagedRows {
  const uint32_t* positions = nullptr;  // of each row
  const uint32_t* tables = nullptr;     // of each row: where its block table begins in `blocks`
  const uint32_t* blocks = nullptr;
  std::byte* kv = nullptr;
  uint64_t block_bytes = 0;
  uint64_t keys = 0;  // of the layer, from the start of a block
  uint64_t values = 0;
  uint32_t block_size = 0;
  KvType type = KvType::kF16;
};

struct Append {
  PagedRows paged;
  HeadShape heads;
  float* qkv = nullptr;
  uint32_t width = 0;
  uint32_t rows = 0;
  const float* maybe_q_norm = nullptr;
  const float* maybe_k_norm = nullptr;
  float q_eps = 0.0f;
  float k_eps = 0.0f;
  bool adjacent = false;       // RopeStyle
  uint32_t rotated = 0;        // values of a head
  const float* cos = nullptr;  // [row][stride]
  const float* sin = nullptr;
  uint32_t rope_stride = 0;
  uint8_t* finite = nullptr;              // of each row
  unsigned long long* clamped = nullptr;  // counts values
};
cudaError_t RopeAppend(const Append& append, cudaStream_t stream);

// Rows [first_row, first_row + rows) of the step, over splits [0, splits).
struct Attention {
  PagedRows paged;
  HeadShape heads;
  const float* qkv = nullptr;
  uint32_t width = 0;
  uint32_t first_row = 0;
  uint32_t rows = 0;
  uint32_t window = 0;
  float scale = 0.0f;  // of a dot product, to powers of two
  uint32_t splits = 0;
  float* partials = nullptr;  // PartialFloats() a row
  float* out = nullptr;
  uint32_t out_width = 0;
};
// Per head and split: the weighted V, then all maxima, then all sums.
constexpr uint64_t PartialFloats(const HeadShape& heads, uint32_t splits) {
  return uint64_t{heads.q_heads} * splits * (heads.dim + 2);
}
cudaError_t Attend(const Attention& attention, cudaStream_t stream);

}  // namespace fak::tensor::cuda
