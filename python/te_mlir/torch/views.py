"""Where the elements of a node lie that only views another: the ops that cost nothing."""

from __future__ import annotations

from typing import NamedTuple

from torch.fx import Node

from te_mlir.frontend.graph import Node as Operation
from te_mlir.frontend.graph import Var
from te_mlir.frontend.views import VIEWS, viewed
from te_mlir.layout import Layout, row_major
from te_mlir.torch import adapter, patterns
from te_mlir.torch.adapter import SPLITS, Adapter


def source_of(node: Node) -> Node | None:
    """What `node` views, one of several views of it perhaps; None where it is no view that is followed."""
    steps = _steps(node)
    return steps[0][1].inputs[0].origin if steps else None


def layout_of(node: Node, source: Layout) -> Layout | None:
    """How `node` lies where what it views lies as `source`; None where that is not followed."""
    found: Layout | None = source
    for var, made in _steps(node):
        found = viewed(var, made, found) if found is not None else None
    shape = tuple(node.meta["val"].shape)
    return found if found is not None and found.shape == shape else None


def _steps(node: Node) -> list[tuple[Var, Operation]]:
    """The views that `node` is of another, the first first; none where it is no view that is followed."""
    var, steps = Adapter().var(node), []
    while True:
        made = var.node
        if made is None or made.name not in VIEWS or (made.name == "copy" and adapter.name_of(node) not in _SAME):
            return []
        steps.append((var, made))
        var = made.inputs[0]
        if var.origin is not None:
            return steps[::-1]


#: What gives a tensor as it is.
_SAME = ("contiguous", "clone", "alias")


def row_count(layout: Layout) -> int:
    """Elements of a layout."""
    count = 1
    for size in layout.shape:
        count *= size
    return count


class Part(NamedTuple):
    """A view of columns `first` to `end` - 1 of a matrix, of all its rows; its layout in the matrix of these alone."""

    node: Node
    first: int
    end: int
    layout: Layout

    @staticmethod
    def of(node: Node, layout: Layout, rows: int, columns: int) -> Part | None:
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


def _run(atoms: list[tuple[int, int]], unit: int) -> int | None:
    """Where atoms (stride, size) end that follow one another, the first with stride `unit`."""
    for stride, size in atoms:
        if stride != unit:
            return None
        unit *= size
    return unit


def parts(node: Node, rows: int, columns: int) -> list[Part] | None:
    """All parts of columns that are used of a matrix, which `node` is; None where it is used otherwise too."""
    found: list[Part] = []
    pending = [(node, row_major(tuple(node.meta["val"].shape)))]
    while pending:
        current, layout = pending.pop()
        for user in current.users:
            views = list(user.users) if any(patterns.is_op(user, name) for name in SPLITS) else [user]
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


__all__ = ["Part", "layout_of", "parts", "row_count", "source_of"]
