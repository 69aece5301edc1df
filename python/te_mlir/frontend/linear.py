"""Finds and emits linear layers: GEMMs with a weight, with or without a bias. The axes of operands may be in any order.

In the graph, a GEMM is a `dot_general` and a bias is an `add`. This file finds which operand is the weight, which axes are
rows and columns, and which value is the bias. Each frontend defines how a weight becomes an argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from te_mlir import build
from te_mlir.frontend.base import Unsupported, Value
from te_mlir.frontend.elementwise import Elementwise
from te_mlir.frontend.graph import Atom, Node, Var, short
from te_mlir.frontend.looking import is_widened, narrowest, node_of, uncast
from te_mlir.frontend.parts import Columns
from te_mlir.frontend.views import along, base_of
from te_mlir.layout import Layout, row_major, same

#: Returns whether a value is a weight, or a view or a cast of one.
IsWeight = Callable[[Atom], bool]
#: Returns the nodes that read a value.
Readers = Callable[[Var], Iterable[Node]]


class Operand(NamedTuple):
    """An operand of a GEMM as a matrix: `free` are the axes of its rows, `summed` those that the GEMM sums over."""

    atom: Atom
    free: tuple[int, ...]
    summed: tuple[int, ...]

    @property
    def rows(self) -> int:
        return math.prod(self.atom.shape[a] for a in self.free)

    def is_transposed(self, layout: Layout) -> bool:
        """Whether an operand with this layout is stored as [summed, free], and not as [free, summed]."""
        count = math.prod(self.atom.shape)
        if layout.permute([*self.free, *self.summed]).is_row_major(count):
            return False
        return layout.permute([*self.summed, *self.free]).is_row_major(count)


class Linear(NamedTuple):
    """`x w^T + bias`. node: the GEMM. layout: that of the result in the matrix [rows of x, rows of w]."""

    node: Node
    x: Operand
    w: Operand
    bias: Var | None
    layout: Layout

    @property
    def rows(self) -> int:
        return self.x.rows

    @property
    def columns(self) -> int:
        return self.w.rows


def match_linear(var: Var, is_weight: IsWeight, readers: Readers) -> Linear | None:
    """The linear layer that computes a value: a GEMM without batches, or the sum of one and a bias. None if there is none."""
    node = var.node
    if node is None or node.name != "add":
        return _gemm(node, is_weight, readers) if node is not None and node.name == "dot_general" else None
    for product, shift in (node.inputs, node.inputs[::-1]):
        found = _below(node, product, is_weight, readers)
        if found is None or found.layout.shape != var.shape:
            continue
        bias = _bias(shift, found)
        # A vector that one operation of the framework adds to its own GEMM is a bias even if it is computed.
        if bias is not None and (is_weight(bias) or found.node.origin is node.origin):
            return found._replace(bias=bias)
    return None


def _gemm(node: Node, is_weight: IsWeight, readers: Readers) -> Linear | None:
    """The layer of a GEMM without a bias; None if it has batches."""
    (axes, batches) = node.params["dimension_numbers"]
    if batches[0]:
        return None
    # The summed axes are in the order in which x has them.
    summed = sorted(zip(*((int(a) for a in axes[n]) for n in (0, 1))))
    # The weight is the second operand, unless only the first is one.
    weights = [is_weight(operand) for operand in node.inputs]
    which = 1 if weights[1] or not weights[0] else 0
    if all(weights) and _is_transposed_after(node, readers):
        which = 0
    if which == 0:
        summed.sort(key=lambda pair: pair[1])
    operands = []
    for n, atom in enumerate(node.inputs):
        own = tuple(pair[n] for pair in summed)
        operands.append(Operand(atom, tuple(a for a in range(len(atom.shape)) if a not in own), own))
    x, w = operands[1 - which], operands[which]
    layout = row_major([x.atom.shape[a] for a in x.free] + [w.atom.shape[a] for a in w.free])
    if which == 0:
        count = len(x.free)
        layout = layout.permute([*range(count, count + len(w.free)), *range(count)])
    return Linear(node, x, w, None, layout)


def _is_transposed_after(node: Node, readers: Readers) -> bool:
    """Whether all readers move the axes of the first operand to the end, as in `w @ x` under `jax.vmap`."""
    count = len(node.inputs[0].shape) - len(node.params["dimension_numbers"][0][0])
    order = [*range(count, len(node.output.shape)), *range(count)]
    found = list(readers(node.output))
    return bool(found) and all(r.name == "transpose" and list(r.params["permutation"]) == order for r in found)


def _below(node: Node, product: Atom, is_weight: IsWeight, readers: Readers) -> Linear | None:
    """The GEMM that an operand of a sum is a view of, with the layout of that operand; None if others read the views."""
    views: list[tuple[Var, Node]] = []
    # If the sum has a wider type, the GEMM is rounded before the bias is added, which one op would not do.
    if product.dtype != node.output.dtype:
        return None
    while isinstance(product, Var) and product.uses == 1 and not is_widened(product):
        by = node_of(product, "transpose", "reshape", "squeeze", "convert_element_type", "copy", "dot_general")
        # A node that is computed separately may only contain what the framework has in the same operation.
        if by is None or (node.apart and by.origin is not node.origin):
            return None
        if by.name == "dot_general":
            found = _gemm(by, is_weight, readers)
            layout = along(reversed(views), found.layout) if found is not None else None
            return found._replace(layout=layout) if found is not None and layout is not None else None
        if by.name == "convert_element_type" and uncast(product) is product:
            return None
        views.append((product, by))
        product = by.inputs[0]
    return None


def _bias(shift: Atom, found: Linear) -> Var | None:
    """The vector with one element for each column of a GEMM that a sum adds to every row; None if it adds something else."""
    layout, columns, dtype = found.layout, found.columns, found.node.output.dtype
    base, views = _unrounded(shift, dtype), []
    while (by := node_of(base, "broadcast_in_dim", "reshape", "squeeze", "expand_dims")) is not None:
        views.append((by.output, by))
        base = _unrounded(by.inputs[0], dtype)
    if not isinstance(base, Var) or math.prod(base.shape) != columns:
        return None
    source, stored = base_of(uncast(base))
    if stored is not None and stored.is_whole(math.prod(source.shape)) and not stored.is_row_major(columns):
        return None
    lies = along(reversed(views), row_major(base.shape))
    lies = lies.expand(layout.shape) if lies is not None and len(lies.dims) == len(layout.dims) else None
    wanted = [tuple((size, stride if stride < columns else 0) for size, stride in dim) for dim in layout.dims]
    return base if lies is not None and same(lies, Layout(tuple(wanted))) else None


def _unrounded(value: Atom, dtype: str) -> Atom:
    """The value before casts that a single cast to `dtype` replaces without changing a bit."""
    return uncast(value) if value.dtype == dtype and not is_widened(value) else narrowest(value)


class Linears(Elementwise):
    """Emits linear layers."""

    # Defined by each frontend

    def is_weight(self, atom: Atom) -> bool:
        """Whether a value is a weight, or a view or a cast of one."""
        raise NotImplementedError

    def layer_name(self, w: Atom, part: Columns | None, user: Node) -> str | None:
        """The name in reports of the layer with this weight, or with `part` of it; None if the compiler chooses one."""
        raise NotImplementedError

    def weight(self, w: Operand, part: Columns | None, user: Node) -> tuple[build.Value, bool]:
        """The weight as the matrix [free, summed], or as [summed, free] and True. part: the rows of [free, summed] to take."""
        value = self.value(w.atom, user)
        transposed = w.is_transposed(value.layout)
        order = (w.summed, w.free) if transposed else (w.free, w.summed)
        return self.matrix(w.atom, user, *order), transposed

    def bias(self, bias: Var, part: Columns | None, user: Node, dtype: str) -> build.Value:
        """The bias as a vector of elements `dtype`. part: the elements to take."""
        return self.vector(bias, user, dtype)

    def matrix(self, atom: Atom, user: Node, rows: Sequence[int], columns: Sequence[int]) -> build.Value:
        """A value as a matrix, with the axes that are its rows and those that are its columns."""
        value, order = self.value(atom, user), [*rows, *columns]
        shape = [math.prod(atom.shape[a] for a in axes) for axes in (rows, columns)]
        if not shape[1]:
            raise Unsupported(user, f"its operand {list(atom.shape)} has no columns")
        elements = self.in_order(Value(value.matrix, value.layout.permute(order)), user)
        return self.function.reshape(elements, shape)

    # Emission

    def linear_of(self, var: Var) -> Linear | None:
        """The linear layer that computes a value, if its GEMM is emitted into this function."""
        found = match_linear(var, self.is_weight, self.readers)
        return found if found is not None and self.is_inside(found.node.output) else None

    def linear(self, var: Var, found: Linear, part: Columns | None = None) -> build.Value:
        """Emits a layer; returns its matrix, in elements of the type of `var`. part: the columns to compute."""
        node, x, w = found.node, found.x, found.w
        self.check_floats(node)
        dtype = node.output.dtype
        if dtype not in (x.atom.dtype, w.atom.dtype):
            raise Unsupported(
                node,
                f"expected its result in the type of its operands, but got {short(dtype)}; cast the result, and leave "
                "out preferred_element_type",
            )
        rows = self.matrix(x.atom, node, x.free, x.summed)
        weight, transposed = self.weight(w, part, node)
        rows, weight = self.function.cast(rows, dtype), self.function.cast(weight, dtype)
        bias = self.bias(found.bias, part, node, dtype) if found.bias is not None else None
        layer = self.layer_name(w.atom, part, node)
        made = self.function.linear(rows, weight, bias, layer=layer, transposed_weight=transposed)
        return self.function.cast(made, var.dtype)

    def matmul(self, var: Var, node: Node) -> Value:
        found = self.linear_of(var)
        assert found is not None, "batched products are attention"
        return Value(self.linear(var, found), found.layout)

    def _op_add(self, var: Var, node: Node) -> Value:
        found = self.linear_of(var)
        return Value(self.linear(var, found), found.layout) if found is not None else super()._op_add(var, node)
