"""One f32 scale for 128 elements of a row (1x128) or for a square of 128 (128x128).

Storage is [outer, inner], where inner is the contracted axis. Blocks of 1x128 are along inner, so a cast for axis 0 quantises the
source again. Square blocks have the same bytes in another order.
"""

import numpy as np

from . import tensor_scaling
from .formats import MAX_FINITE
from .layouts import blocks, pad, spread
from .tensor_scaling import Scaled

BLOCK = {"block_1x128": (1, 128), "block_128x128": (128, 128)}


def _stored(scales, scheme):
    """The scales [outer block, inner block] as they are stored, padded to a multiple of 4."""
    return pad(scales.T if scheme == "block_1x128" else scales, 1, 4)


def _spread(stored, scheme, shape):
    scales = stored.T if scheme == "block_1x128" else stored
    return spread(scales, *BLOCK[scheme], shape)


def quantize(x, format, scheme, axis, source, pow2=False, epsilon=0.0):
    x = x if axis == 1 else x.T
    largest = tensor_scaling.amax(blocks(x, *BLOCK[scheme]), axis=(2, 3))
    scale = tensor_scaling.compute_scale(largest, format.max, pow2, epsilon, overflow=MAX_FINITE[source])
    codes = tensor_scaling.cast(x, spread(scale, *BLOCK[scheme], x.shape), format)
    return Scaled(codes, _stored(tensor_scaling.reciprocal(scale), scheme))


def transpose(q):
    """The other axis of a 128x128 value: bytes and scales are moved, and the scales are padded again."""
    outer, inner = (-(-size // 128) for size in q.data.shape)
    return Scaled(q.data.T, pad(q.scale[:outer, :inner].T, 1, 4))


def dequantize(q, format, scheme, axis):
    with np.errstate(all="ignore"):
        x = format.decode(q.data) * _spread(q.scale, scheme, q.data.shape)
    return x if axis == 1 else x.T
