"""A second implementation of the numerics rules, written from docs/formats/numerics.md alone.

It makes the inputs of tools/numerics/vectors.cc, computes every case with the rules as that page
states them (second_rules.py: numpy arrays over many outputs at once, exact fractions for f64) and
must print the same digests. Where the two differ, the page, the headers or this file is wrong.

usage: second.py [GOLDEN FILE]
"""

import sys

import numpy as np

import second_rules as rules
from second_base import *  # noqa: F403

QUANTISED = ('Q4_0', 'Q4_1', 'Q5_0', 'Q5_1', 'Q8_0', 'IQ4_NL', 'Q2_K', 'Q3_K', 'Q4_K', 'Q5_K',
             'Q6_K', 'IQ4_XS')


def block_of(type_):
    return 256 if type_.endswith('K') or type_ == 'IQ4_XS' else 32


# ---- single values

def f16_to_f32(sink):
    sink.columns(out32(half(np.arange(65536))))


def bf16_to_f32(sink):
    sink.columns(out32(brain(np.arange(65536))))


def f32_to_f16(sink):
    item = np.arange(SWEEP)
    has_middle = (item & 0x7fff) < 0x7bff
    inner = item[has_middle]
    middle = bits32((half(inner & 0xffff) + half((inner & 0xffff) + 1)) * F(0.5))
    for step in (-1, 0, 1):
        sink.column(out_half(to_half(float32(middle + np.uint32(step & 0xffffffff)))), inner)
    sink.column(out_half(to_half(sweep(1))))


def f32_to_bf16(sink):
    item = np.arange(SWEEP, dtype=np.uint32)
    middle = ((item & np.uint32(0xffff)) << np.uint32(16)) | np.uint32(0x8000)
    sink.columns(*[out_brain(to_brain(float32(middle + np.uint32(step & 0xffffffff))))
                   for step in (-1, 0, 1)], out_brain(to_brain(sweep(2))))


def store_kv(sink):
    item = np.arange(SWEEP, dtype=np.uint32)
    low, sign = item & np.uint32(0xffff), (item >> np.uint32(16)) << np.uint32(31)
    columns = []
    for x in (float32(sign | (np.uint32(0x477f8000) + low)),
              float32(sign | np.uint32(0x7f7f0000) | low), sweep(3)):
        bits, clamped = rules.kv_half(x)
        columns += [out_half(bits), out_int(clamped)]
        bits, clamped = rules.kv_brain(x)
        columns += [out_brain(bits), out_int(clamped)]
    sink.columns(*columns)


def int_and_f64_to_float(sink):
    item = np.arange(4096, dtype=U)
    u = draw(4, item)
    exponent = (U(870) + item % U(300)) << U(52)
    doubles = ((u & U(0x800fffffffffffff)) | exponent).view(np.float64)
    sink.columns(out32((u >> U(32)).astype(np.uint32).view(np.int32).astype(F)),
                 (u >> (item % U(40))).astype(np.float64).view(U), out32(doubles.astype(F)))


def non_finite(sink):
    sink.columns(out_int(~np.isfinite(sweep(5))))


def functions(function):
    def case(sink):
        near = ordinary(draw(7, np.arange(SWEEP))) * F(32)
        sink.columns(out32(function(sweep(6))), out32(function(near)))
    return case


def function_edges(sink):
    for item in range(48):
        edge = bits32(F((125, 128, 86.5, 88.72, 0.625, 0.5, 0, 200)[item // 6]))
        bits = int(edge) + item // 2 % 3
        x = float32([(max(bits - 1, 0)) ^ (0x80000000 if item % 2 else 0)])
        results = [rules.exp2(x), rules.exp(x), rules.silu(x), rules.gelu(x), rules.tanh(x),
                   F(50) * rules.tanh(x * (F(1) / F(50))),
                   rules.polynomial(np.atleast_1d(ordinary(draw(9, item)) * F(64)))]
        sink.row(item, out32(np.concatenate(results)))


def functions_f64(sink):
    for item in range(1024):
        u = int(draw(8, item))
        exponent = u % 2046 + 1 if item % 4 == 0 else 1019 + u % 8
        y = float((u - (1 << 64) if u >> 63 else u) >> 12)
        angle = y * (2.0**-48 if item % 2 == 0 else 2.0**-22)
        sink.row(item, out64([rules.ln(float64((exponent << 52) | (u >> 12))),
                              rules.exp64(y * 2.0**-42),
                              rules.pow64(1e4 + item, y * 2.0**-51), *rules.sin_cos(angle)]))


# ---- rows

def by_length(kinds, stream, lengths=LENGTHS):
    """Items in order: (first item, x [kinds, n])"""
    for i, n in enumerate(lengths):
        first = i * len(kinds)
        yield first, np.stack([values(kind, stream + first + j, n) for j, kind in enumerate(kinds)])


def tree16(sink):
    for item in range(9 * 64):
        sink.row(item, out32(rules.tree(values(item % 9, 100 + item, 16))))


def lane_sum(sink):
    for first, x in by_length(KINDS, 1000):
        for j, results in enumerate(zip(rules.lane_sum(x), rules.lane_sum(x, True),
                                        rules.sum_of_squares(x))):
            sink.row(first + j, out32(np.array(results)))


def rms_norm(sink):
    for first, x in by_length(KINDS, 2000):
        for j, row in enumerate(x):
            item = first + j
            w = values(ORDINARY, 3000 + item, len(row))
            sink.row(item, out32(rules.rms_norm(row, w, (1e-5, 1e-6, 0.0)[item % 3])))


def quantise(block):
    def case(sink):
        for first, x in by_length(KINDS, 4000, LENGTHS * 2):
            q, scales = rules.quantise(x, block)
            for j in range(len(x)):
                sink.row(first + j, out_int(q[j]))
                sink.row(first + j, out32(scales[j]))
    return case


def quantise_ties(sink):
    for item in range(512):
        u = draw(5000 + item, np.arange(32))
        amax = F(1) + ordinary(u[0]) * F(0.125)
        middle = amax * ((U(2) * (u % U(127)) + U(1)).astype(F) / F(254))
        x = float32(bits32(middle) + ((u >> U(8)) % U(3)).astype(np.uint32) - np.uint32(1))
        x[0] = amax
        q, scales = rules.quantise(x, 32)
        sink.row(item, out32(scales))
        sink.row(item, out_int(q))


# ---- weights

def product(type_):
    def case(sink):
        block = block_of(type_)
        kinds = (ORDINARY, MIXED, TINY, HUGE, ONES, ANY_BITS)
        for i, n in enumerate((256, 512, 1792) if block == 256 else (32, 288, 576)):
            for variant in VARIANTS:
                items = np.arange(6) + 36 * i + 6 * variant
                x = np.stack([values(kind, 30000 + int(item), n)
                              for kind, item in zip(kinds, items)])
                raw = weights(type_, variant, 20000 + items, n // block)
                sink.column(out32(rules.product(type_, raw, x)), items)
                q = rules.quantise(x, block)[0][:, :block]
                if block == 256:
                    sums, minimum = rules.integers256(type_, rules.unpack256(type_, raw[:, 0]), q)
                    columns = [*sums.T, minimum]
                else:
                    w = rules.unpack32(type_, raw[:, 0])[2]
                    columns = [(w * q).sum(-1), q.sum(-1)]
                for column in columns:
                    sink.column(out_int(column), items)
    return case


def embedding(type_):
    def case(sink):
        for item in range(12):
            raw = weights(type_, item % 6, 40000 + item, 512 // block_of(type_))
            sink.row(item, out32(rules.embedding(type_, raw)))
            sink.row(item, out32(np.sqrt(F(512 + item))))
    return case


def float_product(type_):
    convert = {'F32': lambda w: w, 'F16': lambda w: half(to_half(w)),
               'BF16': lambda w: brain(to_brain(w))}[type_]

    def case(sink):
        for first, w in by_length(KINDS, 50000):
            items = first + np.arange(len(w))
            x = np.stack([values(ORDINARY if item % 5 else MIXED, 60000 + int(item), w.shape[1])
                          for item in items])
            y = rules.float_product(convert(w), x)
            sink.column(out32(x[:, 0] + (y + w[:, 0])), items)
    return case


# ---- positions, attention, experts

ROPE = [{'dims': 64, 'base': 1e4, 'factor': 1.0},
        {'dims': 128, 'base': 1e6, 'factor': 1.0},
        {'dims': 80, 'base': 5e5, 'factor': 8.0},
        {'dims': 64, 'base': 5e5, 'factor': 4.0,
         'yarn': {'context': 32768.0, 'fast': 32.0, 'slow': 1.0, 'ext': 1.0, 'attention': 1.0}},
        {'dims': 64, 'base': 5e5, 'factor': 4.0,
         'yarn': {'context': 4096.0, 'fast': 16.0, 'slow': 2.0, 'ext': 0.5, 'attention': 0.875}},
        {'dims': 64, 'base': 5e5, 'factor': 1.0}]


def rope_table(sink):
    for set_, rope in enumerate(ROPE):
        magnitude = rules.rope_magnitude(rope)
        frequencies = [rules.rope_frequency(rope, i, 1.0 + 0.25 * i if set_ == 5 else 1.0)
                       for i in range(rope['dims'] // 2)]
        for j, position in enumerate((0, 1, 7, 255, 4096, 1000003)):
            item = set_ + 6 * j
            sink.row(item, out64(magnitude))
            for frequency in frequencies:
                sink.row(item, out64(frequency))
                sink.row(item, out32(np.array(rules.rope_entry(position, frequency, magnitude))))


def rotate(sink):
    for item in range(36):
        head = values(item % 9, 9000 + item, 80)
        pair = 2 * np.arange(40)
        cos = value(ORDINARY, 9500 + item, pair) * F(0.25)
        sin = value(MIXED, 9500 + item, pair + 1) * F(0.25)
        adjacent = item // 9 % 2 != 0
        dims = 64 if item // 18 else 80
        n = dims // 2
        sink.row(item, out32(rules.rotate(head, dims, adjacent, cos[:n], sin[:n])))


def attention(sink):
    kinds = (ORDINARY, MIXED, DENORMAL, HUGE, NEGATIVE_ZERO)
    stored = (lambda x: half(rules.kv_half(x)[0]), lambda x: brain(rules.kv_brain(x)[0]),
              lambda x: x)
    for item in range(48):
        dim = (64, 80, 128, 16)[item // 12]
        end = LENGTHS[item % 12]
        first = end // 3 if item % 3 == 1 else 0
        index = (np.arange(first, end)[:, None] << 10) + np.arange(dim)
        stream = 70000 + 4 * item
        keys = stored[item % 3](value(kinds[item % 4], stream, index))
        vals = stored[item % 3](value(kinds[item % 5], stream + 1, index))
        q = values(SMALL if item % 4 == 3 else ORDINARY, stream + 2, dim)
        q = q if item % 2 else q * F(0.125)
        scale = rules.root_scale(dim)
        cap = F(30 + item) if item % 4 == 2 else None
        sink.row(item, out32(np.array([scale / cap, cap * rules.LOG2E] if cap else
                                      [F(0), scale * rules.LOG2E])))
        sink.row(item, out32(rules.attention(q, keys, vals, first, scale, cap)))


def router(sink):
    for item in range(64):
        n = (8, 60, 128, 256)[item % 4]
        logits = values(MIXED, 80000 + item, n)
        if item % 2 == 0:
            logits = (draw(80100, 256 * item + np.arange(n)) % U(9)).astype(F) - F(4)
        scale = 1.0 if item % 5 else 2.5
        ids, w = rules.route(logits, 2 << (item // 4 % 3), item % 3 != 0, scale)
        total = F(0)
        for i, weight in zip(ids, w):
            sink.row(item, out_int(i))
            sink.row(item, out32(weight))
            total = fma(weight, value(MIXED, 80200, i), total)
        sink.row(item, out32(total))
        sink.row(item, out_int(rules.ranked(logits)[0]))


# ---- sampling

def random(sink):
    for i in range(4096):
        bits = rules.sample_bits(int(draw(81000, i)), i % 5, int(draw(81001, i)) >> (i % 60))
        total = int(draw(81002, i)) >> (3 + i % 50)
        p = (bits >> 40) * 2.0**-24
        sink.row(i, np.array([bits, bits * total >> 64, rules.mass_target(p, total),
                              int(p * 2.0**40)], dtype=U))


def sampling(sink):
    for item in range(32):
        stream = 82000 + item
        logits = values(MIXED if item % 4 == 0 else ORDINARY, stream, 1000)
        n = (draw(stream + 100, np.arange(1000)) % U(4)).astype(np.int64)
        logits = rules.penalise(logits, 1.25, 0.1, 0.3, n) / F(0.7)
        sink.row(item, out32(logits))
        top = logits.max()
        w = rules.sample_weights(logits, top)
        total = int(w.sum(dtype=U))
        lse = rules.log_sum_exp(top, total)
        sink.row(item, np.array([total], dtype=U))
        sink.row(item, out64(lse))
        logprobs = (logits.astype(np.float64) - lse).astype(F)
        sink.row(item, np.stack([w, out32(logprobs)], -1).reshape(-1))
        chain = 0.0
        for weight, logprob in zip(w, logprobs):
            if weight:
                chain = fma64(float(weight), -float(logprob), chain)
        entropy = chain / float(total)
        sink.row(item, out64([entropy, abs(-float(logprobs[item]) - entropy)]))


# ---- a small model

def norm_weights(stream, n):
    return F(1) + values(ORDINARY, stream, n) * F(0.0625)


class Model:
    TYPES = ('Q4_K', 'Q6_K', 'Q4_1', 'Q8_0')
    FIRST = 252

    def __init__(self, item):
        self.item = item
        self.kv = [([], []), ([], [])]  # of each layer: K and V rows, f16
        self.matrices = {}

    def matmul(self, type_, stream, rows, x):
        name = self.TYPES[type_]
        key = (name, stream)
        if key not in self.matrices:
            blocks = len(x) // block_of(name)
            self.matrices[key] = weights(name, MODEL, stream + np.arange(rows), blocks)
        return rules.product(name, self.matrices[key], np.broadcast_to(x, (1, len(x))))

    def layer(self, layer, step, x):
        stream = 100000 + 10000 * layer
        first = 0 if (layer + self.item // 2) % 2 == 0 else 2
        h = rules.rms_norm(x, norm_weights(stream, 256), 1e-5)
        qkv = self.matmul(first, stream + 1000, 512, h).reshape(8, 64)
        position = self.FIRST + step
        table = np.array([rules.rope_entry(position, rules.rope_frequency(ROPE[0], i, 1.0), 1.0)
                          for i in range(32)], F)
        qk = qkv[:6]
        if layer == 1:
            qk = rules.rms_norm(qk, norm_weights(stream + 7000, 64), 1e-5)
        qk = rules.rotate(qk, 64, layer == 0, table[:, 0], table[:, 1])
        keys, vals = self.kv[layer]
        keys.append(rules.kv_half(qk[4:])[0])
        vals.append(rules.kv_half(qkv[6:])[0])
        k, v = half(np.array(keys)), half(np.array(vals))
        o = [rules.attention(qk[n], k[:, n // 2], v[:, n // 2], self.FIRST, rules.root_scale(64))
             for n in range(4)]
        x = x + self.matmul(first + 1, stream + 2000, 256, np.concatenate(o))
        h = rules.rms_norm(x, norm_weights(stream + 3000, 256), 1e-5)
        gate = self.matmul(first, stream + 4000, 512, h)
        up = self.matmul(first, stream + 5000, 512, h)
        act = (rules.silu if layer == 0 else rules.gelu)(gate) * up
        return x + self.matmul(first + 1, stream + 6000, 256, act)

    def run(self, sink):
        token = int(draw(90000, self.item)) % 128
        for step in range(8):
            rows = [weights('Q4_1', MODEL, 91000 + 64 * token + i, 1) for i in range(8)]
            x = rules.embedding('Q4_1', np.concatenate(rows)) * np.sqrt(F(256))
            for layer in range(2):
                x = self.layer(layer, step, x)
            x = rules.rms_norm(x, norm_weights(99000, 256), 1e-5)
            logits = self.matmul(1, 92000, 128, x)
            sink.row(self.item, out32(logits))
            token = rules.ranked(logits)[0]
        for keys, vals in self.kv:
            both = np.stack([np.array(keys).reshape(-1), np.array(vals).reshape(-1)], -1)
            sink.row(self.item, out_half(both.reshape(-1)))


def small_model(sink):
    for item in range(4):
        Model(item).run(sink)


CASES = [
    ('f16_to_f32', 65536, f16_to_f32), ('bf16_to_f32', 65536, bf16_to_f32),
    ('f32_to_f16', SWEEP, f32_to_f16), ('f32_to_bf16', SWEEP, f32_to_bf16),
    ('store_kv', SWEEP, store_kv), ('int_and_f64_to_float', 4096, int_and_f64_to_float),
    ('non_finite', SWEEP, non_finite), ('tree16', 576, tree16), ('lane_sum', 108, lane_sum),
    ('rms_norm', 108, rms_norm), ('quantise_32', 216, quantise(32)),
    ('quantise_256', 216, quantise(256)), ('quantise_ties', 512, quantise_ties),
    *[('product.' + t, 108, product(t)) for t in QUANTISED],
    *[('product.' + t, 108, float_product(t)) for t in ('F32', 'F16', 'BF16')],
    ('exp2', SWEEP, functions(rules.exp2)), ('exp', SWEEP, functions(rules.exp)),
    ('silu_gate', SWEEP, functions(lambda x: rules.silu(x) * F(0.7))),
    ('gelu_gate', SWEEP, functions(lambda x: rules.gelu(x) * F(0.7))),
    ('tanh', SWEEP, functions(lambda x: rules.tanh(x * F(0.0625)))),
    ('soft_cap', SWEEP, functions(lambda x: F(30) * rules.tanh(x * (F(1) / F(30))))),
    ('function_edges', 48, function_edges), ('functions_f64', 1024, functions_f64),
    ('rope_table', 36, rope_table), ('rotate', 36, rotate),
    ('attention', 48, attention),
    *[('embedding.' + t, 12, embedding(t)) for t in QUANTISED],
    ('router', 64, router), ('random', 4096, random), ('sampling', 32, sampling),
    ('small_model', 4, small_model),
]


def main():
    golden = open(sys.argv[1], encoding='utf-8').read().splitlines() if len(sys.argv) > 1 else None
    differing = 0 if golden is None or len(golden) == len(CASES) else 1
    for i, (name, items, case) in enumerate(CASES):
        sink = Sink()
        with np.errstate(all='ignore'):
            case(sink)
        line = f'{name} {items} {sink.sum:016x}'
        same = golden is None or (i < len(golden) and golden[i] == line)
        differing += not same
        print(line + ('' if same else '  DIFFERS'))
    if golden is not None:
        print(f'{len(CASES)} digests, {differing} differing')
    return 1 if differing else 0


if __name__ == '__main__':
    sys.exit(main())
