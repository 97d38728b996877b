#include "model/families.h"

// Llama 1 to 3, Mistral, SmolLM, TinyLlama. Touvron et al. 2023, arXiv:2302.13971; grouped queries
// as in arXiv:2307.09288.
namespace fak::model {

void LlamaLayer(Recorder& record, uint32_t i) {
  const auto& [heads, feed_forward, window] = record.layer(i);
  const uint32_t width = record.shape().width;
  const uint32_t q_width = heads.q_heads * heads.dim;
  const uint32_t kv_width = heads.kv_heads * heads.dim;
  const tensor::Rows x = record.x;
  tensor::ProgramBuilder& p = record.program();

  const auto qkv =
      p.NormQkv(x, record.Norm("attn_norm", width),
                record.Stack({{"attn_q", q_width}, {"attn_k", kv_width}, {"attn_v", kv_width}},
                             width, Bias::kOptional),
                heads);
  p.RopeAppend(qkv, heads, record.rope, i);
  const auto attended = p.Attention(qkv, heads, i, AttentionScale(heads.dim), window);
  p.ProjectResidual(x, attended, record.Matrix("attn_output", width, q_width, Bias::kOptional));

  const auto gated =
      p.NormGateUp(x, record.Norm("ffn_norm", width),
                   record.Stack({{"ffn_gate", feed_forward}, {"ffn_up", feed_forward}}, width),
                   feed_forward, tensor::Activation::kSilu);
  p.ProjectResidual(x, gated, record.Matrix("ffn_down", width, feed_forward));
}

}  // namespace fak::model
