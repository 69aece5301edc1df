"""One scale for each tensor: the rule that delayed and current scaling share."""

from dataclasses import dataclass

import numpy as np

from .formats import FLT_MAX


@dataclass
class Scaled:
    """The arrays of a quantised matrix, in storage order. Only NVFP4 has an amax."""

    data: np.ndarray
    scale: np.ndarray
    amax: np.ndarray | None = None


def amax(x, axis=None):
    """The largest magnitude: NaN is ignored, infinity is not, and 0 if there are no elements."""
    return np.fmax.reduce(np.abs(x), axis=axis, initial=np.float32(0))


def compute_scale(amax, largest, pow2=False, epsilon=0.0, overflow=FLT_MAX):
    """The factor before rounding for each amax; `overflow` if the quotient is too large for f32."""
    amax = np.asarray(amax, np.float32)
    amax = np.where(amax < np.float32(epsilon), np.float32(epsilon), amax)
    ordinary = np.isfinite(amax) & (amax != 0)
    with np.errstate(all="ignore"):
        scale = np.float32(largest) / amax
    scale = np.where(np.isinf(scale), np.float32(overflow), scale)
    if pow2:
        scale = (scale.astype(np.float32).view(np.uint32) & 0xFF800000).view(np.float32)
    return np.where(ordinary, scale, np.float32(1)).astype(np.float32)


def reciprocal(scale):
    with np.errstate(all="ignore"):
        return np.float32(1) / np.asarray(scale, np.float32)


def cast(x, scale, format):
    """The codes of x * scale; the product is rounded to f32 first."""
    with np.errstate(all="ignore"):
        return format.encode(np.asarray(x, np.float32) * np.asarray(scale, np.float32))


def quantize(x, format, axis, scale):
    codes = cast(x, scale, format)
    return Scaled(codes if axis == 1 else codes.T, reciprocal(scale).reshape(1))


def transpose(q):
    """The same value for the other axis."""
    return Scaled(q.data.T, q.scale)


def dequantize(q, format, axis):
    """f32 values as a matrix, which the caller rounds to the type of the result."""
    with np.errstate(all="ignore"):
        x = format.decode(q.data) * q.scale[0]
    return x if axis == 1 else x.T
