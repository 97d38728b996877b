"""Unpacks a GGUF of the llama architecture for engines that read Hugging Face's folders.

    unpack_gguf.py FILE.gguf FOLDER

Writes config.json, tokenizer.json, tokenizer_config.json, generation_config.json and model.safetensors with
float32 weights. Takes gguf, safetensors, tokenizers and numpy; no torch.
"""

import json
import sys
from pathlib import Path

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
LAYER_NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}
CONTROL, USER_DEFINED = 3, 4


def unrotated(weights, heads):
    """GGUF has the rows of q and k in pairs that are rotated together; Hugging Face has halves."""
    rows = weights.shape[0]
    return weights.reshape(heads, rows // heads // 2, 2, -1).swapaxes(1, 2).reshape(weights.shape)


def weights_of(reader, heads, kv_heads):
    found = {}
    for tensor in reader.tensors:
        part = tensor.name.split(".")
        weights = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if part[0] == "blk":
            if part[2] in ("attn_q", "attn_k"):
                weights = unrotated(weights, heads if part[2] == "attn_q" else kv_heads)
            name = f"model.layers.{part[1]}.{LAYER_NAMES[part[2]]}.{part[3]}"
        elif part[0] in NAMES:
            name = f"{NAMES[part[0]]}.{part[1]}"
        else:
            continue
        found[name] = np.ascontiguousarray(weights)
    return found


def tokenizer_of(meta):
    tokens, types = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.token_type"]
    if meta["tokenizer.ggml.model"] != "gpt2" or meta["tokenizer.ggml.pre"] != "smollm":
        sys.exit(f"a tokenizer like {meta['tokenizer.ggml.pre']} isn't known here")
    merges = [tuple(merge.split(" ")) for merge in meta["tokenizer.ggml.merges"]]
    made = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    made.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    made.decoder = decoders.ByteLevel()
    for kind, special in ((CONTROL, True), (USER_DEFINED, False)):
        added = [AddedToken(t, special=special, normalized=False) for t, its in zip(tokens, types) if its == kind]
        (made.add_special_tokens if special else made.add_tokens)(added)
    return made


def main(file, folder):
    reader = GGUFReader(file)
    meta = {name: field.contents() for name, field in reader.fields.items()}
    if meta["general.architecture"] != "llama":
        sys.exit(f"only llama, not {meta['general.architecture']}")

    def of(name, otherwise=None):
        return meta.get(f"llama.{name}", otherwise)

    heads = of("attention.head_count")
    kv_heads = of("attention.head_count_kv", heads)
    weights = weights_of(reader, heads, kv_heads)
    tokens = meta["tokenizer.ggml.tokens"]
    bos, eos = meta["tokenizer.ggml.bos_token_id"], meta["tokenizer.ggml.eos_token_id"]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer_of(meta).save(str(folder / "tokenizer.json"))
    documents = {
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": tokens[bos], "eos_token": tokens[eos],
            "clean_up_tokenization_spaces": False, "model_max_length": of("context_length"),
            "chat_template": meta.get("tokenizer.chat_template")},
        "generation_config.json": {"bos_token_id": bos, "eos_token_id": eos},
        # The last one: who finds it finds them all.
        "config.json": {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": of("embedding_length"),
            "num_hidden_layers": of("block_count"), "intermediate_size": of("feed_forward_length"),
            "num_attention_heads": heads, "num_key_value_heads": kv_heads,
            "rms_norm_eps": float(of("attention.layer_norm_rms_epsilon")),
            "rope_theta": float(of("rope.freq_base", 10000.0)), "max_position_embeddings": of("context_length"),
            "vocab_size": len(tokens), "hidden_act": "silu", "tie_word_embeddings": "lm_head.weight" not in weights,
            "attention_bias": False, "mlp_bias": False, "bos_token_id": bos, "eos_token_id": eos,
            "torch_dtype": "float32"},
    }
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
