"""Where scales and nibbles lie: padding, tiles of scales as products read them, two codes a byte."""

import numpy as np


def up(n, multiple):
    return -(-n // multiple) * multiple


def pad(array, rows, columns):
    """`array` with zeros up to multiples of `rows` and `columns`."""
    height, width = array.shape
    return np.pad(array, ((0, up(height, rows) - height), (0, up(width, columns) - width)))


def blocks(x, rows, columns):
    """[block row, block column, rows, columns] of a matrix; what a block at the edge lacks is zero."""
    x = pad(x, rows, columns)
    return x.reshape(x.shape[0] // rows, rows, x.shape[1] // columns, columns).transpose(0, 2, 1, 3)


def spread(values, rows, columns, shape):
    """One value a block to one value an element of a matrix of `shape`."""
    return np.repeat(np.repeat(values, rows, 0), columns, 1)[: shape[0], : shape[1]]


def pack(codes):
    """Two 4-bit codes a byte, the even index in the low nibble."""
    return codes[:, 0::2] | codes[:, 1::2] << 4


def unpack(packed):
    codes = np.empty((packed.shape[0], 2 * packed.shape[1]), np.uint8)
    codes[:, 0::2], codes[:, 1::2] = packed & 0xF, packed >> 4
    return codes


def swizzle(scale):
    """Bytes of padded scales [outer, inner] in tiles of 128 x 4, in the shape they came in."""
    outer, inner = scale.shape
    i, j = np.indices(scale.shape)
    tile = i // 128 * (inner // 4) + j // 4
    place = tile * 512 + i % 32 * 16 + i // 32 % 4 * 4 + j % 4
    swizzled = np.zeros(outer * inner, np.uint8)
    swizzled[place] = scale
    return swizzled.reshape(scale.shape)
