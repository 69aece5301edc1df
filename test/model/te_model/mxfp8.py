"""MXFP8: one power of two for 32 elements (mx_1x32) or for a square of 32 (mx_32x32).

Data is [rows, cols] for both axes. Scales are [up(rows, 128), up(cols / 32, 4)] for axis 1 and [up(rows / 32, 4), up(cols, 128)]
for axis 0. The exponent of a square block is repeated for each of its rows or columns.
"""

import numpy as np

from . import layouts
from .formats import e8m0_from, power_of_two
from .layouts import blocks, pad, spread
from .tensor_scaling import Scaled, amax, cast


def _block(scheme, axis):
    if scheme == "mx_32x32":
        return 32, 32
    return (1, 32) if axis == 1 else (32, 1)


def exponents(largest, format):
    """The scale of a block, from its largest magnitude."""
    with np.errstate(all="ignore"):
        return e8m0_from(largest * (np.float32(1) / format.max))


def quantize(x, format, scheme, axis):
    block = _block(scheme, axis)
    exponent = exponents(amax(blocks(x, *block), axis=(2, 3)), format)
    # 2^(127 - e) has the biased exponent 254 - e; the exponent 255 (NaN) gives NaN.
    inverse = power_of_two(np.where(exponent == 255, 255, 254 - exponent.astype(np.int64)))
    codes = cast(x, spread(inverse, *block, x.shape), format)
    return Scaled(codes, _stored(exponent, scheme, axis))


def _stored(exponent, scheme, axis):
    if scheme == "mx_32x32":
        exponent = np.repeat(exponent, 32, 1 - axis)
    return pad(exponent, *((128, 4) if axis == 1 else (4, 128)))


def transpose(q):
    """The other axis of an mx_32x32 value: the same bytes, and exponents that are repeated along the other axis."""
    rows, columns = q.data.shape
    return Scaled(q.data, _stored(q.scale[:rows:32, : columns // 32], "mx_32x32", 0))


def dequantize(q, format, axis):
    rows, columns = q.data.shape
    scale = q.scale[:rows, : columns // 32] if axis == 1 else q.scale[: rows // 32, :columns]
    with np.errstate(all="ignore"):
        return format.decode(q.data) * spread(power_of_two(scale), *_block("mx_1x32", axis), q.data.shape)


def swizzle(scale, axis):
    """The scales of axis 0 are swizzled after transposing them; the result has the shape of the tiles."""
    return layouts.swizzle(scale if axis == 1 else scale.T)
