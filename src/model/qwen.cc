#include "model/families.h"

// Qwen 2 and 2.5 (arXiv:2407.10671), Qwen 3 dense and with experts (arXiv:2505.09388).
namespace fak::model {
namespace {

using tensor::Activation;
using tensor::ProgramBuilder;
using tensor::Rows;

// x += O · attention(norm(x)), with RMSNorm over each head of q and k where `head_norms`.
void Attend(Recorder& record, uint32_t i, Bias bias, bool head_norms) {
  const tensor::HeadShape heads = record.layer(i).heads;
  const uint32_t width = record.shape().width;
  const uint32_t q_width = heads.q_heads * heads.dim;
  const uint32_t kv_width = heads.kv_heads * heads.dim;
  ProgramBuilder& p = record.program();

  const Rows qkv = p.NormQkv(
      record.x, record.Norm("attn_norm", width),
      record.Stack({{"attn_q", q_width}, {"attn_k", kv_width}, {"attn_v", kv_width}}, width, bias),
      heads);
  const auto q_norm = head_norms ? record.Norm("attn_q_norm", heads.dim) : tensor::Norm{};
  const auto k_norm = head_norms ? record.Norm("attn_k_norm", heads.dim) : tensor::Norm{};
  p.RopeAppend(qkv, heads, record.rope, i, q_norm, k_norm);
  const Rows attended = p.Attention(qkv, heads, i, AttentionScale(heads.dim));
  p.ProjectResidual(record.x, attended, record.Matrix("attn_output", width, q_width));
}

// x += down · (silu(gate · h) · up · h), h = norm(x).
void FeedForward(Recorder& record, uint32_t i) {
  const uint32_t width = record.shape().width;
  const uint32_t inner = record.layer(i).feed_forward;
  ProgramBuilder& p = record.program();
  const Rows gated = p.NormGateUp(record.x, record.Norm("ffn_norm", width),
                                  record.Stack({{"ffn_gate", inner}, {"ffn_up", inner}}, width),
                                  inner, Activation::kSilu);
  p.ProjectResidual(record.x, gated, record.Matrix("ffn_down", width, inner));
}

}  // namespace

void Qwen2Layer(Recorder& record, uint32_t i) {
  Attend(record, i, Bias::kRequired, false);
  FeedForward(record, i);
}

void Qwen3Layer(Recorder& record, uint32_t i) {
  Attend(record, i, Bias::kNone, true);
  FeedForward(record, i);
}

void Qwen3MoeLayer(Recorder& record, uint32_t i) {
  const ModelShape& shape = record.shape();
  Attend(record, i, Bias::kNone, true);
  record.program().Moe(tensor::MoeOp{
      .x = record.x,
      .norm = record.Norm("ffn_norm", shape.width),
      .router = record.Matrix("ffn_gate_inp", shape.experts, shape.width),
      .experts = record.Experts("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"),
      .n_experts = shape.experts,
      .ff = shape.expert_feed_forward,
      .top_k = shape.experts_used,
  });
}

}  // namespace fak::model
