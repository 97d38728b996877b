"""A model file as metadata and float64 arrays: only what the tiny models hold."""
import struct

import numpy as np

SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
STRING, ARRAY = 8, 9


class Cursor:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def scalar(self, code):
        value = struct.unpack_from(code, self.data, self.at)[0]
        self.at += struct.calcsize(code)
        return value

    def string(self):
        size = self.scalar("<Q")
        self.at += size
        return bytes(self.data[self.at - size:self.at])

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            element = self.scalar("<I")
            return [self.value(element) for _ in range(self.scalar("<Q"))]
        return self.scalar(SCALARS[kind])


def halves(raw, first):
    """The f16 at byte `first` of each block."""
    return raw[:, first:first + 2].copy().view("<f2").astype(np.float64)


def nibbles(raw):
    """32 values from 16 bytes: the low halves, then the high ones."""
    return np.concatenate([raw & 15, raw >> 4], axis=-1).astype(np.float64)


def q4_0(raw):
    return halves(raw, 0) * (nibbles(raw[:, 2:]) - 8)


def q5_1(raw):
    bits = np.unpackbits(raw[:, 4:8], axis=1, bitorder="little").astype(np.float64)
    return halves(raw, 0) * (nibbles(raw[:, 8:]) + 16 * bits) + halves(raw, 2)


def q8_0(raw):
    return halves(raw, 0) * raw[:, 2:].copy().view(np.int8).astype(np.float64)


def q4_k(raw):
    """Eight runs of 32; six bits of scale and six of minimum each, in 12 bytes."""
    d, dmin, packed = halves(raw, 0), halves(raw, 2), raw[:, 4:16].astype(np.int64)
    low, high = packed[:, 0:4], packed[:, 4:8]
    scales = np.concatenate([low & 63, (packed[:, 8:12] & 15) | (low >> 6) << 4], axis=1)
    minima = np.concatenate([high & 63, (packed[:, 8:12] >> 4) | (high >> 6) << 4], axis=1)
    quants = nibbles(raw[:, 16:144].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    return ((d * scales)[:, :, None] * quants - (dmin * minima)[:, :, None]).reshape(-1, 256)


def q6_k(raw):
    """Sixteen runs of 16 in two halves; four low bits and two high ones apart."""
    low = raw[:, :128].reshape(-1, 2, 2, 32).astype(np.int64)
    high = raw[:, 128:192].reshape(-1, 2, 1, 32).astype(np.int64)
    low = np.concatenate([low & 15, low >> 4], axis=2)
    high = high >> np.array([0, 2, 4, 6]).reshape(1, 1, 4, 1) & 3
    quants = ((low | high << 4) - 32).reshape(-1, 16, 16)
    scales = raw[:, 192:208].copy().view(np.int8).astype(np.float64)
    return ((halves(raw, 208) * scales)[:, :, None] * quants).reshape(-1, 256)


# type number: elements and bytes of a block, its values
TYPES = {
    0: (1, 4, lambda raw: raw.copy().view("<f4").astype(np.float64)),
    2: (32, 18, q4_0),
    7: (32, 24, q5_1),
    8: (32, 34, q8_0),
    12: (256, 144, q4_k),
    14: (256, 210, q6_k),
}


def read(path):
    """Metadata by key; tensors by name, the outermost dimension first."""
    data = np.fromfile(path, dtype=np.uint8)
    cursor = Cursor(data)
    assert cursor.scalar("<I") == 0x46554747 and cursor.scalar("<I") == 3, "a GGUF file of version 3"
    count, keys = cursor.scalar("<Q"), cursor.scalar("<Q")
    metadata = {}
    for _ in range(keys):
        name = cursor.string().decode()
        metadata[name] = cursor.value(cursor.scalar("<I"))
    heads = []
    for _ in range(count):
        name = cursor.string().decode()
        shape = [cursor.scalar("<Q") for _ in range(cursor.scalar("<I"))]
        heads.append((name, shape, cursor.scalar("<I"), cursor.scalar("<Q")))
    alignment = metadata.get("general.alignment", 32)
    start = -(-cursor.at // alignment) * alignment
    tensors = {}
    for name, shape, kind, offset in heads:
        elements, size, values = TYPES[kind]
        blocks = int(np.prod(shape)) // elements
        raw = data[start + offset:start + offset + blocks * size].reshape(blocks, size)
        tensors[name] = values(raw).reshape(shape[::-1])
    return metadata, tensors
