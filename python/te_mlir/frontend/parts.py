"""Finds columns of a linear layer that a program reads separately, such as fused queries, keys and values.

If a program reads only slices of the columns of a layer, each of them is emitted as a separate layer, with the corresponding
rows or columns of the weight, because a slice is copied before a layer or attention reads it. Each frontend defines how these
become arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from te_mlir.frontend.graph import Node, Var
from te_mlir.frontend.looking import uncast
from te_mlir.frontend.views import VIEWS, along
from te_mlir.layout import Dim, Layout


class Columns(NamedTuple):
    """Some columns of a matrix.

    The column axis is reshaped to `extents`; along each of these axes, the columns are those from `starts` on, `counts`
    of them.
    """

    extents: tuple[int, ...]
    starts: tuple[int, ...]
    counts: tuple[int, ...]

    @property
    def number(self) -> int:
        return math.prod(self.counts)

    @property
    def run(self) -> tuple[int, int] | None:
        """The first column and the one after the last, if the columns are consecutive."""
        return (self.starts[0], self.starts[0] + self.counts[0]) if len(self.extents) == 1 else None

    @property
    def name(self) -> str:
        """The name of the columns in layers and arguments: `0:64`, or `0:4.0:64` if they are not consecutive."""
        return ".".join(f"{first}:{first + count}" for first, count in zip(self.starts, self.counts))

    def cut(self, array: Any, axis: int) -> Any:
        """Slices these columns from an array, whose axis `axis` has all columns."""
        shape = array.shape
        seen = array.reshape(*shape[:axis], *self.extents, *shape[axis + 1 :])
        slices = tuple(slice(first, first + count) for first, count in zip(self.starts, self.counts))
        return seen[(slice(None),) * axis + slices].reshape(*shape[:axis], self.number, *shape[axis + 1 :])


class Part(NamedTuple):
    """A value that is a view of some columns of a matrix.

    layout: that of the value in the matrix with only these columns. types: the casts between matrix and value, in order.
    """

    var: Var
    columns: Columns
    layout: Layout
    types: tuple[str, ...]


def is_view(value: Var) -> bool:
    """Whether a value is a view of another, or a cast between floats."""
    node = value.node
    if node is None or node.apart:
        return False
    return uncast(value) is not value if node.name == "convert_element_type" else node.name in VIEWS


def part_of(value: Var, base: Var, layout: Layout, rows: int, columns: int) -> Part | None:
    """The columns of a matrix that a value is a view of; None for other values. layout: that of `base` in the matrix."""
    lies, types = _from(value, base, layout)
    found = columns_of(lies, rows, columns) if lies is not None else None
    if lies is None or found is None:
        return None
    return Part(value, found, within(lies, columns, found), types)


def parts_of(
    base: Var, layout: Layout, rows: int, columns: int, uses: Callable[[Var], Iterable[Var] | None]
) -> list[Part] | None:
    """All parts of a matrix that a program reads; None if it also reads the matrix in another way.

    layout: that of `base` in the matrix. uses: the values computed from a value; None if it is a result of the program.
    """
    found: list[Part] = []
    pending = [(base, layout)]
    while pending:
        value, stored = pending.pop()
        made = uses(value)
        if made is None:
            return None
        for use in made:
            lies, _ = _from(use, value, stored)
            if lies is None:
                return None
            if lies.is_whole(rows * columns):
                pending.append((use, lies))
                continue
            part = part_of(use, base, layout, rows, columns)
            if part is None or uses(use) is None:
                return None
            found.append(part)
    return found


def _from(value: Var, base: Var, layout: Layout) -> tuple[Layout | None, tuple[str, ...]]:
    """The layout of a view of `base`, and the casts in between; None if the value is not a view of it."""
    views: list[tuple[Var, Node]] = []
    while value is not base:
        if not is_view(value):
            return None, ()
        assert value.node is not None, "a view has a node"
        views.append((value, value.node))
        value = value.node.inputs[0]
    views.reverse()
    return along(views, layout), tuple(var.dtype for var, node in views if node.name == "convert_element_type")


def columns_of(layout: Layout, rows: int, columns: int) -> Columns | None:
    """The columns of a matrix [rows, columns] that a view has, if it has all rows; None for other views."""
    atoms = [atom for dim in layout.dims for atom in dim]
    above = tuple((size, stride // columns) for size, stride in atoms if stride >= columns)
    if any(stride % columns for _, stride in atoms if stride >= columns):
        return None
    # With all rows, the offset counts columns.
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
            # The view has this whole extent, so it forms one run with the extent before it.
            extents[-1], starts[-1], counts[-1] = extents[-1] * extent, starts[-1] * extent, counts[-1] * extent
            continue
        extents.append(extent)
        starts.append(start)
        counts.append(size)
    return Columns(tuple(extents), tuple(starts), tuple(counts))


def within(layout: Layout, columns: int, part: Columns) -> Layout:
    """The layout of a view of some columns in the matrix that has only these columns."""
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
