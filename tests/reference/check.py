"""Logits of a family's tiny models against a forward pass in float64 (forward.py), of weights stored in F32 and
of quantised ones; then the reference is changed in small ways (a RoPE base, a norm, a window, the router), each
of which the comparison must notice.

usage: check.py FAMILY FAK_TINY_MODEL DUMP_LOGITS FOLDER"""
import copy
import os
import subprocess
import sys
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # matrices are small, neighbours busy
import numpy as np

import forward
import gguf

# F32 weights: the largest difference of any logit, in units of the logits' root mean square. F32 sums of a few
# hundred terms in three to seven layers measure 5e-6 to 8e-6.
F32_BOUND = 2e-5
# Quantised weights, whose products take activations in eight bits: the root mean square of a position's
# differences, in the same units, in the middle one of the positions. Not the worst: a router may choose another
# expert by so little.
QUANTISED_BOUND = 0.05
QUANTISED = {"llama": "Q4_0", "qwen2": "Q5_1", "qwen3": "Q4_K", "qwen3moe": "Q8_0", "gemma3": "Q6_K"}
TOKENS = 72  # three windows of the tiny gemma

failed = False


def report(good, what):
    global failed
    failed = failed or not good
    print(("ok    " if good else "FAILED"), what)


def prompt(vocabulary):
    """Ids below the control tokens' at the end, none of them special to anyone: a fixed mixture."""
    return [(37 * i * i + 11 * i + 5) % (vocabulary - 8) for i in range(TOKENS)]


def computed(model, vocabulary):
    out = folder / "logits.f32"
    subprocess.run([dump, model, out, "f32", *map(str, prompt(vocabulary))], check=True)
    return np.fromfile(out, dtype="<f4").reshape(TOKENS, vocabulary).astype(np.float64)


def largest(actual, expected):
    return np.abs(actual - expected).max() / np.sqrt(np.mean(expected ** 2))


def typical(actual, expected):
    return np.median(np.sqrt(np.mean((actual - expected) ** 2, axis=1))) / np.sqrt(np.mean(expected ** 2))


def changes(model):
    """Small lies about a model, by name."""
    def rope(which, **what):
        return lambda m: setattr(m, which, copy.copy(getattr(m, which))) or vars(getattr(m, which)).update(what)

    def weight(name, factor):
        return lambda m: m.weights.update({name: m.weights[name] * factor})

    def field(name, value):
        return lambda m: setattr(m, name, value)

    yield "RoPE of other pairs", rope("rope", adjacent=not model.rope.adjacent)
    yield "RoPE base 1 % larger", rope("rope", base=model.rope.base * 1.01)
    if model.rope.kind != "none":
        yield "RoPE not stretched", rope("rope", kind="none")
        return
    if model.rope.divisors is not None:
        yield "RoPE frequencies not divided", rope("rope", divisors=None)
        return
    yield "RoPE of fewer dims", rope("rope", dims=model.rope.dims // 2)
    yield "eps of norms ten times", field("eps", model.eps * 10)
    yield "attention scale 0.1 % larger", field("scale", model.scale * 1.001)
    yield "one norm's weights 0.1 % larger", weight("blk.1.ffn_norm.weight", 1.001)
    if model.head_norms:
        yield "no norms of heads", field("head_norms", False)
    if "blk.0.attn_q.bias" in model.weights:
        yield "no bias of one layer's queries", weight("blk.0.attn_q.bias", 0)
    if model.family == "gemma3":
        yield "a window one longer", field("window", model.window + 1)
        yield "a window one shorter", field("window", model.window - 1)
        yield "local layers with the global RoPE", field("local_rope", model.rope)
        yield "every fifth layer global", field("global_every", 5)
        yield "embeddings 0.1 % larger", field("embedding_scale", model.embedding_scale * 1.001)
        yield "one post norm's weights 0.1 % larger", weight("blk.2.post_ffw_norm.weight", 1.001)
    if model.experts_used:
        yield "weights of experts not renormalised", field("renormalised", False)
        yield "one expert more", field("experts_used", model.experts_used + 1)
        yield "one layer's router 0.1 % larger", weight("blk.1.ffn_gate_inp.weight", 1.001)


def check(family, kind, *options):
    path = folder / f"{family}-{kind}.gguf"
    subprocess.run([make, family, kind, path, *options], check=True)
    model = forward.build(*gguf.read(path))
    vocabulary = len(model.weights["token_embd.weight"])
    actual = computed(path, vocabulary)
    tokens = prompt(vocabulary)
    measure, bound = (largest, F32_BOUND) if kind == "F32" else (typical, QUANTISED_BOUND)
    found = measure(actual, model(tokens))
    report(found <= bound, f"{' '.join((family, kind, *options))}: differs by {found:.2g}, {bound:g} allowed")
    for name, change in changes(model) if kind == "F32" else [next(changes(model))]:
        changed = copy.copy(model)
        changed.weights = dict(model.weights)
        change(changed)
        found = measure(actual, changed(tokens))
        report(found > bound, f"  {name}: differs by {found:.2g}, which must be noticed")


family, make, dump, folder = sys.argv[1:]
folder = Path(folder)
folder.mkdir(parents=True, exist_ok=True)
check(family, "F32")
if family == "llama":
    for scaling in ("linear", "yarn", "llama3"):
        check(family, "F32", "--rope", scaling)
if family == "gemma3":
    check(family, "F32", "--deep")
check(family, QUANTISED[family])
sys.exit(failed)
