#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/loader.h"
#include "engine/sequence.h"
#include "tensor/backend.h"

namespace fak::engine {

// The bits that a sequence left behind: what two runs are compared by. Plain data.
struct Trace {
  std::vector<tensor::KvLayerShape> layers;
  tensor::KvType type = tensor::KvType::kF16;
  uint32_t positions = 0;
  // Canonical order (docs/formats/numerics.md rule 13): layer, K | V, position, head, dim.
  std::vector<std::byte> kv;
  uint32_t vocabulary = 0;
  std::vector<float> logits;    // a row of `vocabulary` for each generated token
  std::vector<int32_t> tokens;  // generated

  // Reads the KV of every computed position. The sequence's blocks must be its own still.
  void ReadKv(const LoadedEngine& engine, const Sequence& sequence);
  // Appends logit row `row` of the last step.
  void ReadLogits(const LoadedEngine& engine, uint32_t row);
};

struct Comparison {
  uint64_t kv_values = 0;  // compared
  uint64_t kv_differing = 0;
  uint64_t logit_values = 0;
  uint64_t logits_differing = 0;
  // The first difference, KV before logits, with the bits of both; empty when there is none.
  std::string first;

  uint64_t differing() const { return kv_differing + logits_differing; }
};

// Value by value, by bits: -0 is not +0. Where the traces' shapes differ, the values that only one
// of them has differ.
Comparison Compare(const Trace& expected, const Trace& actual);

}  // namespace fak::engine
