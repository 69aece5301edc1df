"""Maxima, sums of first elements, logarithms of sums of exponentials, and log-softmax, along any axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from te_mlir import build
from te_mlir.frontend.base import Unsupported, Value
from te_mlir.frontend.graph import Atom, Node, Var
from te_mlir.frontend.looking import node_of, pairs, uncast
from te_mlir.frontend.softmax import Softmaxes, unshifted
from te_mlir.layout import row_major

#: Operations between a value of rows and where it is used.
_SPREAD = ("broadcast_in_dim", "reshape", "squeeze", "expand_dims")


def _unspread(value: Atom, *names: str) -> Atom:
    """The value before operations that only add or remove axes."""
    while (node := node_of(uncast(value), *_SPREAD, *names)) is not None:
        value = node.inputs[0]
    return uncast(value)


def _log_sum(value: Atom) -> tuple[Atom, Atom, int] | None:
    """(x, m, axis) if the value is log(sum(exp(x - m))) along an axis, where m is a maximum."""
    log = node_of(_unspread(value), "log")
    absolute = node_of(_unspread(log.inputs[0]), "abs") if log is not None else None
    total = node_of(_unspread((absolute or log).inputs[0]), "reduce_sum") if log is not None else None
    top = node_of(uncast(total.inputs[0]), "exp") if total is not None and len(total.params["axes"]) == 1 else None
    if total is None or top is None:
        return None
    axis = int(total.params["axes"][0])
    x, maximum = unshifted(top.inputs[0], axis)
    return (x, maximum, axis) if maximum is not None else None


def match_log_softmax(value: Var) -> tuple[Atom, int] | None:
    """(x, axis) if the value is `(x - max) - log(sum(exp(x - max)))` along an axis."""
    node = node_of(value, "sub")
    found = _log_sum(node.inputs[1]) if node is not None and node.inputs[0].shape == value.shape else None
    if node is None or found is None:
        return None
    x, maximum, axis = found
    of, other = unshifted(node.inputs[0], axis)
    kept = [1 if n == axis else size for n, size in enumerate(x.shape)]
    spread = node_of(uncast(node.inputs[1]), "broadcast_in_dim")
    rows = spread.inputs[0].shape if spread is not None else node.inputs[1].shape
    same = other is not None and of is x and _unspread(other) is _unspread(maximum)
    return (x, axis) if same and x.shape == value.shape and list(rows) == kept else None


def match_logsumexp(value: Var) -> tuple[Atom, int] | None:
    """(x, axis) if the value is `log(sum(exp(x - max))) + max` along an axis, which it lacks or which has size 1."""
    for log, added in pairs(value, "add"):
        found = _log_sum(log)
        if found is None or _unspread(added, "stop_gradient") is not _unspread(found[1], "stop_gradient"):
            continue
        x, _, axis = found
        shape = list(x.shape)
        if list(value.shape) in (shape[:axis] + shape[axis + 1 :], shape[:axis] + [1] + shape[axis + 1 :]):
            return x, axis
    return None


class Rows(Softmaxes):
    """Emits reductions of rows that are several operations of te, computed in f32 and rounded once."""

    def _op_reduce_max(self, var: Var, node: Node) -> Value:
        return self._extremum(var, node, self.function.reduce_max)

    def _op_reduce_min(self, var: Var, node: Node) -> Value:
        return self._extremum(var, node, self.function.reduce_min)

    def _extremum(self, var: Var, node: Node, reduce: Callable[[build.Value, Sequence[int]], build.Value]) -> Value:
        """The largest or smallest elements, which share the gradient equally, or with `index` the first of which has it."""
        f, (x, along) = self.function, self._along(node.inputs[0], node.params["axes"], node)
        sizes = [node.inputs[0].shape[axis] for axis in along]
        found = reduce(f.reshape(x, [x.shape[0], *sizes]), range(1, 1 + len(sizes)))
        if node.params.get("index"):
            spread = f.broadcast(found, x.shape, [1])
            one, zero = (f.constant(number, x.shape, "float32") for number in (1.0, 0.0))
            # A comparison has no gradient, so that of the sum belongs to the first element that equals the maximum.
            equal = lambda of: f.choose("oeq", x, spread, of, zero)
            place = self._cumulative(equal(one))
            total, count = (f.reduce_sum(equal(f.choose("oeq", place, one, of, zero)), [1]) for of in (x, one))
            found = f.div(total, count)
        return Value(f.cast(found, var.dtype), row_major(var.shape))

    def _op_cumsum(self, var: Var, node: Node) -> Value:
        """The sums of each element and those before it, or behind it with `reverse`."""
        axis = int(node.params["axis"])
        x, _ = self._along(node.inputs[0], [axis], node)
        made = self._cumulative(x, node.params.get("reverse", False))
        order = [n for n in range(len(var.shape)) if n != axis] + [axis]
        layout = row_major([var.shape[n] for n in order]).permute([order.index(n) for n in range(len(order))])
        return Value(self.function.cast(made, var.dtype), layout)

    def _cumulative(self, x: build.Value, reverse: bool = False) -> build.Value:
        """The cumulative sums of each row, in steps that add what is 1, 2, 4, ... columns before."""
        f, (rows, columns), shift = self.function, x.shape, 1
        while shift < columns:
            kept = f.extract_slice(x, [0, shift if reverse else 0], [rows, columns - shift])
            zeros = f.constant(0.0, (rows, shift), x.dtype)
            x = f.add(x, f.concat([kept, zeros] if reverse else [zeros, kept], 1))
            shift *= 2
        return x

    def _op_logsumexp(self, var: Var, node: Node) -> Value:
        return self.logsumexp(var, node, node.inputs[0], node.params["axes"])

    def logsumexp(self, var: Var, node: Node, x: Atom, axes: Sequence[int]) -> Value:
        shift, total = self._log_sum(self._along(x, axes, node)[0])
        return Value(self.function.cast(self.function.add(total, shift), var.dtype), row_major(var.shape))

    def _op_log_softmax(self, var: Var, node: Node) -> Value:
        return self.log_softmax(var, node, node.inputs[0], node.params["axis"])

    def log_softmax(self, var: Var, node: Node, x: Atom, axis: int) -> Value:
        rows, along = self._along(x, [axis], node)
        made = self.log_softmax_of(rows)
        order = [n for n in range(len(x.shape)) if n not in along] + along
        layout = row_major([x.shape[n] for n in order]).permute([order.index(n) for n in range(len(order))])
        return Value(self.function.cast(made, var.dtype), layout)

    def log_softmax_of(self, rows: build.Value) -> build.Value:
        """The log-softmax of each row of an f32 matrix."""
        shift, total = (self.function.broadcast(v, rows.shape, [1]) for v in self._log_sum(rows))
        return self.function.sub(self.function.sub(rows, shift), total)

    def matched_rows(self, var: Var, node: Node) -> Value | None:
        """Emits a log-softmax or a logsumexp that a program spells out; None for other values."""
        if (found := match_log_softmax(var)) is not None:
            return self.log_softmax(var, node, *found)
        if (found := match_logsumexp(var)) is not None:
            return self.logsumexp(var, node, found[0], [found[1]])
        return None

    def _along(self, x: Atom, axes: Sequence[int], node: Node) -> tuple[build.Value, list[int]]:
        """(x as an f32 matrix whose columns are the elements along `axes`, these axes in order.)"""
        value, along = self.whole(x, node), sorted(int(a) for a in axes)
        columns = math.prod(x.shape[a] for a in along)
        if not columns or not value.elements:
            raise Unsupported(node, "expected rows with elements")
        order = [a for a in range(len(x.shape)) if a not in along] + along
        elements = self.in_order(Value(value.matrix, value.layout.permute(order)), node)
        matrix = self.function.reshape(elements, (value.elements // columns, columns))
        return self.function.cast(matrix, "float32"), along

    def _log_sum(self, x: build.Value) -> tuple[build.Value, build.Value]:
        """(m, log(sum(exp(x - m)))) of each row, where m is its maximum, or 0 instead of an infinity.

        m has no gradient, because it is subtracted and added again.
        """
        largest = self.function.reduce_max(x, [1], gradient=False)
        zero, infinity = (self.function.constant(number, largest.shape, "float32") for number in (0.0, math.inf))
        size = self.function.unary("math.absf", largest)
        shift = self.function.choose("olt", size, infinity, largest, zero)
        shifted = self.function.sub(x, self.function.broadcast(shift, x.shape, [1]))
        total = self.function.reduce_sum(self.function.unary("math.exp", shifted), [1])
        return shift, self.function.unary("math.log", total)
