"""Matrices with values that are hard to quantise."""

import numpy as np
from te_model.formats import E2M1, E4M3, E5M2, MAX_FINITE, store


def every_16_bits(source, rng=None):
    """All 65,536 inputs, in order, or shuffled so that blocks have values of every kind."""
    bits = np.arange(65536, dtype=np.uint16)
    bits = bits if rng is None else rng.permutation(bits)
    return bits.reshape(256, 256).view(np.uint16 if source == "bf16" else np.float16)


def f32_patterns(rng, rows, columns):
    """f32 numbers of every exponent, and neighbours of the values at which formats round."""
    bits = rng.integers(0, 2**32, (rows, columns), dtype=np.uint32)
    points = np.concatenate([np.concatenate([f.magnitudes, f.halfway]) for f in (E4M3, E5M2, E2M1)]).astype(np.float32)
    near = points[:, None].view(np.int32) + np.arange(-1, 2)
    some = rng.random((rows, columns)) < 0.5
    bits[some] = rng.choice(near.ravel(), some.sum()).astype(np.int64) % 2**32 | rng.integers(0, 2, some.sum()) << 31
    return bits.view(np.float32)


def mixed(rng, rows, columns, source):
    """Normal numbers of many magnitudes with some special values, and regions with only one kind of value."""
    x = rng.normal(size=(rows, columns)) * np.exp2(rng.integers(-30, 12, (rows, 1)))
    least = {"bf16": 2.0**-133, "f16": 2.0**-24, "f32": 2.0**-149}[source]
    for kind in (0.0, -0.0, least, -3 * least, np.inf, -np.inf, np.nan, float(MAX_FINITE[source])):
        x[rng.random(x.shape) < 0.003] = kind
    x[rows // 3] = 0.0
    x[rows // 2, : columns // 2] = least * rng.integers(1, 4, columns // 2)
    x[-1, -1] = 1e4
    return store(x.astype(np.float32), source)
