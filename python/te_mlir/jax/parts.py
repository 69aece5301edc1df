"""Products that are read in parts: fused queries, keys and values, and gates beside what they gate.

The dialect has no parts of values. A product of which columns alone are read is one
product for each part, with these columns of the weight, which JAX cuts before the call.
Two halves that are gated stay whole: `te.activation` reads both.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from te_mlir import build
from te_mlir.jax.graph import Atom, Node, Var, ancestors
from te_mlir.jax.views import viewed
from te_mlir.layout import Dim, Layout, row_major, same

if TYPE_CHECKING:
    from te_mlir.jax.importer import Importer, Value

_PARTS = ("slice", "split")
_WHOLE = ("reshape", "squeeze", "expand_dims", "transpose", "copy")


class Columns(NamedTuple):
    """Columns of a matrix: seen as the extents, `counts` of each from its start on."""

    extents: Tuple[int, ...]
    starts: Tuple[int, ...]
    counts: Tuple[int, ...]

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


def users(outputs: Sequence[Atom]) -> Dict[Var, List[Node]]:
    """The nodes that read each value, of those that results need."""
    found: Dict[Var, List[Node]] = {}
    for node in {node for output in outputs if isinstance(output, Var) for node in ancestors(output)}:
        for value in set(node.inputs):
            if isinstance(value, Var):
                found.setdefault(value, []).append(node)
    return found


def emit(importer: "Importer", var: Var, node: Node) -> "Optional[Value]":
    """A part of a product that is read in parts alone; None where it is none."""
    from te_mlir.jax.importer import Value

    views = [(var, node)]
    base = node.inputs[0]
    while isinstance(base, Var) and base.node is not None and (_is_whole_view(base) or base.node.name in _PARTS):
        views.append((base, base.node))
        base = base.node.inputs[0]
    if not isinstance(base, Var) or base.node is None or importer.is_made(base):
        return None
    product = importer.product_of(base, base.node)
    if product is None:
        return None
    operands = importer.operands(product.node)
    rows, columns = operands.rows, operands.columns
    # Of a weight that is computed there are no parts.
    if not importer.is_light(operands.w) or not _is_read_in_parts(importer, base, product.layout, rows, columns):
        return None
    lies: Optional[Layout] = product.layout
    types = []
    for value, view in reversed(views):
        lies = viewed(value, view, lies) if lies is not None else None
        types += [value.dtype] if view.name == "convert_element_type" else []
    part = _columns(lies, rows, columns) if lies is not None else None
    if lies is None or part is None:
        return None
    made = importer.product(base, product.node, product.bias, part)
    for dtype in types:
        made = importer.function.cast(made, np.dtype(dtype).name)
    return Value(made, _within(lies, columns, part))


def halves(importer: "Importer", first: Var, second: Var, gated: Var) -> Optional[build.Value]:
    """The matrix [rows, 2 n] whose rows two values are the halves of, in order, where `gated` alone needs them."""
    (base, layout), (other, beside) = _base_of(first), _base_of(second)
    if layout is None or beside is None or base is not other or not isinstance(base, Var) or not first.shape:
        return None
    width, count = first.shape[-1], math.prod(base.shape)
    rows = count // (2 * width)
    wanted = row_major((rows, 2 * width)).narrow(1, 0, width)
    assert wanted is not None, "a half of one atom"
    if rows * 2 * width != count or layout.offset or layout.atoms != wanted.atoms:
        return None
    if not same(beside, layout._replace(offset=width)):
        return None
    inside = ancestors(gated)
    if any(user not in inside for half in (first, second) for user in importer.users.get(half, ())):
        return None
    value = importer.value(base)
    if not value.layout.is_row_major(value.elements):
        return None
    return importer.function.reshape(value.matrix, (rows, 2 * width))


def _base_of(value: Atom) -> Tuple[Atom, Optional[Layout]]:
    """What a value is a view of, and how it lies there."""
    views = []
    while isinstance(value, Var) and value.node is not None and value.node.name in (*_PARTS, *_WHOLE):
        views.append((value, value.node))
        value = value.node.inputs[0]
    layout: Optional[Layout] = row_major(value.shape)
    for made, view in reversed(views):
        layout = viewed(made, view, layout) if layout is not None else None
    return value, layout


def _is_whole_view(value: Atom) -> bool:
    """Whether a value is a view of another, whole, or a cast between floats."""
    if not isinstance(value, Var) or value.node is None:
        return False
    if value.node.name == "convert_element_type":
        operand = value.node.inputs[0]
        return isinstance(operand, Var) and operand.floating and value.floating
    return value.node.name in _WHOLE


def _is_read_in_parts(importer: "Importer", base: Var, layout: Layout, rows: int, columns: int) -> bool:
    """Whether nothing reads a product, or a view of it, but parts that are columns."""
    stack = [(base, layout)]
    while stack:
        value, lies = stack.pop()
        if value in importer.graph.outputs:
            return False
        for user in importer.users.get(value, ()):
            for made in user.outputs:
                if user.name not in _PARTS and not _is_whole_view(made):
                    return False
                part = viewed(made, user, lies)
                if part is None:
                    return False
                if part.is_whole(rows * columns):
                    stack.append((made, part))
                elif _columns(part, rows, columns) is None or made in importer.graph.outputs:
                    return False
    return True


def _columns(layout: Layout, rows: int, columns: int) -> Optional[Columns]:
    """The columns of a matrix [rows, columns] that a view has, of all rows; None where it is no such part."""
    atoms = [atom for dim in layout.dims for atom in dim]
    above = tuple((size, stride // columns) for size, stride in atoms if stride >= columns)
    if any(stride % columns for _, stride in atoms if stride >= columns):
        return None
    # All rows, so that the offset is one of columns.
    if not Layout((above,)).is_whole(rows):
        return None
    left = columns
    extents: List[int] = []
    starts: List[int] = []
    counts: List[int] = []
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


def _within(layout: Layout, columns: int, part: Columns) -> Layout:
    """How a view of a matrix lies in the matrix of its columns alone."""
    below = sorted({a for dim in layout.dims for a in dim if a[1] < columns}, key=lambda a: -a[1])
    strides, stride = {}, part.number
    for size, old in below:
        stride //= size
        strides[old] = stride
    dims: List[Dim] = []
    for dim in layout.dims:
        moved = [(size, old // columns * part.number if old >= columns else strides[old]) for size, old in dim]
        dims.append(tuple(moved))
    return Layout(tuple(dims))
