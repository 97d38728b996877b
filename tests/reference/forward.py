"""The five architectures in float64, each from its definition: Llama (arXiv:2302.13971, 2307.09288), Qwen 2
(2407.10671), Qwen 3 dense and with experts (2505.09388), Gemma 3 (2503.19786); rotary positions 2104.09864,
stretched as in YaRN (2309.00071). Nothing here is fast: every position of a prompt is computed at once."""
import dataclasses
import math

import numpy as np


@dataclasses.dataclass
class Rope:
    base: float
    dims: int
    adjacent: bool  # pairs (0, 1), (2, 3)...; else (0, dims/2), (1, dims/2 + 1)...
    kind: str = "none"
    factor: float = 1.0
    original: int = 0  # context, in positions
    divisors: np.ndarray | None = None  # of each pair's frequency

    def frequencies(self):
        """Angle of one position, by pair; and what cos and sin are multiplied by."""
        plain = self.base ** (-np.arange(0, self.dims, 2, dtype=np.float64) / self.dims)
        if self.divisors is not None:
            plain = plain / self.divisors
        if self.kind == "linear":
            return plain / self.factor, 1.0
        if self.kind != "yarn":
            return plain, 1.0

        def pair_that_turns(times):
            return self.dims * math.log(self.original / (times * 2 * math.pi)) / (2 * math.log(self.base))

        low = max(math.floor(pair_that_turns(32)), 0)
        high = min(math.ceil(pair_that_turns(1)), self.dims - 1)
        kept = 1 - np.clip((np.arange(self.dims // 2) - low) / max(high - low, 0.001), 0, 1)
        return plain * kept + plain / self.factor * (1 - kept), 0.1 * math.log(self.factor) + 1

    def turn(self, x):
        """x: position, head, dim."""
        frequency, magnitude = self.frequencies()
        angle = np.arange(len(x))[:, None, None] * frequency
        cos, sin = magnitude * np.cos(angle), magnitude * np.sin(angle)
        first, second = ((slice(0, self.dims, 2), slice(1, self.dims, 2)) if self.adjacent else
                         (slice(0, self.dims // 2), slice(self.dims // 2, self.dims)))
        turned = x.copy()
        turned[..., first] = x[..., first] * cos - x[..., second] * sin
        turned[..., second] = x[..., first] * sin + x[..., second] * cos
        return turned


@dataclasses.dataclass
class Model:
    family: str
    layers: int
    heads: int
    kv_heads: int
    dim: int  # of a head
    eps: float
    scale: float  # of attention scores
    embedding_scale: float
    rope: Rope
    weights: dict
    local_rope: Rope | None = None
    window: int = 0  # positions that a local layer's row sees, itself included
    global_every: int = 6  # the last layer of so many is global
    experts_used: int = 0
    renormalised: bool = True  # weights of the chosen experts sum to 1
    head_norms: bool = False

    def __call__(self, tokens):
        """Logits of every position."""
        w = self.weights
        x = w["token_embd.weight"][tokens] * self.embedding_scale
        for i in range(self.layers):
            def part(name):
                return w.get(f"blk.{i}.{name}")

            x = x + self.after(self.attention(self.norm(x, part("attn_norm.weight")), i, part),
                               part("post_attention_norm.weight"))
            h = self.norm(x, part("ffn_norm.weight"))
            inner = self.experts(h, part) if self.experts_used else self.gated(
                h, part("ffn_gate.weight"), part("ffn_up.weight"), part("ffn_down.weight"))
            x = x + self.after(inner, part("post_ffw_norm.weight"))
        head = w.get("output.weight", w["token_embd.weight"])
        return self.norm(x, w["output_norm.weight"]) @ head.T

    def norm(self, x, weight):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.eps) * weight

    def after(self, x, maybe_weight):
        return x if maybe_weight is None else self.norm(x, maybe_weight)

    def attention(self, h, i, part):
        def projected(name, heads):
            y = h @ part(f"attn_{name}.weight").T
            bias = part(f"attn_{name}.bias")
            y = y if bias is None else y + bias
            return y.reshape(len(h), heads, self.dim)

        q, k, v = (projected(name, heads) for name, heads in
                   (("q", self.heads), ("k", self.kv_heads), ("v", self.kv_heads)))
        if self.head_norms:
            q, k = self.norm(q, part("attn_q_norm.weight")), self.norm(k, part("attn_k_norm.weight"))
        local = self.window > 0 and (i + 1) % self.global_every != 0
        rope = self.local_rope if local else self.rope
        group = self.heads // self.kv_heads
        q, k, v = rope.turn(q), np.repeat(rope.turn(k), group, axis=1), np.repeat(v, group, axis=1)
        scores = np.einsum("qhd,khd->hqk", q, k) * self.scale
        back = np.arange(len(h))[:, None] - np.arange(len(h))[None, :]
        seen = (back >= 0) & (back < self.window) if local else back >= 0
        scores = np.where(seen, scores, -np.inf)
        p = np.exp(scores - scores.max(axis=-1, keepdims=True))
        p = p / p.sum(axis=-1, keepdims=True)
        mixed = np.einsum("hqk,khd->qhd", p, v).reshape(len(h), -1)
        return mixed @ part("attn_output.weight").T

    def activation(self, x):
        if self.family == "gemma3":  # GELU, tanh form
            return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))
        return x / (1 + np.exp(-x))

    def gated(self, h, gate, up, down):
        return (self.activation(h @ gate.T) * (h @ up.T)) @ down.T

    def experts(self, h, part):
        gate, up, down = (part(f"ffn_{name}_exps.weight") for name in ("gate", "up", "down"))
        score = h @ part("ffn_gate_inp.weight").T
        p = np.exp(score - score.max(axis=-1, keepdims=True))
        p = p / p.sum(axis=-1, keepdims=True)
        out = np.zeros_like(h)
        for row, chosen in enumerate(np.argsort(-p, axis=-1)[:, :self.experts_used]):
            weight = p[row, chosen]
            weight = weight / weight.sum() if self.renormalised else weight
            for share, e in zip(weight, chosen):
                out[row] += share * self.gated(h[row], gate[e], up[e], down[e])
        return out


def build(metadata, tensors):
    family = metadata["general.architecture"].decode()

    def key(name, *default):
        return metadata.get(f"{family}.{name}", *default)

    width, heads = key("embedding_length"), key("attention.head_count")
    dim = key("attention.key_length", width // heads)
    gemma = family == "gemma3"
    layers = key("block_count")
    # Of Gemma 3's sizes the 27B alone, the one with 62 layers, scales by query_pre_attn_scalar = width / heads
    # (gemma_pytorch, config.py get_config_for_27b_v3) and not by the width of a head.
    scaled_by = width // heads if gemma and layers == 62 else dim
    rope = Rope(base=key("rope.freq_base"), dims=key("rope.dimension_count", dim), adjacent=family == "llama",
                kind=key("rope.scaling.type", b"none").decode(), factor=key("rope.scaling.factor", 1.0),
                original=key("rope.scaling.original_context_length", 0),
                divisors=tensors.get("rope_freqs.weight"))
    return Model(family=family, layers=layers, heads=heads, kv_heads=key("attention.head_count_kv"),
                 dim=dim, eps=key("attention.layer_norm_rms_epsilon"), scale=1 / math.sqrt(scaled_by),
                 embedding_scale=math.sqrt(width) if gemma else 1.0, rope=rope, weights=tensors,
                 local_rope=Rope(base=10000.0, dims=rope.dims, adjacent=False) if gemma else None,
                 window=key("attention.sliding_window", 0) if gemma else 0,
                 experts_used=key("expert_used_count", 0),
                 head_norms=family in ("qwen3", "qwen3moe", "gemma3"))
