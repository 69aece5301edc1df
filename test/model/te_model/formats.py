"""Number formats: the value of each code, and the nearest code of each value."""

import numpy as np

FLT_MAX = np.float32(np.finfo(np.float32).max)
#: The largest finite value of the types that casts have.
MAX_FINITE = {"bf16": np.float32(3.3895314e38), "f16": np.float32(65504), "f32": FLT_MAX}


class Format:
    """A float of at most 8 bits with sign, exponent and mantissa.

    Codes without the sign are in the order of their values.
    """

    def __init__(self, name, exponent_bits, mantissa_bits, bias, largest, nan):
        self.name, self.sign = name, 1 << exponent_bits + mantissa_bits
        magnitudes = []
        for code in range(self.sign):
            exponent, mantissa = code >> mantissa_bits, code % (1 << mantissa_bits)
            if exponent:
                mantissa += 1 << mantissa_bits
            magnitudes.append(mantissa * 2.0 ** (max(exponent, 1) - bias - mantissa_bits))
        count = magnitudes.index(largest) + 1
        self.max, self.nan, self.magnitudes = np.float32(largest), nan, np.array(magnitudes[:count])
        #: This is exact, because a midpoint has one bit more than its neighbours, which fits in f64.
        self.halfway = (self.magnitudes[:-1] + self.magnitudes[1:]) / 2
        self.values = np.full(2 * self.sign, np.nan, np.float32)
        self.values[:count] = self.magnitudes
        self.values[self.sign : self.sign + count] = -self.magnitudes

    def encode(self, x):
        """The nearest code of every f32, ties to even. Larger values saturate, and NaN has one code."""
        x = np.asarray(x, np.float32)
        magnitude = np.abs(x).astype(np.float64)
        code = np.searchsorted(self.halfway, magnitude)
        tie = self.halfway[np.minimum(code, len(self.halfway) - 1)] == magnitude
        code = code + (tie & (code % 2 == 1)) + self.sign * np.signbit(x)
        return np.where(np.isnan(x), self.nan, code).astype(np.uint8)

    def decode(self, code):
        return self.values[code]


E4M3 = Format("f8E4M3FN", 4, 3, 7, 448, nan=0x7F)
E5M2 = Format("f8E5M2", 5, 2, 15, 57344, nan=0x7F)
#: Only E5M2 has codes for infinity, and no cast computes them.
E5M2.values[[0x7C, 0xFC]] = np.inf, -np.inf
#: E2M1 has no NaN; the conversion of NaN is the largest value.
E2M1 = Format("f4E2M1FN", 2, 1, 1, 6, nan=0x7)
FP8 = {format.name: format for format in (E4M3, E5M2)}


def e8m0_from(value):
    """The power of two at or above every f32, as its biased exponent."""
    bits = np.asarray(value, np.float32).view(np.uint32).astype(np.int64)
    exponent, mantissa = bits >> 23 & 0xFF, bits & 0x7FFFFF
    up = (mantissa > 0) & (exponent != 0xFE) & ~((exponent == 0) & (mantissa <= 0x400000))
    code = np.where(np.isnan(value), 0xFF, np.where(np.isinf(value), 0xFE, exponent + up))
    return code.astype(np.uint8)


def power_of_two(biased):
    """The f32 value of a biased exponent from 0 to 255: 2^-127 for 0, NaN for 255."""
    exponent = np.asarray(biased, np.int64)
    bits = np.where(exponent == 0, 0x400000, np.where(exponent == 255, 0x7FC00000, exponent << 23))
    return bits.astype(np.uint32).view(np.float32)


def bf16_bits(x):
    """The bits of the nearest bf16, ties to even; every NaN is 0x7fff."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    kept, rest = bits >> 16, bits & 0xFFFF
    kept += (rest > 0x8000) | ((rest == 0x8000) & (kept & 1 == 1))
    return np.where(np.isnan(x), 0x7FFF, kept).astype(np.uint16)


def bf16_values(bits):
    return (np.asarray(bits, np.uint16).astype(np.uint32) << 16).view(np.float32)


def store(x, type):
    """The array in a file for f32 values rounded to `type`: bf16 as its bits; 16-bit NaN is 0x7fff."""
    if type == "bf16":
        return bf16_bits(x)
    if type == "f32":
        return np.asarray(x, np.float32)
    with np.errstate(over="ignore"):
        bits = np.asarray(x).astype(np.float16).view(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FFF), bits).view(np.float16)


def load(array, type):
    """The f32 values of the result of `store`."""
    return bf16_values(array) if type == "bf16" else array.astype(np.float32)
