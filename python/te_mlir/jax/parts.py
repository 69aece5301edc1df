"""Columns of matrices that a program reads by themselves: fused queries, keys and values."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from te_mlir.frontend.graph import Atom, Var
from te_mlir.frontend.views import WHOLE
from te_mlir.layout import Dim, Layout


class Columns(NamedTuple):
    """Columns of a matrix: seen as the extents, `counts` of each from its start on."""

    extents: tuple[int, ...]
    starts: tuple[int, ...]
    counts: tuple[int, ...]

    @property
    def number(self) -> int:
        return math.prod(self.counts)

    @property
    def name(self) -> str:
        """`0:64`, or of columns that lie apart `0:4.0:64`."""
        return ".".join(f"{first}:{first + count}" for first, count in zip(self.starts, self.counts))

    def cut(self, array: Any, axis: int) -> Any:
        """These columns of an array, which are its axis `axis`."""
        shape = array.shape
        seen = array.reshape(*shape[:axis], *self.extents, *shape[axis + 1 :])
        slices = tuple(slice(first, first + count) for first, count in zip(self.starts, self.counts))
        return seen[(slice(None),) * axis + slices].reshape(*shape[:axis], self.number, *shape[axis + 1 :])


def is_whole_view(value: Atom) -> bool:
    """Whether a value is a view of another, whole, or a cast between floats."""
    if not isinstance(value, Var) or value.node is None:
        return False
    if value.node.name == "convert_element_type":
        operand = value.node.inputs[0]
        return isinstance(operand, Var) and operand.floating and value.floating
    return value.node.name in WHOLE


def columns_of(layout: Layout, rows: int, columns: int) -> Columns | None:
    """The columns of a matrix [rows, columns] that a view has, of all rows; None where it is no such part."""
    atoms = [atom for dim in layout.dims for atom in dim]
    above = tuple((size, stride // columns) for size, stride in atoms if stride >= columns)
    if any(stride % columns for _, stride in atoms if stride >= columns):
        return None
    # All rows, so that the offset is one of columns.
    if not Layout((above,)).is_whole(rows):
        return None
    left = columns
    extents: list[int] = []
    starts: list[int] = []
    counts: list[int] = []
    for size, stride in [*sorted((a for a in atoms if a[1] < columns), key=lambda a: -a[1]), (1, 1)]:
        if stride < 1 or left % stride:
            return None
        extent, start = left // stride, layout.offset // stride % (left // stride)
        if start + size > extent:
            return None
        left = stride
        if extents and size == extent:
            # All of what is below: one run with what is above.
            extents[-1], starts[-1], counts[-1] = extents[-1] * extent, starts[-1] * extent, counts[-1] * extent
            continue
        extents.append(extent)
        starts.append(start)
        counts.append(size)
    return Columns(tuple(extents), tuple(starts), tuple(counts))


def within(layout: Layout, columns: int, part: Columns) -> Layout:
    """How a view of a matrix lies in the matrix of its columns alone."""
    below = sorted({a for dim in layout.dims for a in dim if a[1] < columns}, key=lambda a: -a[1])
    strides, stride = {}, part.number
    for size, old in below:
        stride //= size
        strides[old] = stride
    dims: list[Dim] = []
    for dim in layout.dims:
        moved = [(size, old // columns * part.number if old >= columns else strides[old]) for size, old in dim]
        dims.append(tuple(moved))
    return Layout(tuple(dims))
