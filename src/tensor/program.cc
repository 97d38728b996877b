#include "tensor/program.h"

namespace fak::tensor {

Rows ProgramBuilder::NewRows(uint32_t width) {
  program_.widths.push_back(width);
  return {static_cast<uint32_t>(program_.widths.size() - 1), width};
}

Rows ProgramBuilder::Embed(MatrixId table, uint32_t width, float scale) {
  const Rows out = NewRows(width);
  program_.ops.emplace_back(EmbedOp{table, scale, out});
  return out;
}

Rows ProgramBuilder::NormQkv(Rows x, Norm norm, MatrixId qkv, HeadShape heads) {
  const Rows out = NewRows((heads.q_heads + 2 * heads.kv_heads) * heads.dim);
  program_.ops.emplace_back(NormQkvOp{x, norm, qkv, out});
  return out;
}

void ProgramBuilder::RopeAppend(Rows qkv, HeadShape heads, RopeId rope, uint32_t kv_layer,
                                Norm q_norm, Norm k_norm) {
  program_.ops.emplace_back(RopeAppendOp{qkv, heads, q_norm, k_norm, rope, kv_layer});
}

Rows ProgramBuilder::Attention(Rows qkv, HeadShape heads, uint32_t kv_layer, float scale,
                               uint32_t window) {
  const Rows out = NewRows(heads.q_heads * heads.dim);
  program_.ops.emplace_back(AttentionOp{qkv, heads, kv_layer, scale, window, out});
  return out;
}

void ProgramBuilder::ProjectResidual(Rows x, Rows in, MatrixId matrix, Norm post_norm) {
  program_.ops.emplace_back(ProjectResidualOp{x, in, matrix, post_norm});
}

Rows ProgramBuilder::NormGateUp(Rows x, Norm norm, MatrixId gate_up, uint32_t width,
                                Activation activation) {
  const Rows out = NewRows(width);
  program_.ops.emplace_back(NormGateUpOp{x, norm, gate_up, activation, out});
  return out;
}

void ProgramBuilder::Moe(MoeOp op) {
  program_.ops.emplace_back(op);
}

void ProgramBuilder::Head(Rows x, Norm norm, MatrixId matrix, uint32_t vocabulary) {
  program_.vocabulary = vocabulary;
  program_.ops.emplace_back(HeadOp{x, norm, matrix});
}

}  // namespace fak::tensor
