#include "model/families.h"

// Gemma 3, text part. arXiv:2503.19786: five layers with a sliding window and their own RoPE base
// to one that sees everything; norms before and after both halves; RMSNorm over each head of q and
// k. Norm weights in the file already have their 1 added.
namespace fak::model {
namespace {

// What scores are divided by the root of: the width of a head, but in the 27B, width / heads (168;
// its heads have 128). That is query_pre_attn_scalar of gemma/config.py in
// github.com/google/gemma_pytorch. Files have no key for it: llama.cpp (llama-model.cpp,
// LLM_TYPE_27B) tells the 27B by its layers, which no other size has as many of, and so do we.
uint32_t ScaledBy(const ModelShape& shape, const tensor::HeadShape& heads) {
  constexpr size_t kLayersOf27B = 62;
  return shape.layers.size() == kLayersOf27B ? shape.width / heads.q_heads : heads.dim;
}

}  // namespace

void Gemma3Layer(Recorder& record, uint32_t i) {
  const auto& [heads, feed_forward, window] = record.layer(i);
  const uint32_t width = record.shape().width;
  const uint32_t q_width = heads.q_heads * heads.dim;
  const uint32_t kv_width = heads.kv_heads * heads.dim;
  const tensor::Rows x = record.x;
  tensor::ProgramBuilder& p = record.program();

  const auto qkv = p.NormQkv(
      x, record.Norm("attn_norm", width),
      record.Stack({{"attn_q", q_width}, {"attn_k", kv_width}, {"attn_v", kv_width}}, width),
      heads);
  p.RopeAppend(qkv, heads, window == 0 ? record.rope : record.rope_local, i,
               record.Norm("attn_q_norm", heads.dim), record.Norm("attn_k_norm", heads.dim));
  const auto attended =
      p.Attention(qkv, heads, i, AttentionScale(ScaledBy(record.shape(), heads)), window);
  p.ProjectResidual(x, attended, record.Matrix("attn_output", width, q_width),
                    record.Norm("post_attention_norm", width));

  const auto gated =
      p.NormGateUp(x, record.Norm("ffn_norm", width),
                   record.Stack({{"ffn_gate", feed_forward}, {"ffn_up", feed_forward}}, width),
                   feed_forward, tensor::Activation::kGeluTanh);
  p.ProjectResidual(x, gated, record.Matrix("ffn_down", width, feed_forward),
                    record.Norm("post_ffw_norm", width));
}

}  // namespace fak::model
