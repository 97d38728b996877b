#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/backend.h"

// For tests: small models with random weights, held as files hold them, and what the specification
// (spec/) says they compute. Everything is deterministic.
namespace fak::tensor::cpu {

// A tensor in memory.
class MemoryWeight final : public WeightReader {
 public:
  MemoryWeight() = default;
  // Random blocks of the type with values of about `scale`.
  MemoryWeight(std::string name, DType type, uint32_t rows, uint32_t cols, float scale,
               uint64_t seed);

  std::string_view name() const override { return name_; }
  DType dtype() const override { return type_; }
  uint32_t rows() const override { return rows_; }
  uint32_t cols() const override { return cols_; }
  Status ReadRows(uint32_t first, uint32_t count, std::span<std::byte> out) const override;

  const std::byte* Row(uint32_t row) const;
  float Element(uint32_t row, uint32_t col) const;

 private:
  std::string name_;
  DType type_ = DType::kF32;
  uint32_t rows_ = 0;
  uint32_t cols_ = 0;
  std::vector<std::byte> bytes_;
};

struct TestShape {
  std::string name;
  uint32_t layers = 2;
  uint32_t width = 64;
  HeadShape heads = {4, 2, 16};
  uint32_t ff = 96;
  uint32_t vocabulary = 101;
  uint32_t unused_rows = 0;        // of the embedding and the head, beyond the vocabulary
  DType type = DType::kF32;        // of matrices
  DType other_type = DType::kF32;  // of V, up and down
  bool bias = false;
  float bias_scale = 0.5f;
  bool head_norms = false;
  bool post_norms = false;
  bool tied = false;  // head = embedding
  float embed_scale = 1.0f;
  uint32_t window = 0;  // of odd layers
  RopeStyle rope_style = RopeStyle::kAdjacent;
  uint32_t rope_dims = 0;  // 0: all
  Activation activation = Activation::kSilu;
  uint32_t experts = 0;  // 0: dense
  uint32_t top_k = 2;
  KvType kv_type = KvType::kF16;
  uint64_t seed = 1;
};

// Shapes that between them meet every verb, option and class of types.
std::vector<TestShape> TestShapes();

class TestModel {
 public:
  explicit TestModel(const TestShape& shape);

  const TestShape& shape() const { return shape_; }
  Program Load(Backend& backend) const;
  KvSpec Kv(uint32_t block_size, uint32_t blocks) const;

  // What the specification gives for a sequence from its first token on.
  struct Expected {
    std::vector<std::vector<float>> logits;  // by position
    // By layer and part: all positions in canonical order.
    std::vector<std::vector<std::byte>> keys;
    std::vector<std::vector<std::byte>> values;
    uint64_t clamped = 0;  // values on their way into KV
  };
  // Computed once for the same tokens: it is slow, and instruction sets are many. The result lives
  // as long as the model.
  const Expected& Run(const std::vector<int32_t>& tokens) const;

 private:
  struct Layer {
    MemoryWeight norm, q, k, v, q_bias, k_bias, v_bias, q_norm, k_norm, o, post_norm;
    MemoryWeight ff_norm, gate, up, down, ff_post_norm, router;
  };
  class Sequence;

  uint32_t RopeDims() const { return shape_.rope_dims == 0 ? shape_.heads.dim : shape_.rope_dims; }
  RopeSpec Rope() const;

  TestShape shape_;
  MemoryWeight embedding_, final_norm_, head_;
  std::vector<Layer> layers_;
  mutable std::map<std::vector<int32_t>, Expected> runs_;
};

}  // namespace fak::tensor::cpu
