"""The rules of docs/formats/numerics.md, written from that page: see second.py."""

import numpy as np

from second_base import (F, bits32, bits64, float32, float64, fma, fma64, half, to_brain,
                         to_half)

MAGIC = F(12582912.0)
MAGIC64 = 6755399441055744.0


# ---- rule 1

def kv_half(x):
    x = np.asarray(x, F)
    clamped = np.isfinite(x) & (np.abs(x) > F(65504))
    return to_half(np.where(clamped, np.copysign(F(65504), x), x)), clamped


def kv_brain(x):
    x = np.asarray(x, F)
    rounded = to_brain(x)
    clamped = np.isfinite(x) & ((rounded & 0x7fff) == 0x7f80)
    return np.where(clamped, (rounded & 0x8000) | 0x7f7f, rounded).astype(np.uint16), clamped


# ---- rule 3

def tree(lanes):
    a = lanes[..., :8] + lanes[..., 8:]
    b = a[..., :4] + a[..., 4:]
    return (b[..., 0] + b[..., 2]) + (b[..., 1] + b[..., 3])


def lane_sum(x, squares=False):
    """Over the last axis."""
    x = np.asarray(x, F)
    lanes = np.zeros(x.shape[:-1] + (16,), F)
    for i in range(0, x.shape[-1], 16):
        part = x[..., i:i + 16]
        n = part.shape[-1]
        lanes[..., :n] = fma(part, part, lanes[..., :n]) if squares else lanes[..., :n] + part
    return tree(lanes)


def sum_of_squares(x):
    total = np.zeros(x.shape[:-1], F)
    for i in range(0, x.shape[-1], 512):
        total = total + lane_sum(x[..., i:i + 512], True)
    return total


def rms_norm(x, w, eps):
    r = F(1) / np.sqrt(sum_of_squares(x) / F(x.shape[-1]) + F(eps))
    return (x * r[..., None]) * w


# ---- rule 4

def quantise(x, block):
    """x [..., n] -> q [..., n], scales [..., blocks]"""
    n = x.shape[-1]
    q = np.zeros(x.shape, np.int64)
    scales = []
    for i in range(0, n, block):
        part = x[..., i:i + block]
        top = (bits32(part) & np.uint32(0x7fffffff)).max(axis=-1)
        usable = (top >= 0x0d800000) & (top < 0x7f800000)
        amax = np.where(usable, float32(top), F(1))
        low = bits32(fma(part, (F(127) / amax)[..., None], MAGIC)) & np.uint32(0xff)
        q[..., i:i + block] = np.where(usable[..., None], low.astype(np.uint8).view(np.int8), 0)
        scales.append(np.where(usable, amax / F(127), np.where(top < 0x0d800000, F(0), F(np.nan))))
    return q, np.stack(scales, axis=-1)


# ---- rule 5

CODE = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113])


def field(block, at):
    return half(block[..., at].astype(np.uint16) | (block[..., at + 1].astype(np.uint16) << 8))


def nibbles(qs):
    return np.concatenate([qs & 15, qs >> 4], axis=-1).astype(np.int64)


def bit_array(qh):
    return np.unpackbits(qh, axis=-1, bitorder='little').astype(np.int64)


def unpack32(type_, b):
    """-> d, m, w [..., 32]"""
    d = field(b, 0)
    m = field(b, 2) if type_ in ('Q4_1', 'Q5_1') else None
    if type_ == 'Q8_0':
        return d, m, b[..., 2:].view(np.int8).astype(np.int64)
    low = nibbles(b[..., -16:])
    if type_ == 'IQ4_NL':
        return d, m, CODE[low]
    if type_ in ('Q5_0', 'Q5_1'):
        low = low + 16 * bit_array(b[..., -20:-16])
    return d, m, low - {'Q4_0': 8, 'Q5_0': 16}.get(type_, 0)


def two_bits(qs):
    """[..., 64] bytes -> [..., 256] values of 2 bits: byte 32H + l holds Q = 0..3 of half H."""
    qs = qs.reshape(qs.shape[:-1] + (2, 1, 32))
    return ((qs >> np.array([0, 2, 4, 6], np.uint8)[:, None]) & 3).reshape(qs.shape[:-3] + (256,))


def halves(qs, width):
    """Bytes in runs of `width`: each run's low halves, then its high halves."""
    runs = qs.reshape(qs.shape[:-1] + (-1, width))
    return nibbles(runs).reshape(qs.shape[:-1] + (-1,))


def unpack256(type_, b):
    """-> d, dmin, s [..., 256], m [..., 256], w [..., 256]; dmin and m None where there is none"""
    if type_ == 'Q2_K':
        s, m = (b[..., :16] & 15).astype(np.int64), (b[..., :16] >> 4).astype(np.int64)
        w = two_bits(b[..., 16:80]).astype(np.int64)
        return field(b, 80), field(b, 82), s.repeat(16, -1), m.repeat(16, -1), w
    if type_ == 'Q3_K':
        sc = b[..., 96:108]
        high = (np.concatenate([sc[..., 8:] >> shift & 3 for shift in (0, 2, 4, 6)], -1))
        s = nibbles(sc[..., :8]) + 16 * high.astype(np.int64) - 32
        planes = bit_array(b[..., :32, None])  # [..., l, bit]
        w = two_bits(b[..., 32:96]).astype(np.int64) + 4 * np.swapaxes(planes, -1, -2).reshape(
            b.shape[:-1] + (256,)) - 4
        return field(b, 108), None, s.repeat(16, -1), None, w
    if type_ in ('Q4_K', 'Q5_K'):
        a = b[..., 4:16].astype(np.int64)
        s = np.concatenate([a[..., :4] & 63, (a[..., 8:] & 15) | ((a[..., :4] >> 6) << 4)], -1)
        m = np.concatenate([a[..., 4:8] & 63, (a[..., 8:] >> 4) | ((a[..., 4:8] >> 6) << 4)], -1)
        w = halves(b[..., -128:], 32)
        if type_ == 'Q5_K':
            planes = bit_array(b[..., 16:48, None])
            w = w + 16 * np.swapaxes(planes, -1, -2).reshape(b.shape[:-1] + (256,))
        return field(b, 0), field(b, 2), s.repeat(32, -1), m.repeat(32, -1), w
    if type_ == 'Q6_K':
        s = b[..., 192:208].view(np.int8).astype(np.int64)
        w = (halves(b[..., :128], 64) | (two_bits(b[..., 128:192]).astype(np.int64) << 4)) - 32
        return field(b, 208), None, s.repeat(16, -1), None, w
    assert type_ == 'IQ4_XS'
    high = b[..., 2].astype(np.int64) | (b[..., 3].astype(np.int64) << 8)
    low = np.stack([b[..., 4 + j // 2] >> (4 * (j % 2)) & 15 for j in range(8)], -1)
    low = low.astype(np.int64)
    s = low + 16 * np.stack([high >> (2 * j) & 3 for j in range(8)], -1) - 32
    return field(b, 0), None, s.repeat(32, -1), None, CODE[halves(b[..., 8:], 16)]


PARTS = {'Q4_K': 2, 'Q5_K': 4}


def integers256(type_, block, q):
    """-> [..., parts] sums and the minimum's sum (0 where there is none) of each block"""
    _, _, s, m, w = block
    products = s * w * q
    sums = products.reshape(products.shape[:-1] + (PARTS.get(type_, 1), -1)).sum(-1)
    return sums, np.zeros(products.shape[:-1], np.int64) if m is None else (m * q).sum(-1)


# ---- rules 6 and 7

def f(integers):
    return integers.astype(F)


def product(type_, raw, x):
    """raw [..., blocks, bytes], x [..., n] -> y [...]"""
    if type_.endswith('K') or type_ == 'IQ4_XS':
        q, scales = quantise(x, 256)
        block = unpack256(type_, raw)
        sums, minimum = integers256(type_, block, q.reshape(q.shape[:-1] + (-1, 256)))
        b = np.zeros(minimum.shape, F)
        for h in range(sums.shape[-1]):
            b = fma(block[0], f(sums[..., h]), b)
        if block[1] is not None:
            b = fma(-block[1], f(minimum), b)
        y = np.zeros(b.shape[:-1], F)
        for i in range(b.shape[-1]):
            y = fma(scales[..., i], b[..., i], y)
        return y
    q, scales = quantise(x, 32)
    d, m, w = unpack32(type_, raw)
    q = q.reshape(q.shape[:-1] + (-1, 32))
    sums, xsums = (w * q).sum(-1), q.sum(-1) + 0 * w[..., 0]
    y = np.zeros(sums.shape[:-1], F)
    for first in range(0, sums.shape[-1], 8):
        b = np.zeros(y.shape, F)
        for i in range(first, min(first + 8, sums.shape[-1])):
            b = fma(d[..., i] * scales[..., i], f(sums[..., i]), b)
            if m is not None:
                b = fma(m[..., i] * scales[..., i], f(xsums[..., i]), b)
        y = y + b
    return y


def float_product(w, x):
    y = np.zeros(x.shape[:-1], F)
    for first in range(0, x.shape[-1], 512):
        c = np.zeros(y.shape, F)
        for k in range(first, min(first + 512, x.shape[-1])):
            c = fma(w[..., k], x[..., k], c)
        y = y + c
    return y


# ---- rule 8

POLYNOMIAL = [F(float.fromhex(c)) for c in (
    '0x1.41fbbcp-13', '0x1.5f3e54p-10', '0x1.3b2d4cp-7', '0x1.c6aee8p-5', '0x1.ebfbdcp-3',
    '0x1.62e43p-1')]


def polynomial(fraction):
    p = np.full(fraction.shape, POLYNOMIAL[0], F)
    for c in POLYNOMIAL[1:] + [F(1)]:
        p = fma(p, fraction, c)
    return p


def scaled_power(fraction, t):
    return float32(bits32(polynomial(fraction)) + (bits32(t) << np.uint32(23)))


def bounded(x, low, high, result):
    outside = [np.isnan(x), x < low, x >= high]
    return np.select(outside, [F(np.nan), F(0), F(np.inf)], result).astype(F)


def exp2(x):
    x = np.atleast_1d(np.asarray(x, F))
    t = x + MAGIC
    return bounded(x, F(-125), F(128), scaled_power(x - (t - MAGIC), t))


def exp(x):
    x = np.atleast_1d(np.asarray(x, F))
    high, low = F(float.fromhex('0x1.715476p+0')), F(float.fromhex('0x1.4ae0cp-26'))
    t = fma(x, high, MAGIC)
    fraction = fma(x, low, fma(x, high, -(t - MAGIC)))
    return bounded(x, F(-86.5), F(88.72), scaled_power(fraction, t))


def silu(x):
    return x / (F(1) + exp(-x))


def gelu(x):
    u = x * fma(F(0.044715), x * x, F(1))
    return x / (F(1) + exp(F(-1.5957691) * u))


def tanh(x):
    z = x * x
    p = F(-5.70498872745e-3)
    for k in (2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1):
        p = fma(p, z, F(k))
    near = fma(p * z, x, x)
    far = F(1) - F(2) / (exp(F(2) * np.abs(x)) + F(1))
    far = float32(bits32(far) | (bits32(x) & np.uint32(0x80000000)))
    return np.where(np.abs(x) < F(0.625), near, far)


# ---- rule 9

C64 = float.fromhex('0x1.62e42fefa39efp-1')
D64 = float.fromhex('0x1.abc9e3b39803fp-56')
TWO_PI = float.fromhex('0x1.921fb54442d18p+2')


def ln(x):
    e = (bits64(x) - 0x3fe6a09e667f3bcd) >> 52
    m = float64(bits64(x) - (e << 52))
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = 1.0 / 23.0
    for k in range(21, 2, -2):
        p = fma64(p, z, 1.0 / k)
    t = s + s
    return fma64(float(e), C64, fma64(t, z * p, fma64(float(e), D64, t)))


def exp64(x):
    if x < -700:
        return 0.0
    if x > 700:
        return float('inf')
    t = fma64(x, float.fromhex('0x1.71547652b82fep+0'), MAGIC64)
    n = t - MAGIC64
    r = fma64(-n, D64, fma64(-n, C64, x))
    p = 1.0
    for k in range(14, 0, -1):
        p = fma64(p, r / k, 1.0)
    return float64(bits64(p) + (bits64(t) << 52))


def pow64(b, y):
    return exp64(y * ln(b))


def sin_cos(x):
    t = fma64(x, float.fromhex('0x1.45f306dc9c883p-1'), MAGIC64)
    n = t - MAGIC64
    r = fma64(-n, float.fromhex('0x1.1a62633145c07p-54'),
              fma64(-n, float.fromhex('0x1.921fb54442d18p+0'), x))
    z = r * r
    p = q = 1.0
    for k in range(18, 1, -2):
        p = fma64(p, -z / (k * (k + 1)), 1.0)
        q = fma64(q, -z / (k * (k - 1)), 1.0)
    s = r * p
    return ((s, q), (q, -s), (-s, -q), (-q, s))[bits64(t) & 3]


def held(x, low, high):
    return min(max(x, low), high)


def rope_frequency(rope, i, divisor):
    dims, base = float(rope['dims']), rope['base']
    plain = pow64(base, -(2.0 * i) / dims) / divisor
    stretched = plain / rope['factor']
    if 'yarn' not in rope:
        return stretched
    yarn = rope['yarn']

    def pair(turns):
        return held(dims * ln(yarn['context'] / (turns * TWO_PI)) / (2.0 * ln(base)), -1.0, dims)

    low = held(float(np.floor(pair(yarn['fast']))), 0.0, dims)
    high = held(float(np.ceil(pair(yarn['slow']))), -1.0, dims - 1.0)
    width = held(high - low, 0.001, dims)
    ramp = 1.0 - held((i - low) / width, 0.0, 1.0)
    mix = ramp * yarn['ext']
    return fma64(plain, mix, stretched * (1.0 - mix))


def rope_magnitude(rope):
    if 'yarn' not in rope:
        return 1.0
    attention = rope['yarn']['attention']
    return attention * fma64(0.1, ln(rope['factor']), 1.0) if rope['factor'] > 1 else attention


def rope_entry(position, frequency, magnitude):
    sine, cosine = sin_cos(float(position) * frequency)
    return F(cosine * magnitude), F(sine * magnitude)


def rotate(head, dims, adjacent, cos, sin):
    """head [..., n]: a rotated copy; cos, sin of dims / 2 pairs."""
    out = head.copy()
    i = np.arange(dims // 2)
    first, second = (2 * i, 2 * i + 1) if adjacent else (i, i + dims // 2)
    x, y = head[..., first], head[..., second]
    out[..., first] = fma(x, cos, -(y * sin))
    out[..., second] = fma(x, sin, y * cos)
    return out


# ---- rule 10

LOG2E = F(1.44269504)


def root_scale(n):
    return F(1) / np.sqrt(F(n))


def attention(q, keys, vals, first, scale, cap=None):
    """keys, vals [visible, dim] of positions first, first + 1, ...; -> [dim]"""
    splits = []
    position = np.arange(first, first + len(keys))
    for split in range(first // 256, (first + len(keys) - 1) // 256 + 1):
        here = position // 256 == split
        k, v, t = keys[here], vals[here], position[here]
        dot = np.zeros(len(k), F)
        for e in range(k.shape[1]):
            dot = fma(q[e], k[:, e], dot)
        s = dot * (scale * LOG2E) if cap is None else (cap * LOG2E) * tanh(dot * (scale / cap))
        m = s.max() + F(0)
        p = exp2(s - m)
        lanes = np.zeros(16, F)
        o = np.zeros(k.shape[1], F)
        for i in range(len(k)):
            lanes[t[i] % 16] += p[i]
            o = fma(p[i], v[i], o)
        splits.append((m, tree(lanes), o))
    top = max(m for m, _, _ in splits)
    total, out = F(0), np.zeros(keys.shape[1], F)
    for m, l, o in splits:
        w = exp2(m - top)[0]
        total = fma(w, l, total)
        out = fma(w, o, out)
    return out / total


# ---- rule 11

def embedding(type_, raw):
    """raw [..., blocks, bytes] -> [..., elements]"""
    if type_.endswith('K') or type_ == 'IQ4_XS':
        d, dmin, s, m, w = unpack256(type_, raw)
        scale = d[..., None] * f(s)
        x = scale * f(w) if m is None else fma(scale, f(w), -(dmin[..., None] * f(m)))
    else:
        d, m, w = unpack32(type_, raw)
        x = d[..., None] * f(w) if m is None else fma(d[..., None], f(w), m[..., None])
    return x.reshape(raw.shape[:-2] + (-1,))


def ranked(x):
    """Ids, larger first, ties by lowest id."""
    return sorted(range(len(x)), key=lambda i: (-float(x[i]), i))


def route(logits, k, normalise, scale):
    top = logits.max()
    e = exp(logits - top)
    ids = ranked(logits)[:k]
    w = e[ids] / lane_sum(e)
    if normalise:
        c = F(0)
        for p in w:
            c = c + p
        w = w / c
    return ids, w * F(scale) if scale != 1 else w


# ---- rule 12

def sample_weights(l, top):
    return (exp(l - top) * F(2.0**40)).astype(np.uint64)


def mass_target(p, total):
    return int(float(p) * float(total))


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xffffffff, (a >> 32) ^ c[3] ^ k[1], a & 0xffffffff]
        k = [(k[0] + 0x9E3779B9) & 0xffffffff, (k[1] + 0xBB67AE85) & 0xffffffff]
    return c


def sample_bits(seed, choice, position):
    c = philox((position & 0xffffffff, position >> 32, choice, 0), (seed & 0xffffffff, seed >> 32))
    return c[0] | c[1] << 32


def penalise(x, repetition, frequency, presence, n):
    x = np.where(x > 0, x / F(repetition), x * F(repetition))
    return np.where(n > 0, fma(F(-frequency), n.astype(F), x) - F(presence), x)


def log_sum_exp(top, total):
    return float(top) + fma64(-40.0, C64, ln(float(total)))
