"""The layout of scales and 4-bit codes: padding, tiles of scales for GEMMs, two codes in a byte."""

import numpy as np


def up(n, multiple):
    return -(-n // multiple) * multiple


def pad(array, rows, columns):
    """`array`, padded with zeros to multiples of `rows` and `columns`."""
    height, width = array.shape
    return np.pad(array, ((0, up(height, rows) - height), (0, up(width, columns) - width)))


def blocks(x, rows, columns):
    """[block row, block column, rows, columns] of a matrix; missing elements of a partial block are zero."""
    x = pad(x, rows, columns)
    return x.reshape(x.shape[0] // rows, rows, x.shape[1] // columns, columns).transpose(0, 2, 1, 3)


def spread(values, rows, columns, shape):
    """Expands one value for each block to one for each element of a matrix of `shape`."""
    return np.repeat(np.repeat(values, rows, 0), columns, 1)[: shape[0], : shape[1]]


def pack(codes):
    """Packs two 4-bit codes in a byte, the even index in the low nibble."""
    return codes[:, 0::2] | codes[:, 1::2] << 4


def unpack(packed):
    codes = np.empty((packed.shape[0], 2 * packed.shape[1]), np.uint8)
    codes[:, 0::2], codes[:, 1::2] = packed & 0xF, packed >> 4
    return codes


def swizzle(scale):
    """The bytes of padded scales [outer, inner] in tiles of 128 x 4, in the original shape."""
    outer, inner = scale.shape
    i, j = np.indices(scale.shape)
    tile = i // 128 * (inner // 4) + j // 4
    place = tile * 512 + i % 32 * 16 + i // 32 % 4 * 4 + j % 4
    swizzled = np.zeros(outer * inner, np.uint8)
    swizzled[place] = scale
    return swizzled.reshape(scale.shape)
