"""Products of values with weights, in any order of axes, with a bias, and of some columns of the weight.

The dialect has no parts of values. A product of which only columns are read is one
product for each part, with these columns of the weight, which JAX cuts before the call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

from te_mlir import build
from te_mlir.frontend.base import Unsupported, Value
from te_mlir.frontend.graph import Atom, Node, Var, short
from te_mlir.frontend.looking import node_of, uncast
from te_mlir.frontend.views import PARTS, viewed
from te_mlir.jax.arguments import Arguments
from te_mlir.jax.parts import Columns, columns_of, is_whole_view, within
from te_mlir.layout import Layout, row_major, same


class Operands(NamedTuple):
    """Of a product: x, the axes of its rows and those that are summed over, and the same of the weight.

    layout: how the product lies in a matrix [rows, columns], which a row of x and a column of the weight make.
    """

    x: Atom
    x_free: tuple[int, ...]
    x_axes: tuple[int, ...]
    w: Atom
    w_free: tuple[int, ...]
    w_axes: tuple[int, ...]
    layout: Layout

    @property
    def rows(self) -> int:
        return math.prod(self.x.shape[a] for a in self.x_free)

    @property
    def columns(self) -> int:
        return math.prod(self.w.shape[a] for a in self.w_free)


class Product(NamedTuple):
    """A product, with a bias or without, and how it lies in its matrix [rows, columns]."""

    node: Node
    bias: Var | None
    layout: Layout


class Products(Arguments):
    """Emits products."""

    def matmul(self, var: Var, node: Node) -> Value:
        return Value(self.product(var, node, None), self.operands(node).layout)

    def operands(self, node: Node) -> Operands:
        """What of a product is x and what the weight."""
        (axes, _) = node.params["dimension_numbers"]
        # What is summed over goes in the order that the axes of x have.
        summed = sorted(zip(*((int(a) for a in axes[n]) for n in (0, 1))))
        operands = [(node.inputs[n], tuple(pair[n] for pair in summed)) for n in (0, 1)]
        # The weight is the operand that is an argument, or made of one; the second where both are.
        light = [self.is_light(operand) for operand, _ in operands]
        which = 1 if light[1] or not light[0] else 0
        if all(light) and self._is_turned_after(node):
            which = 0
        if which == 0:
            summed = sorted(summed, key=lambda pair: pair[1])
            operands = [(node.inputs[n], tuple(pair[n] for pair in summed)) for n in (0, 1)]
        (x, x_axes), (w, w_axes) = operands[1 - which], operands[which]
        x_free = tuple(a for a in range(len(x.shape)) if a not in x_axes)
        w_free = tuple(a for a in range(len(w.shape)) if a not in w_axes)
        layout = row_major([x.shape[i] for i in x_free] + [w.shape[i] for i in w_free])
        if which == 0:
            count = len(x_free)
            layout = layout.permute(list(range(count, count + len(w_free))) + list(range(count)))
        return Operands(x, x_free, x_axes, w, w_free, w_axes, layout)

    def _is_turned_after(self, node: Node) -> bool:
        """Whether a product is but read with the axes of its first operand last, as `jax.vmap` makes it of `w @ x`."""
        summed = [int(a) for a in node.params["dimension_numbers"][0][0]]
        count, rank = len(node.inputs[0].shape) - len(summed), len(node.output.shape)
        readers = self.readers(node.output)
        order = [*range(count, rank), *range(count)]
        return bool(readers) and all(r.name == "transpose" and list(r.params["permutation"]) == order for r in readers)

    def product(self, var: Var, node: Node, bias: Var | None, part: Columns | None = None) -> build.Value:
        """The matrix of a product in elements of `var`, or of these columns of it."""
        x, x_free, x_axes, w, w_free, w_axes, _ = self.operands(node)
        if node.output.dtype not in (x.dtype, w.dtype):
            raise Unsupported(
                node,
                f"its result has elements of {short(node.output.dtype)}; te rounds a product to its operands' type, so "
                "cast the result (and leave out preferred_element_type)",
            )
        matrix = self._operand(x, node, x_free, x_axes, "rows")
        turned = self._is_turned(w, w_free, w_axes, node)
        order = (w_axes, w_free) if turned else (w_free, w_axes)
        weight = self._weight(w, node, *order) if part is None else self._cut(w, node, *order, part, int(turned))
        dtype = node.output.dtype
        matrix, weight = self.function.cast(matrix, dtype), self.function.cast(weight, dtype)
        vector = None
        if bias is not None:
            axes = range(len(bias.shape))
            vector = self.vector(bias, node, dtype) if part is None else self._cut(bias, node, axes, (), part, 0)
            vector = self.function.cast(vector, dtype)
        label = self.label_of(w)
        layer = None if label.startswith("value") else label if part is None else f"{label}.{part.name}"
        y = self.function.linear(matrix, weight, vector, layer=layer, transposed_weight=turned)
        return self.function.cast(y, var.dtype)

    def _cut(
        self, atom: Atom, node: Node, left: Sequence[int], right: Sequence[int], part: Columns, axis: int
    ) -> build.Value:
        """Columns of a weight or a bias, which JAX cuts of the argument: [left, right], of which `axis` are columns."""
        inner, types = atom, []
        # te keeps casts of weights.
        while isinstance(inner, Var) and inner.node is not None and inner.node.name == "convert_element_type":
            types.append(inner.dtype)
            inner = inner.node.inputs[0]
        sizes = [math.prod(atom.shape[a] for a in axes) for axes in (left, right)[: 1 + bool(right)]]

        def make(array: Any) -> Any:
            return part.cut(jnp.transpose(array, (*left, *right)).reshape(sizes), axis)

        shape = [part.number if n == axis else size for n, size in enumerate(sizes)]
        how = (*left, len(left), *part.extents, *part.starts, *part.counts)
        made = self.feed(inner, part.name, make, shape, user=node, how=how)
        self.mark(made)
        for dtype in reversed(types):
            made = self.function.cast(made, dtype)
        return made

    def product_of(self, var: Var, node: Node) -> Product | None:
        """The product that a value is, with a bias that is added perhaps; None where it is none."""
        if node.name == "dot_general":
            batched = node.params["dimension_numbers"][1][0]
            return None if batched else Product(node, None, self.operands(node).layout)
        for product, shift in (node.inputs, node.inputs[::-1]) if node.name == "add" else ():
            current, views = uncast(product), []
            while isinstance(current, Var) and current.uses == 1:
                by = node_of(current, "transpose", "reshape", "squeeze")
                if by is None:
                    break
                views.append((current, by))
                current = by.inputs[0]
            inner = node_of(current, "dot_general")
            if inner is None or inner.output.uses != 1 or inner.params["dimension_numbers"][1][0]:
                continue
            # The sum is rounded to the type of the product.
            if inner.output.dtype not in (var.dtype, "float32"):
                continue
            operands = self.operands(inner)
            layout: Layout | None = operands.layout
            for view, by in reversed(views):
                layout = viewed(view, by, layout) if layout is not None else None
            if layout is None or layout.shape != var.shape:
                continue
            bias = self._bias(shift, layout, operands.columns)
            if bias is not None:
                return Product(inner, bias, layout)
        return None

    def _bias(self, shift: Atom, layout: Layout, columns: int) -> Var | None:
        """What of an argument is added to each row of a product, one element to each column; None where it is not."""
        base, views = uncast(shift), []
        while node_of(base, "broadcast_in_dim", "reshape", "squeeze", "expand_dims"):
            views.append((base, base.node))
            base = uncast(base.node.inputs[0])  # type: ignore[union-attr]
        if not isinstance(base, Var) or math.prod(base.shape) != columns or not self.is_light(base):
            return None
        memory = self.layout_of(base)
        if memory is not None and not memory.is_row_major(columns):
            return None
        lies: Layout | None = row_major(base.shape)
        for view, by in reversed(views):
            lies = viewed(view, by, lies) if lies is not None else None  # type: ignore[arg-type]
        lies = lies.expand(layout.shape) if lies is not None and len(lies.dims) == len(layout.dims) else None
        wanted = [tuple((size, stride if stride < columns else 0) for size, stride in dim) for dim in layout.dims]
        return base if lies is not None and same(lies, Layout(tuple(wanted))) else None

    def _is_turned(self, w: Atom, free: Sequence[int], axes: Sequence[int], user: Node) -> bool:
        """Whether a weight lies [summed, free], as most of JAX's do, and not [free, summed]."""
        lies = self.layout_of(w) if self.is_light(w) else self.value(w, user).layout
        if lies is None or lies.permute([*free, *axes]).is_row_major(math.prod(w.shape)):
            return False
        return lies.permute([*axes, *free]).is_row_major(math.prod(w.shape))

    def _operand(self, atom: Atom, node: Node, free: Sequence[int], axes: Sequence[int], key: str) -> build.Value:
        """An operand as [free, axes]: its own memory where it lies so, else transposed by JAX."""
        order = [*free, *axes]
        shape = math.prod(atom.shape[a] for a in free), math.prod(atom.shape[a] for a in axes)
        # What is looked at must not be fed yet: an argument that nobody reads would be left.
        if self.is_light(atom) and not self.is_stored(atom, order):
            make = lambda a: jnp.transpose(a, order).reshape(shape)
            return self.feed(atom, key, make, shape, user=node, how=tuple(order))
        value = self.value(atom, node)
        if not value.layout.permute(order).is_row_major(value.elements):
            raise Unsupported(node, f"its operand {list(atom.shape)} is computed, and a view that is not row-major")
        return self.function.reshape(value.matrix, shape)

    def _weight(self, atom: Atom, node: Node, free: Sequence[int], axes: Sequence[int]) -> build.Value:
        """A matrix [free, axes] that is a weight where JAX makes it of an argument by moving and casting elements."""
        if self.is_stored(atom, [*free, *axes]):
            shape = math.prod(atom.shape[a] for a in free), math.prod(atom.shape[a] for a in axes)
            return self.parameter(atom, shape, node)
        matrix = self._operand(atom, node, free, axes, "transposed")
        self.mark(matrix)
        return matrix

    # Columns of products

    def _op_slice(self, var: Var, node: Node) -> Value:
        return self._part(var, node) or self.view(var, node)

    _op_split = _op_slice

    def _part(self, var: Var, node: Node) -> Value | None:
        """A part of a product that is read in parts alone; None where it is none."""
        views = [(var, node)]
        base = node.inputs[0]
        while isinstance(base, Var) and base.node is not None and (is_whole_view(base) or base.node.name in PARTS):
            views.append((base, base.node))
            base = base.node.inputs[0]
        if not isinstance(base, Var) or base.node is None or self.is_made(base):
            return None
        product = self.product_of(base, base.node)
        if product is None:
            return None
        operands = self.operands(product.node)
        rows, columns = operands.rows, operands.columns
        # Of a weight that is computed there are no parts.
        if not self.is_light(operands.w) or not self._is_read_in_parts(base, product.layout, rows, columns):
            return None
        lies: Layout | None = product.layout
        types = []
        for value, view in reversed(views):
            lies = viewed(value, view, lies) if lies is not None else None
            types += [value.dtype] if view.name == "convert_element_type" else []
        part = columns_of(lies, rows, columns) if lies is not None else None
        if lies is None or part is None:
            return None
        made = self.product(base, product.node, product.bias, part)
        for dtype in types:
            made = self.function.cast(made, dtype)
        return Value(made, within(lies, columns, part))

    def _is_read_in_parts(self, base: Var, layout: Layout, rows: int, columns: int) -> bool:
        """Whether nothing reads a product, or a view of it, but parts that are columns."""
        stack = [(base, layout)]
        while stack:
            value, lies = stack.pop()
            if value in self.graph.outputs:
                return False
            for user in self.readers(value):
                for made in user.outputs:
                    if user.name not in PARTS and not is_whole_view(made):
                        return False
                    part = viewed(made, user, lies)
                    if part is None:
                        return False
                    if part.is_whole(rows * columns):
                        stack.append((made, part))
                    elif columns_of(part, rows, columns) is None or made in self.graph.outputs:
                        return False
        return True

    # Sums

    def _op_add(self, var: Var, node: Node) -> Value:
        product = self.product_of(var, node)
        if product is not None:
            return Value(self.product(var, product.node, product.bias), product.layout)
        return super()._op_add(var, node)
