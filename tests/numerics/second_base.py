"""Exact arithmetic, inputs and digests for second.py.

f32 operations are numpy's, which are IEEE's. fma, which numpy lacks, is made of an exact f64
product and a sum rounded to odd, so that the rounding to f32 is the only one that counts. The f64
fma goes through fractions.
"""

import struct
from fractions import Fraction

import numpy as np

F = np.float32
U = np.uint64
MASK = (1 << 64) - 1


# ---- arithmetic

def fma(a, b, c):
    """a * b + c with one rounding, on f32 arrays of any shapes that fit together."""
    p = np.asarray(a, F).astype(np.float64) * np.asarray(b, F).astype(np.float64)  # exact
    c64 = np.asarray(c, F).astype(np.float64)
    s = np.atleast_1d(p + c64)
    part = s - p
    error = (p - (s - part)) + (c64 - part)
    bits = s.view(np.int64)
    inexact = np.isfinite(s) & (error != 0) & ((bits & 1) == 0)
    toward_odd = np.where((error > 0) == (s > 0), 1, -1)
    odd = np.where(inexact, bits + toward_odd, bits).view(np.float64)
    result = odd.astype(F)
    return result if np.ndim(p + c64) else result[0]


def fma64(a, b, c):
    """The same for Python floats. A zero sum of non-zero terms is +0, as IEEE says."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    return exact.numerator / exact.denominator


def bits32(x):
    return np.asarray(x, F).view(np.uint32)


def float32(bits):
    return np.asarray(bits, np.uint32).view(F)


def bits64(x):
    return struct.unpack('<Q', struct.pack('<d', x))[0]


def float64(bits):
    return struct.unpack('<d', struct.pack('<Q', bits & MASK))[0]


def half(bits):
    return np.asarray(bits, np.uint16).view(np.float16).astype(F)


def to_half(x):
    return np.asarray(x, F).astype(np.float16).view(np.uint16)


def brain(bits):
    return float32(np.asarray(bits, np.uint32) << np.uint32(16))


def to_brain(x):
    bits = bits32(x).astype(np.uint64)
    low = bits & U(0xffff)
    up = (low > U(0x8000)) | ((low == U(0x8000)) & ((bits >> U(16)) & U(1) == U(1)))
    rounded = (bits >> U(16)) + up.astype(np.uint64)
    return np.where(np.isnan(x), 0x7fc0, rounded).astype(np.uint16)


# ---- inputs

def mix(z):
    z = np.asarray(z, U)
    z = (z ^ (z >> U(30))) * U(0xbf58476d1ce4e5b9)
    z = (z ^ (z >> U(27))) * U(0x94d049bb133111eb)
    return z ^ (z >> U(31))


def draw(stream, index):
    return mix(mix(np.asarray(stream, U) + U(0x9e3779b97f4a7c15)) + np.asarray(index, U))


ORDINARY, MIXED, TINY, SMALL, DENORMAL, HUGE, ANY_BITS, NEGATIVE_ZERO, ONES = KINDS = range(9)
LENGTHS = (1, 15, 16, 17, 255, 256, 257, 511, 512, 513, 1000, 1500)
SWEEP = 1 << 17


def ordinary(u):
    return ((u >> U(40)).astype(np.int64) - 0x800000).astype(F) * F(2.0**-21)


def denormal(u):
    return float32((u >> U(32)).astype(np.uint32) & np.uint32(0x807fffff))


def value(kind, stream, index):
    u = draw(stream, index)
    x = ordinary(u)
    if kind == MIXED:
        which = u & U(15)
        zero = np.zeros_like(x)
        special = [zero, -zero, x * F(2.0**11), x * F(2.0**-60), denormal(u)]
        return np.select([which == U(i) for i in range(5)], special, x)
    if kind == TINY:
        return x * F(2.0**-101 if stream % 2 else 2.0**-103)
    if kind == SMALL:
        return x * F(2.0**-70)
    if kind == DENORMAL:
        return denormal(u)
    if kind == HUGE:
        return x * F(2.0**58)
    if kind == ANY_BITS:
        bits = (u >> U(32)).astype(np.uint32)
        exponent = np.uint32(0x7f800000)
        infinite = (u & U(63)) == U(0)
        if stream % 2:
            infinite = infinite | ((bits & exponent) == exponent)
        return float32(np.where(infinite, (bits & np.uint32(0x80000000)) | exponent, bits))
    if kind == NEGATIVE_ZERO:
        return np.where((u & U(7)) == U(0), x, F(-0.0))
    if kind == ONES:
        return np.ones_like(x)
    return x


def values(kind, stream, n):
    return value(kind, stream, np.arange(n))


def sweep(stream):
    item = np.arange(SWEEP, dtype=U)
    return float32(((item << U(15)) | (draw(stream, item) & U(0x7fff))).astype(np.uint32))


# The offsets of the f16 fields, and the bytes, of each block.
FIELDS = {'Q4_0': ((0,), 18), 'Q4_1': ((0, 2), 20), 'Q5_0': ((0,), 22), 'Q5_1': ((0, 2), 24),
          'Q8_0': ((0,), 34), 'IQ4_NL': ((0,), 18), 'Q2_K': ((80, 82), 84), 'Q3_K': ((108,), 110),
          'Q4_K': ((0, 2), 144), 'Q5_K': ((0, 2), 176), 'Q6_K': ((208,), 210),
          'IQ4_XS': ((0,), 136)}
RANDOM, ALL_ONES, TOP_BITS, ZERO, LOW_QUANTS, MODEL = VARIANTS = range(6)


def weights(type_, variant, stream, blocks):
    """Bytes [..., blocks, bytes a block]; stream may be an array."""
    fields, size = FIELDS[type_]
    stream = np.asarray(stream, U)
    u = draw(stream[..., None], np.arange(blocks * size)).reshape(stream.shape + (blocks, size))
    out = (u & U(0xff)).astype(np.uint8)
    if variant == ALL_ONES:
        out[:] = 0xff
    elif variant == TOP_BITS:
        out[:] = 0x80
    elif variant == ZERO:
        out[:] = 0
    elif variant == LOW_QUANTS:
        out[..., :size - 18] = 0
        out[..., size - 18:] = 0x80
    for at in fields:
        bits = (u[..., at] >> U(16)) & U(0xffff)
        if variant == MODEL:
            bits = (bits & U(0x83ff)) | U(0x1800)
        else:
            bits = np.where((bits & U(0x7c00)) == U(0x7c00), bits & U(0xbfff), bits)
        out[..., at] = bits & U(0xff)
        out[..., at + 1] = bits >> U(8)
    return out


# ---- digests

class Sink:
    """The sum over all outputs of a hash of the value and its place."""

    def __init__(self):
        self.sum = 0
        self.places = {}

    def _add(self, items, places, bits):
        hashes = mix(np.asarray(bits).astype(U) ^ mix((items << U(20)) + places))
        self.sum = (self.sum + int(np.sum(hashes, dtype=U))) & MASK

    def column(self, bits, items=None):
        """One output of each of many items that put equally many."""
        bits = np.atleast_1d(bits)
        items = np.arange(len(bits), dtype=U) if items is None else np.asarray(items, U)
        places = np.array([self._next(int(i)) for i in items], dtype=U)
        self._add(items, places, bits)

    def columns(self, *columns):
        """Outputs of items 0, 1, ... that all put exactly these."""
        for place, bits in enumerate(columns, 1):
            self._add(np.arange(len(bits), dtype=U), U(place), bits)

    def _next(self, item):
        self.places[item] = self.places.get(item, 0) + 1
        return self.places[item]

    def row(self, item, bits):
        """Outputs of one item, in order."""
        bits = np.atleast_1d(bits)
        first = self.places.get(item, 0)
        self.places[item] = first + len(bits)
        self._add(U(item), np.arange(first + 1, first + 1 + len(bits), dtype=U), bits)


def out32(x):
    x = np.asarray(x, F)
    return np.where(np.isnan(x), np.uint32(0x7fc00000), bits32(x)).astype(U)


def out64(x):
    return np.atleast_1d(np.array([bits64(v) for v in np.atleast_1d(x)], dtype=U))


def out_int(x):
    return np.asarray(x).astype(np.int64).astype(np.uint32).astype(U)


def out_half(bits):
    bits = np.asarray(bits, np.uint16)
    return np.where((bits & 0x7fff) > 0x7c00, 0x7e00, bits).astype(U)


def out_brain(bits):
    bits = np.asarray(bits, np.uint16)
    return np.where((bits & 0x7fff) > 0x7f80, 0x7fc0, bits).astype(U)
