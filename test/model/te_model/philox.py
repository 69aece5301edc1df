"""Philox4x32-10, the counter-based generator, and the random bits of stochastic rounding."""

import numpy as np

MASK = np.uint64(0xFFFFFFFF)


def philox(counter, key):
    """Four u32 words, in u64 arrays, for counter words (of any shape, broadcast) and a key of two words."""
    c0, c1, c2, c3 = (np.asarray(word, np.uint64) for word in counter)
    k0, k1 = (np.uint64(int(word) & 0xFFFFFFFF) for word in key)
    for _ in range(10):
        p0, p1 = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (p1 >> np.uint64(32)) ^ c1 ^ k0, p1 & MASK, (p0 >> np.uint64(32)) ^ c3 ^ k1, p0 & MASK
        k0, k1 = k0 + np.uint64(0x9E3779B9) & MASK, k1 + np.uint64(0xBB67AE85) & MASK
    return np.broadcast_arrays(c0, c1, c2, c3)


def rounding_bits(groups, state, stream, axis):
    """[groups, 16] random 16-bit numbers, one for each element of groups of 16 in storage order. state: (seed, offset).

    The high byte of a number belongs to its element; the low byte is that of the element four before or after it."""
    seed, offset = (int(word) & 0xFFFFFFFF for word in state)
    group = np.arange(groups, dtype=np.uint64)
    usage = 0 if axis == 1 else 1
    words = philox((group & MASK, group >> np.uint64(32), offset, usage), (seed, stream))
    own = np.stack(words, 1).astype("<u4").view(np.uint8).astype(np.int64)
    return own * 256 + own[:, np.arange(16) ^ 4]


def advance(state, count):
    """The state after `count` draws."""
    seed, offset = (int(word) & 0xFFFFFFFF for word in state)
    return np.array([seed, (offset + count) % 2**32], np.uint32).view(np.int32)
