"""Softmax along an axis, as an operation of a framework or spelled out, and maxima that are subtracted before it."""

from __future__ import annotations

import math
from typing import NamedTuple

from te_mlir.frontend.base import Emission, Value
from te_mlir.frontend.graph import Atom, Const, Node, Var
from te_mlir.frontend.looking import is_same, leaf, node_of, of_rows, scalar, uncast
from te_mlir.layout import row_major


class Softmax(NamedTuple):
    """exp(x) / sum(exp(x)) along `axis`."""

    x: Var
    axis: int


def unshifted(value: Atom, axis: int) -> tuple[Atom, Atom | None]:
    """(x, m) if the value is `x - m`, where m is a maximum that is constant along an axis; m is None without it."""
    node = node_of(uncast(value), "sub")
    if node is None or node.inputs[0].shape != value.shape:
        return value, None
    x, m = node.inputs
    return (x, m) if _is_maximum(m) and _is_constant_along(m, axis) else (value, None)


def _is_maximum(value: Atom) -> bool:
    """Whether a value is a maximum along one axis, except for infinities."""
    while True:
        value = uncast(value)
        node = value.node
        if node is None or node.name in ("reduce_max", "argmax"):
            return node is not None
        moved = ("broadcast_in_dim", "reshape", "squeeze", "expand_dims", "stop_gradient", "transpose")
        if node.name not in (*moved, "select_n"):
            return False
        value = node.inputs[-1]


def same_maximum(a: Atom | None, b: Atom | None) -> bool:
    """Whether two values of rows are the same maximum, and both or neither have its gradient."""
    if a is None or b is None:
        return a is b
    (x, x_stopped), (y, y_stopped) = _stopped(a), _stopped(b)
    p, q = node_of(x, "reduce_max"), node_of(y, "reduce_max")
    if p is None or q is None:
        return x is y and x_stopped == y_stopped
    same = is_same(p.inputs[0], q.inputs[0]) and tuple(p.params["axes"]) == tuple(q.params["axes"])
    return same and x_stopped == y_stopped


def _stopped(value: Atom) -> tuple[Atom, bool]:
    """(the value of rows before stop_gradient, whether there is one)."""
    value, found = of_rows(value), False
    while node_of(value, "stop_gradient") is not None:
        value, found = of_rows(value.node.inputs[0]), True  # type: ignore[union-attr]
    return value, found


def _is_constant_along(value: Atom, axis: int) -> bool:
    """Whether a value repeats one element along an axis."""
    while value.shape[axis] != 1:
        value = uncast(value)
        node = node_of(value, "broadcast_in_dim", "stop_gradient")
        if node is None:
            return isinstance(value, Const) and value.compact.shape[axis] == 1
        if node.name == "broadcast_in_dim":
            axes = [int(a) for a in node.params["broadcast_dimensions"]]
            if axis not in axes:
                return True
            axis = axes.index(axis)
        value = node.inputs[0]
    return True


def _total_of(value: Atom) -> tuple[Var, int] | None:
    """(x, axis) if the value is the sum of x along an axis, and is repeated along that axis or has size 1 there."""
    rank = len(value.shape)
    # For each axis of the value, the axis of x that it must be.
    labels: list[int | None] = list(range(rank))
    while True:
        value = uncast(value)
        node = node_of(value, "broadcast_in_dim", "reshape", "squeeze", "expand_dims", "reduce_sum")
        if node is None or not isinstance(node.inputs[0], Var):
            return None
        operand = node.inputs[0]
        if node.name == "reduce_sum":
            break
        if node.name == "broadcast_in_dim":
            labels = [labels[int(a)] for a in node.params["broadcast_dimensions"]]
        elif math.prod(operand.shape) != math.prod(value.shape):
            return None
        else:
            sized = [(size, label) for size, label in zip(value.shape, labels) if size != 1]
            if [size for size, _ in sized] != [size for size in operand.shape if size != 1]:
                return None
            rest = iter([label for _, label in sized])
            labels = [None if size == 1 else next(rest) for size in operand.shape]
        value = operand
    axes = tuple(int(a) for a in node.params["axes"])
    if len(axes) != 1 or len(operand.shape) != rank:
        return None
    kept = [a for a in range(rank) if a != axes[0]]
    if any(size != 1 and label != a for size, label, a in zip(value.shape, labels, kept)):
        return None
    return operand, axes[0]


def match_softmax(value: Atom) -> Softmax | None:
    """The softmax of a framework, or `exp(x - max) / sum(exp(x - max))`, along one axis."""
    named = node_of(uncast(value), "softmax")
    if named is not None:
        axis = int(named.params["axis"])
        x = unshifted(named.inputs[0], axis)[0]
        return Softmax(x, axis) if isinstance(x, Var) else None
    node = node_of(uncast(value), "div")
    if node is None:
        return None
    top, found = node_of(uncast(node.inputs[0]), "exp"), _total_of(node.inputs[1])
    if top is None or found is None or uncast(found[0]) is not top.output or top.output.shape != value.shape:
        return None
    x = unshifted(top.inputs[0], found[1])[0]
    return Softmax(x, found[1]) if isinstance(x, Var) else None


def _scaled(value: Var, result: Var) -> tuple[Var, float]:
    """(x, s) of the product `s * x`, in which te's softmax is f32; s is 1 if the program rounds it to less than the result."""
    node = node_of(value, "mul", "div") if value.dtype in ("float32", result.dtype) else None
    if node is not None:
        for x, factor in (node.inputs, node.inputs[::-1])[: 2 if node.name == "mul" else 1]:
            number = scalar(factor)
            # As f32 has it, and its inverse.
            if number is None or not 2.0**-126 <= abs(number) <= 2.0**126:
                continue
            if isinstance(x, Var) and x.shape == value.shape:
                return x, number if node.name == "mul" else 1 / number
    return value, 1.0


class Softmaxes(Emission):
    """Emits softmax by itself; attention looks for its own before that."""

    def softmax(self, var: Var, node: Node, found: Softmax) -> Value:
        x, scale = _scaled(found.x, var)
        return self._softmax_of(leaf(x), found.axis, scale, var, node)

    def _op_softmax(self, var: Var, node: Node) -> Value:
        return self._softmax_of(node.inputs[0], node.params["axis"], 1.0, var, node)

    def _softmax_of(self, x: Atom, axis: int, scale: float, var: Var, node: Node) -> Value:
        if axis == len(x.shape) - 1:
            matrix, layout = self.rows_in_place(x, node)
        else:
            order = [n for n in range(len(x.shape)) if n != axis] + [axis]
            value = self.value(x, node)
            elements = self.in_order(Value(value.matrix, value.layout.permute(order)), node)
            matrix = self.function.reshape(elements, (math.prod(elements.shape) // x.shape[axis], x.shape[axis]))
            layout = row_major([x.shape[n] for n in order]).permute([order.index(n) for n in range(len(order))])
        # Rounded once: of the type of the result, or in f32.
        matrix = self.function.cast(matrix, var.dtype if matrix.dtype == var.dtype else "float32")
        return Value(self.function.cast(self.function.softmax(matrix, scale), var.dtype), layout)
