"""Formulas of ops that take the elements of their result from places of an operand: means, weighted sums and copies.

Each returns None for operands that it has no formula for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


def _depthwise(x: Tensor, w: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Tensor | None:
    """A convolution of one dimension of each channel by itself, with few elements, as in state space models."""
    count = w.shape[-1]
    if x.dim() != 3 or w.shape[1] != 1 or not groups == x.shape[1] == w.shape[0] or not 1 < count <= 8:
        return None
    if isinstance(padding, str) or list(stride) != [1] or list(dilation) != [1]:
        return None
    x = F.pad(x, (padding[0], padding[0])) if padding[0] else x
    length = x.shape[-1] - count + 1
    made = functools.reduce(torch.add, (x[..., k : k + length] * w[:, 0, k, None] for k in range(count)))
    return made if bias is None else made + bias[:, None]


def _pooled(x: Tensor, sizes: Any) -> Tensor | None:
    """Means of equal parts of the last dimensions, a part for each place."""
    rank = len(sizes)
    lengths = x.shape[-rank:]
    if x.dim() <= rank or any(size <= 0 or length % size for length, size in zip(lengths, sizes)):
        return None
    parts = [n for length, size in zip(lengths, sizes) for n in (size, length // size)]
    made = x.reshape(*x.shape[:-rank], *parts)
    return made.mean([made.dim() - 1 - 2 * axis for axis in range(rank)])


def _resized(x: Tensor, sizes: Any, *_: Any) -> Tensor | None:
    """Samples at the places that there are already."""
    return x.clone() if sizes is not None and list(sizes) == list(x.shape[2:]) else None


def _masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor | None:
    """The elements of `source` in their order where a mask is true, or rows of them, and those of x elsewhere."""
    if not x.dim() or not mask.dim() or not source.numel():
        return None
    width = x.shape[-1] if mask.shape[-1] == 1 else 1
    if source.numel() % width:
        return None
    mask = mask.expand(*x.shape[:-1], x.shape[-1] // width)
    place = (mask.reshape(-1).cumsum(0) - 1).clamp_min(0)
    return torch.where(mask, source.reshape(-1, width)[place].reshape(x.shape), x)


#: Formulas that are computed in float32, and rounded once.
WIDE: dict[str, Callable[..., Any]] = {
    "conv1d": _depthwise,
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"), _pooled),
}

#: Formulas of results whose elements are those of operands.
NARROW: dict[str, Callable[..., Any]] = {
    "masked_scatter": _masked_scatter,
    **dict.fromkeys(("upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_bicubic2d.vec"), _resized),
}
