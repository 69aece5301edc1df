"""NVFP4: E2M1 codes, an E4M3 scale for 16 elements (nv_1x16) or a square of 16 (nv_16x16), and an f32 amax above them.

Storage is [outer, inner / 2] with two codes in a byte, where inner is the contracted axis. Scales are
[up(outer, 128), up(inner / 16, 4)]; the scale of a square block is repeated for its 16 rows. There is an amax of the tensor, or of
each row.
"""

import numpy as np

from . import philox
from .formats import E2M1, E4M3, FLT_MAX, bf16_bits, bf16_values
from .layouts import blocks, pack, pad, spread, unpack
from .tensor_scaling import Scaled, amax

SIXTH = np.float32(1) / np.float32(6)
SIGNS = np.array([1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1], np.float32)


def amax_rows(x):
    return amax(x, axis=1)


def hadamard(x):
    """Runs of 16 rows of a bf16 matrix, times diag(signs) H16 / 4: the source of casts for axis 0."""
    with np.errstate(all="ignore"):
        # A sixteenth first, so that no sum overflows unless the result does.
        y = x.reshape(-1, 16, x.shape[1]) * (SIGNS[:, None] / np.float32(16))
        for stride in (1, 2, 4, 8):
            pairs = y.reshape(len(y), -1, 2, stride, x.shape[1])
            a, b = pairs[:, :, 0], pairs[:, :, 1]
            y = np.stack([a + b, a - b], 2).reshape(y.shape)
        return bf16_values(bf16_bits(y * np.float32(4))).reshape(x.shape)


def encode_scale(amax, scale_max=448):
    """The factor of the first level for each amax."""
    with np.errstate(all="ignore"):
        factor = np.minimum(np.float32(scale_max * 6) / np.asarray(amax, np.float32), FLT_MAX)
    return np.where((np.asarray(amax) == 0) | (factor == 0), np.float32(1), factor)


def stochastic_codes(x, random):
    """E2M1 codes of f32 values, rounded up from the lower neighbour if the 16 random bits reach the fraction."""
    magnitude = np.abs(x).astype(np.float64)
    below = np.clip(np.searchsorted(E2M1.magnitudes, magnitude, side="right") - 1, 0, 6)
    low, high = E2M1.magnitudes[below], E2M1.magnitudes[below + 1]
    with np.errstate(all="ignore"):
        fraction = np.floor((np.minimum(magnitude, 6) - low) / (high - low) * 65536)
        code = below + (fraction + random >= 65536) + 8 * np.signbit(x)
    return np.where(np.isnan(x), E2M1.nan, code).astype(np.uint8)


def _codes(x, sf, factor, random):
    """The codes of a matrix, given the scale byte and the first-level factor of each element."""
    with np.errstate(all="ignore"):
        decode = np.float32(1) / factor
        inverse = np.minimum(np.float32(1) / (E4M3.decode(sf) * decode), FLT_MAX)
        scaled = x * inverse
    return E2M1.encode(scaled) if random is None else stochastic_codes(scaled, random)


def _error(x, codes, sf, amax, scale_max, squared, rows):
    """The sum of errors in each block: along a row in order, then rows as a tree."""
    with np.errstate(all="ignore"):
        decoded = E2M1.decode(codes) * E4M3.decode(sf) * amax / np.float32(6 * scale_max)
        distance = decoded - x
        distance = blocks(distance * distance if squared else np.abs(distance), rows, 16)
        total = np.zeros(distance.shape[:3], np.float32)
        for j in range(16):
            total = total + distance[..., j]
        while total.shape[2] > 1:
            half = total.shape[2] // 2
            total = total[..., :half] + total[..., half:]
    return total[..., 0]


def quantize(x, scheme, axis, amax_of, scale_max=448, four_over_six=None, rng=None):
    """Quantises a matrix. amax_of: f32[1], or f32[rows] of a row-scaled matrix. four_over_six: None, "mae" or "mse".
    rng: None, or ((seed, offset), stream) for stochastic rounding."""
    if scheme == "nv_16x16" and axis == 0 and four_over_six:
        # Errors are added over the rows of x.
        return transpose(quantize(x, scheme, 1, amax_of, scale_max, four_over_six))
    x = x if axis == 1 else x.T
    outer, inner = x.shape
    rows = 16 if scheme == "nv_16x16" else 1

    def over(values):
        return spread(values, rows, 16, x.shape)

    factor = np.broadcast_to(encode_scale(amax_of, scale_max).reshape(-1, 1), x.shape)
    block_amax, block_factor = amax(blocks(x, rows, 16), axis=(2, 3)), factor[::rows, ::16]
    random = None if rng is None else philox.rounding_bits(outer * inner // 16, *rng, axis).reshape(x.shape)
    with np.errstate(all="ignore"):
        if four_over_six is None:
            sf = E4M3.encode(np.minimum(block_amax * (block_factor * SIXTH), FLT_MAX))
            codes = _codes(x, over(sf), factor, random)
        else:
            base = block_amax / np.float32(6) * block_factor
            six, four = (E4M3.encode(np.minimum(base * np.float32(k), np.float32(448))) for k in (1, 1.5))
            amax_each = np.broadcast_to(np.asarray(amax_of, np.float32).reshape(-1, 1), x.shape)
            candidates = [_codes(x, over(sf), factor, None) for sf in (six, four)]
            errors = [
                _error(x, codes, over(sf), amax_each, scale_max, four_over_six == "mse", rows)
                for codes, sf in zip(candidates, (six, four))
            ]
            choose_four = errors[1] < errors[0]
            sf = np.where(choose_four, four, six)
            codes = np.where(over(choose_four), candidates[1], candidates[0])
    return Scaled(pack(codes), pad(np.repeat(sf, rows, 0), 128, 4), np.asarray(amax_of, np.float32).reshape(-1))


def transpose(q):
    """The other axis of an nv_16x16 value, computed by moving nibbles and scales."""
    codes = unpack(q.data)
    outer, inner = codes.shape
    scale = q.scale[:outer:16, : inner // 16]
    return Scaled(pack(codes.T), pad(np.repeat(scale.T, 16, 0), 128, 4), q.amax)


def dequantize(q, axis, scale_max=448, with_amax=True):
    """f32 values as a matrix. Without the amax: element times scale byte, for GEMMs that apply the amax."""
    codes = unpack(q.data)
    sf = E4M3.decode(spread(q.scale, 1, 16, codes.shape))
    with np.errstate(all="ignore"):
        if with_amax:
            sf = sf * q.amax[:, None] * (np.float32(1) / np.float32(6 * scale_max))
        x = E2M1.decode(codes) * sf
    return x if axis == 1 else x.T


def alpha(a_amax, b_amax, a_scale_max=448, b_scale_max=448):
    """The factor of a GEMM, one for each amax of `a`."""
    with np.errstate(all="ignore"):
        return (
            np.asarray(a_amax, np.float32)
            * np.float32(b_amax)
            * (np.float32(1) / np.float32(36 * a_scale_max * b_scale_max))
        )
