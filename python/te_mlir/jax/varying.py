"""What JAX tracks in jax.shard_map: the axes of the mesh along which an array differs from device to device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax


def varying_axes(arrays: Sequence[Any]) -> frozenset[Any]:
    """The axes of an enclosing jax.shard_map along which any of the arrays varies; none if JAX does not track that."""
    manual = (getattr(jax.typeof(array), "mat", None) for array in arrays)
    return frozenset(axis for kind in manual for axis in getattr(kind, "varying", ()))


def vary(arrays: Sequence[Any]) -> list[Any]:
    """Marks all arrays as varying along the axes along which any of them varies.

    JAX then sums the gradients of arrays that are the same on all devices, as it does for its own operations.
    """
    axes = varying_axes(arrays)
    missing = [tuple(axes - varying_axes([array])) for array in arrays]
    return [jax.lax.pcast(a, names, to="varying") if names else a for a, names in zip(arrays, missing)]
