#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

// What a model computes in one step, recorded once at load as a list of fused verbs over ragged
// rows. A back end compiles the list for itself (CPU: a chain of fork-joins; CUDA: one graph a
// bucket of rows) and runs it every step on other rows. Shapes that change from step to step
// (rows, positions, block tables, logit rows) are not part of the program.
//
// A "row" is one token of one sequence; every verb works on all rows of a step. Each output
// element follows docs/formats/numerics.md, whatever rows share the step.
namespace fak::tensor {

// Handles that a Backend gave out while loading.
enum class MatrixId : uint32_t {};   // rows of one or more 2-D weights, stacked, with their biases
enum class VectorId : uint32_t {};   // a 1-D f32 weight (norms)
enum class ExpertsId : uint32_t {};  // the three stacks of one mixture-of-experts layer
enum class RopeId : uint32_t {};
inline constexpr VectorId kNoVector{0xffffffffu};
inline constexpr MatrixId kNoMatrix{0xffffffffu};

// An activation: f32, `width` values a row. Value n of the program; written by one verb, except the
// residual stream, which the residual verbs update in place.
struct Rows {
  uint32_t id = 0;
  uint32_t width = 0;
};

// RMSNorm over a row: x / sqrt(mean(x²) + eps) · weight.
struct Norm {
  VectorId weight = kNoVector;
  float eps = 1e-5f;
};

struct HeadShape {
  uint32_t q_heads = 0;
  uint32_t kv_heads = 0;
  uint32_t dim = 0;  // of q, k and v
};

enum class Activation : uint8_t { kSilu, kGeluTanh };

// token ids -> rows of the embedding table, times scale (one f32 multiply, skipped when scale is
// 1).
struct EmbedOp {
  MatrixId table;
  float scale = 1.0f;
  Rows out;
};

// norm -> quantise -> [Q; K; V] + bias. out.width = (q_heads + 2 kv_heads) · dim, in that order.
struct NormQkvOp {
  Rows x;
  Norm norm;
  MatrixId qkv;
  Rows out;
};

// RMSNorm over each head of q and k where given, rotates both at the row's position, and appends k
// and v to the sequence's KV block.
struct RopeAppendOp {
  Rows qkv;
  HeadShape heads;
  Norm q_norm;  // over `dim` values of each head; weight == kNoVector: none
  Norm k_norm;
  RopeId rope;
  uint32_t kv_layer = 0;
};

// Causal attention of each row over its sequence's KV, positions (p - window, p]; window 0: all.
struct AttentionOp {
  Rows qkv;
  HeadShape heads;
  uint32_t kv_layer = 0;
  float scale = 0.0f;  // on q·k
  uint32_t window = 0;
  Rows out;  // q_heads · dim
};

// x = x + post_norm(quantise(in) · matrix + bias). The O projection and the down projection.
struct ProjectResidualOp {
  Rows x;
  Rows in;
  MatrixId matrix;
  Norm post_norm;  // weight == kNoVector: none
};

// norm -> quantise -> [gate; up] -> activation(gate) · up. out.width = rows of gate.
struct NormGateUpOp {
  Rows x;
  Norm norm;
  MatrixId gate_up;
  Activation activation = Activation::kSilu;
  Rows out;
};

// x = x + Σ over the chosen experts, in rank order, weight_e · down_e(act(gate_e(h)) · up_e(h)),
// h = norm(x). Router: softmax over all experts of router · h; the top_k of highest logit,
// ties by lowest id; with normalise the chosen probabilities are divided by their sum.
struct MoeOp {
  Rows x;
  Norm norm;
  MatrixId router;
  ExpertsId experts;
  uint32_t n_experts = 0;
  uint32_t ff = 0;  // width of an expert's hidden row
  uint32_t top_k = 0;
  bool normalise = true;
  float scale = 1.0f;  // on the weights, after normalising
  Activation activation = Activation::kSilu;
};

// norm -> quantise -> output matrix, on the step's logit rows only; then the step's samples are
// drawn. The last verb of a program that speaks.
struct HeadOp {
  Rows x;
  Norm norm;
  MatrixId matrix;
};

using Op = std::variant<EmbedOp, NormQkvOp, RopeAppendOp, AttentionOp, ProjectResidualOp,
                        NormGateUpOp, MoeOp, HeadOp>;

struct Program {
  std::vector<Op> ops;
  std::vector<uint32_t> widths;  // of value n
  uint32_t vocabulary = 0;       // width of a logit row
};

// Records a program. The layer functions of room `model` are written against this class; they read
// like the paper because each verb is one of its lines. Not thread-safe.
class ProgramBuilder {
 public:
  Rows Embed(MatrixId table, uint32_t width, float scale = 1.0f);
  Rows NormQkv(Rows x, Norm norm, MatrixId qkv, HeadShape heads);
  void RopeAppend(Rows qkv, HeadShape heads, RopeId rope, uint32_t kv_layer, Norm q_norm = {},
                  Norm k_norm = {});
  Rows Attention(Rows qkv, HeadShape heads, uint32_t kv_layer, float scale, uint32_t window = 0);
  void ProjectResidual(Rows x, Rows in, MatrixId matrix, Norm post_norm = {});
  Rows NormGateUp(Rows x, Norm norm, MatrixId gate_up, uint32_t width, Activation activation);
  void Moe(MoeOp op);
  void Head(Rows x, Norm norm, MatrixId matrix, uint32_t vocabulary);

  Program Finish() && { return std::move(program_); }

 private:
  Rows NewRows(uint32_t width);
  Program program_;
};

}  // namespace fak::tensor
