#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "tensor/gguf.h"

// The work that a model's weights are, whoever does it: what speeds are divided by to get the share
// of what a machine gives.
namespace fak::perf {

struct ModelWork {
  uint64_t token_bytes = 0;  // of weights that one generated token has to read
  uint64_t body_ops = 0;     // multiplications and additions of one token, without the head
  uint64_t head_ops = 0;     // of the head, which a prompt needs once
  bool of_bytes = false;     // most weights are of a type whose products are of bytes, not floats

  // Attention over the context isn't in it.
  uint64_t PromptOps(uint32_t tokens) const { return body_ops * tokens + head_ops; }
};

// Of `experts` a token takes experts_used; 0 where the model has none. Tensors of one dimension
// multiply no matrix. The embedding table is read when it is the head too.
ModelWork WorkOf(std::span<const tensor::GgufTensor> tensors, uint32_t experts,
                 uint32_t experts_used);
[[nodiscard]] Result<ModelWork> WorkOf(const tensor::GgufFile& file);

}  // namespace fak::perf
