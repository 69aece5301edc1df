"""Quantisation from its definition, in numpy: the second opinion of exact_quantise.py.

Shares nothing with the runtime: an 8-bit float is found by searching the sorted values of the format, scales follow the rule
of the recipes, and blocks are cut out and put together here.
"""

import numpy as np

BLOCK = 128


class Format:
    """An 8-bit float: sign, `exponent` bits, `mantissa` bits; `ieee` ones keep the top exponent for inf and NaN."""

    def __init__(self, exponent, mantissa, ieee):
        values = []
        for code in range(128):
            e, m = code >> mantissa, (code & ((1 << mantissa) - 1)) / 2.0**mantissa
            bias, top = 2 ** (exponent - 1) - 1, (1 << exponent) - 1
            value = m * 2.0 ** (1 - bias) if e == 0 else (1 + m) * 2.0 ** (e - bias)
            if e == top and ieee:
                value = np.inf if m == 0 else np.nan
            if not ieee and code == 127:
                value = np.nan
            values.append(value)
        self.values = np.array(values + [-v for v in values])
        self.finite = np.array([v for v in values if np.isfinite(v)])
        self.max = self.finite[-1]

    def encode(self, x):
        """Codes of float32 `x`: nearest, ties to the even code, saturating; NaN is 0x7f."""
        magnitude = np.abs(x.astype(np.float64))
        # Exact in float64: sums of two neighbours of a format of 4 bits.
        middles = (self.finite[:-1] + self.finite[1:]) / 2
        code = np.searchsorted(middles, magnitude, side="left")
        tie = (code < middles.size) & (middles[np.minimum(code, middles.size - 1)] == magnitude)
        code = np.where(tie & (code % 2 == 1), code + 1, code)
        code = code.astype(np.uint8) | np.where(np.signbit(x), 0x80, 0).astype(np.uint8)
        return np.where(np.isnan(x), np.uint8(0x7F), code)

    def decode(self, codes):
        return self.values[codes].astype(np.float32)


FORMATS = {"f8E4M3FN": Format(4, 3, False), "f8E5M2": Format(5, 2, True)}
MAX_FINITE = {"bf16": np.float32(2.0**127 * (2 - 2.0**-7)), "f16": np.float32(65504), "f32": np.finfo(np.float32).max}


def amax(x):
    """max |x| without its NaN; 0 of nothing."""
    numbers = np.abs(x[~np.isnan(x)])
    return np.float32(numbers.max()) if numbers.size else np.float32(0)


def compute_scale(amax, largest, pow2=False, epsilon=0.0, value_for_inf=MAX_FINITE["f32"]):
    amax, epsilon = np.float32(amax), np.float32(epsilon)
    if amax < epsilon:
        amax = epsilon
    if not np.isfinite(amax) or amax == 0:
        return np.float32(1)
    with np.errstate(over="ignore"):
        scale = np.float32(largest) / amax
    if np.isinf(scale):
        scale = np.float32(value_for_inf)
    if pow2:
        scale = np.float32(2.0 ** (np.frexp(np.float64(scale))[1] - 1))
    return scale


def inverse(scale):
    with np.errstate(divide="ignore"):
        return np.float32(1) / np.float32(scale)


def scaled(x, scale):
    """The one float32 rounding before the cast."""
    with np.errstate(over="ignore", invalid="ignore"):
        return x * np.float32(scale)


def quantize(x, source, element, scheme, axis, pow2=False, epsilon=0.0, scale=None):
    """(data, scale, mask of the scales that mean something) as te.quantize stores them; x holds exact float32 values."""
    f = FORMATS[element]
    stored = x if axis == 1 else x.T
    outer, inner = stored.shape
    if scheme == "per_tensor":
        return f.encode(scaled(stored, scale)), np.array([inverse(scale)]), np.array([True])
    height = 1 if scheme == "block_1x128" else BLOCK
    slices, groups = -(-inner // BLOCK), -(-outer // height)
    shape = (slices, -(-outer // 4) * 4) if height == 1 else (groups, -(-slices // 4) * 4)
    data, scales, mask = np.zeros(stored.shape, np.uint8), np.zeros(shape, np.float32), np.zeros(shape, bool)
    for g in range(groups):
        for s in range(slices):
            block = np.s_[g * height : (g + 1) * height, s * BLOCK : (s + 1) * BLOCK]
            factor = compute_scale(amax(stored[block]), f.max, pow2, epsilon, MAX_FINITE[source])
            at = (s, g) if height == 1 else (g, s)
            scales[at], mask[at] = inverse(factor), True
            data[block] = f.encode(scaled(stored[block], factor))
    return data, scales, mask


def dequantize(data, scales, element, scheme, axis):
    """float32 values in logical order, before they are rounded to the result's type."""
    outer, inner = data.shape
    rows, columns = np.arange(outer)[:, None], np.arange(inner)[None, :]
    factor = {"per_tensor": lambda: scales.reshape(1, 1),
              "block_1x128": lambda: scales[columns // BLOCK, rows],
              "block_128x128": lambda: scales[rows // BLOCK, columns // BLOCK]}[scheme]()
    with np.errstate(over="ignore", invalid="ignore"):
        values = FORMATS[element].decode(data) * factor
    return values if axis == 1 else values.T
