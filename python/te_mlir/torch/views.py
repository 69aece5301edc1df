"""Where the elements of a node lie that only views another: the ops that cost nothing."""

from __future__ import annotations

import operator
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch.fx import Node

from te_mlir.layout import Dim, Layout, row_major
from te_mlir.torch import patterns

Given = Dict[str, Any]


def source_of(node: Node) -> Optional[Node]:
    """What `node` views, one of several views of it perhaps; None where it is no view that is followed."""
    if node.op != "call_function":
        return None
    if node.target is operator.getitem:
        split: Any = node.args[0]
        return split.args[0] if any(patterns.is_op(split, name) for name in patterns.SPLITS) else None
    source: Any = node.args[0] if node.args else None
    # A view may also be one of the same bits as another type.
    follows = _op(node) in _VIEWS and node.meta["val"].dtype is source.meta["val"].dtype
    return source if follows else None


def layout_of(node: Node, source: Layout) -> Optional[Layout]:
    """How `node` lies where what it views lies as `source`; None where that is not followed."""
    if node.target is operator.getitem:
        found = _part(node.args[0], node.args[1], source)  # type: ignore[arg-type]
    else:
        found = _VIEWS[_op(node)](node, given(node), source)
    shape = tuple(node.meta["val"].shape)
    return found if found is not None and found.shape == shape else None


def given(node: Node) -> Given:
    """The arguments of an ATen op by name."""
    target: Any = node.target
    defaults = {a.name: a.default_value for a in target._schema.arguments if a.has_default_value()}
    return {**defaults, **dict(zip((a.name for a in target._schema.arguments), node.args)), **node.kwargs}


def _op(node: Node) -> str:
    target = str(node.target)
    return target.split(".")[1] if target.startswith("aten.") else target


def _same(node: Node, given: Given, source: Layout) -> Layout:
    # Where memory lies is not theirs to say here: layouts are followed to their use.
    return source


def _reshaped(node: Node, given: Given, source: Layout) -> Optional[Layout]:
    return source.reshape(node.meta["val"].shape)


def _swapped(node: Node, given: Given, source: Layout) -> Layout:
    order = list(range(len(source.dims)))
    a, b = [given[name] for name in ("dim0", "axis0", "dim1", "axis1") if name in given] or (-2, -1)
    if len(order) > 1:
        order[a], order[b] = order[b], order[a]
    return source.permute(order)


def _reversed(node: Node, given: Given, source: Layout) -> Layout:
    return source.permute(range(len(source.dims))[::-1])


def _permuted(node: Node, given: Given, source: Layout) -> Layout:
    return source.permute([axis % len(source.dims) for axis in given["dims"]])


def _repeated(node: Node, given: Given, source: Layout) -> Optional[Layout]:
    return source.expand(node.meta["val"].shape)


def _sliced(node: Node, given: Given, source: Layout) -> Optional[Layout]:
    if given["step"] != 1:
        return None
    axis = given["dim"] % len(source.dims)
    size, start = source.shape[axis], given["start"] or 0
    first = min(max(start + size if start < 0 else start, 0), size)
    return source.narrow(axis, first, first + node.meta["val"].shape[axis])


def _selected(node: Node, given: Given, source: Layout) -> Optional[Layout]:
    axis = given["dim"] % len(source.dims)
    index = given["index"] % source.shape[axis]
    return _without(source.narrow(axis, index, index + 1), axis)


def _strided(node: Node, given: Given, source: Layout) -> Optional[Layout]:
    if not source.is_row_major(row_count(source)):
        return None
    dims: List[Dim] = [((n, s),) if n != 1 else () for n, s in zip(given["size"], given["stride"])]
    return Layout(tuple(dims), given["storage_offset"] or 0)


def _part(split: Node, index: int, source: Layout) -> Optional[Layout]:
    parts = split.meta["val"]
    is_unbind = patterns.is_op(split, "unbind")
    axis = given(split)["dim"] % len(source.dims)
    sizes = [1 if is_unbind else part.shape[axis] for part in parts]
    index %= len(sizes)
    first = sum(sizes[:index])
    part = source.narrow(axis, first, first + sizes[index])
    return _without(part, axis) if is_unbind else part


def _without(layout: Optional[Layout], axis: int) -> Optional[Layout]:
    """A dimension of size 1 less."""
    if layout is None:
        return None
    return Layout(layout.dims[:axis] + layout.dims[axis + 1 :], layout.offset)


def row_count(layout: Layout) -> int:
    """Elements of a layout."""
    count = 1
    for size in layout.shape:
        count *= size
    return count


_VIEWS: Dict[str, Callable[[Node, Given, Layout], Optional[Layout]]] = {
    **dict.fromkeys(("contiguous", "clone", "alias"), _same),
    **dict.fromkeys(("view", "reshape", "_unsafe_view", "flatten", "unflatten", "unsqueeze", "squeeze"), _reshaped),
    **dict.fromkeys(("transpose", "swapaxes", "swapdims", "t", "mT"), _swapped),
    "numpy_T": _reversed,
    "permute": _permuted,
    **dict.fromkeys(("expand", "broadcast_to"), _repeated),
    "slice": _sliced,
    "select": _selected,
    "as_strided": _strided,
}


class Part(NamedTuple):
    """A view of columns `first` to `end` - 1 of a matrix, of all its rows; its layout in the matrix of these alone."""

    node: Node
    first: int
    end: int
    layout: Layout

    @staticmethod
    def of(node: Node, layout: Layout, rows: int, columns: int) -> "Optional[Part]":
        """The part that `layout` is of a matrix; None where it is other than some columns of every row."""
        atoms = [atom for dim in layout.dims for atom in dim]
        across = sorted((stride, size) for size, stride in atoms if stride < columns)
        width = _run(across, 1)
        down = _run(sorted((stride, size) for size, stride in atoms if stride >= columns), columns)
        if width is None or down != columns * rows or layout.offset + width > columns:
            return None
        moved = [
            tuple((size, stride if stride < columns else stride // columns * width) for size, stride in dim)
            for dim in layout.dims
        ]
        dims = tuple(tuple(Layout((dim,)).atoms) for dim in moved)
        if any(len(dim) > 1 for dim in dims):
            return None
        return Part(node, layout.offset, layout.offset + width, Layout(dims))


def _run(atoms: List[Tuple[int, int]], unit: int) -> Optional[int]:
    """Where atoms (stride, size) end that follow one another, the first with stride `unit`."""
    for stride, size in atoms:
        if stride != unit:
            return None
        unit *= size
    return unit


def parts(node: Node, rows: int, columns: int) -> Optional[List[Part]]:
    """All parts of columns that are used of a matrix, which `node` is; None where it is used otherwise too."""
    found: List[Part] = []
    pending = [(node, row_major(tuple(node.meta["val"].shape)))]
    while pending:
        current, layout = pending.pop()
        for user in current.users:
            views = list(user.users) if any(patterns.is_op(user, name) for name in patterns.SPLITS) else [user]
            for view in views:
                if source_of(view) is not current:
                    return None
                lies = layout_of(view, layout)
                if lies is None:
                    return None
                if row_count(lies) == rows * columns:
                    pending.append((view, lies))
                    continue
                part = Part.of(view, lies, rows, columns)
                if part is None:
                    return None
                found.append(part)
    return found


__all__ = ["Part", "given", "layout_of", "parts", "row_count", "source_of"]
