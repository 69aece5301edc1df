"""Layouts of views: where the elements of a value are stored that is a reshape, transpose or slice of another."""

from __future__ import annotations

import math
from collections.abc import Iterable

from te_mlir.frontend.graph import Atom, Node, Var
from te_mlir.layout import Dim, Layout, row_major

#: Operations whose results have a layout in the memory of their operand, besides casts.
VIEWS = frozenset(
    ["reshape", "squeeze", "expand_dims", "copy", "transpose", "broadcast_in_dim", "slice", "split", "as_strided"]
)

#: Those that select a part of the operand, and those whose result has each element of the operand once.
PARTS = ("slice", "split")
WHOLE = ("reshape", "squeeze", "expand_dims", "transpose", "copy")


def viewed(var: Var, node: Node, layout: Layout) -> Layout | None:
    """The layout of a node's result, if its operand has `layout`; None if the result has no layout in the same memory."""
    params = node.params
    if node.name in ("reshape", "squeeze", "expand_dims"):
        return layout.reshape(var.shape)
    if node.name in ("convert_element_type", "copy"):
        # A copy may be omitted, and a cast keeps the order of elements, so the layout does not change.
        return layout
    if node.name == "transpose":
        return layout.permute([int(a) for a in params["permutation"]])
    if node.name == "broadcast_in_dim":
        axes = [int(a) for a in params["broadcast_dimensions"]]
        if axes != sorted(axes):
            return None
        dims = tuple(layout.dims[axes.index(a)] if a in axes else () for a in range(len(var.shape)))
        return Layout(dims, layout.offset).expand(var.shape)
    if node.name == "slice":
        found: Layout | None = layout
        for axis, (first, end) in enumerate(zip(params["start_indices"], params["limit_indices"])):
            found = found.narrow(axis, int(first), int(end)) if found is not None else None
        for axis, step in enumerate(params["strides"] or ()):
            found = found.every(axis, int(step)) if found is not None else None
        return found
    if node.name == "split":
        axis = int(params["axis"])
        first = sum(int(s) for s in params["sizes"][: node.outputs.index(var)])
        return layout.narrow(axis, first, first + var.shape[axis])
    if node.name == "as_strided":
        # Strides refer to the memory of the operand, which is known only for a row-major operand.
        if not layout.is_row_major(math.prod(layout.shape)):
            return None
        strided: tuple[Dim, ...] = tuple(((n, s),) if n != 1 else () for n, s in zip(var.shape, params["strides"]))
        return Layout(strided, params["offset"])
    return None


def along(views: Iterable[tuple[Var, Node]], layout: Layout | None) -> Layout | None:
    """The layout after a chain of views that starts at a value with `layout`; None if `viewed` returns None for one."""
    for made, view in views:
        layout = viewed(made, view, layout) if layout is not None else None
    return layout


def base_of(value: Atom) -> tuple[Atom, Layout | None]:
    """(The value that another is a view of, the layout of the view in it or None.)"""
    views = []
    while isinstance(value, Var) and value.node is not None and value.node.name in (*PARTS, *WHOLE):
        views.append((value, value.node))
        value = value.node.inputs[0]
    return value, along(reversed(views), row_major(value.shape))
