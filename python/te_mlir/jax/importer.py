"""Emits a graph as a function of the dialect.

Emission is on demand, from the results, so that an operation that is a part of a pattern (the mean
of a norm, the mask of attention) is never emitted separately. Values that JAX computes, and
differentiates, before the call (indices, tables, transposes of weights) are arguments of the
function, as `Feed` describes. Operations that cannot be emitted are collected with the reasons, so
that one error lists all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from te_mlir import build
from te_mlir.frontend import losses, rotary
from te_mlir.frontend.embedding import MOST_CLASSES
from te_mlir.frontend.emitter import Unsupported, Value, te_name
from te_mlir.frontend.graph import Atom, Const, Node, Var
from te_mlir.jax.graph import Graph, apply, custom_function, describe, takes_gradients
from te_mlir.jax.weights import Weights
from te_mlir.layout import Layout, row_major


class Exit(NamedTuple):
    """A value that the compiled function returns: the index of its matrix among the results, and its layout there."""

    place: int
    layout: Layout

    def restore(self, matrix: Any) -> Any:
        """The value with its own shape, from its matrix."""
        atoms = [(size, stride, n) for n, (size, stride) in enumerate(a for dim in self.layout.dims for a in dim)]
        held = sorted(atoms, key=lambda atom: -atom[1])
        order = [[n for _, _, n in held].index(n) for n in range(len(atoms))]
        return matrix.reshape([size for size, _, _ in held]).transpose(order).reshape(self.layout.shape)


class Importer(Weights):
    """Emits a graph into one function.

    names: the names of its inputs. on_gpu: whether it is compiled for a GPU. deterministic: whether gradients have the
    same bits every time.
    """

    def __init__(self, graph: Graph, names: Sequence[str], on_gpu: bool, deterministic: bool) -> None:
        super().__init__(graph, names)
        self._on_gpu = on_gpu
        self._deterministic = deterministic
        #: Why operations cannot be emitted, by their index in the program.
        self._unsupported: dict[int, str] = {}
        #: Values that cannot be emitted, for which there are placeholders, and views of these.
        self._broken: set[Atom] = set()
        #: Values that the compiled function returns to JAX.
        self.exits: dict[Var, Exit] = {}
        self._counts: dict[Var, bool] = {}

    def import_all(self) -> list[Exit | None]:
        """Emits all that the results need. Returns the exit of each result of the graph; None if JAX computes the result."""
        for node in self.graph.effects:
            reason = "it has a side effect, which te does not support; move it out of the compiled function"
            self._unsupported[node.index] = f"{describe(node)}: {reason}"
        limit = sys.getrecursionlimit()
        # Emission recurses from the results, with several frames for each operation.
        sys.setrecursionlimit(max(limit, 40 * self.graph.count + 2000))
        try:
            return [self._exit(output) for output in self.graph.outputs]
        except Unsupported as unsupported:
            self._note(unsupported)
            return []
        finally:
            sys.setrecursionlimit(limit)

    @property
    def reasons(self) -> list[str]:
        """Why operations cannot be emitted, in the order of the program."""
        return [self._unsupported[index] for index in sorted(self._unsupported)]

    def _exit(self, output: Atom) -> Exit | None:
        """The exit of a result; None if JAX computes the result, from arguments and from exits of other values."""
        if not isinstance(output, Var) or output.node is None or self.is_light(output):
            return None
        if not output.floating or self._is_count(output):
            for operand in boundary(output, lambda value: self.is_light(value) or self._is_count(value)):
                self.exits.setdefault(operand, self._result_of(operand))
            return None
        current = output
        value = self.value(current)
        while not value.layout.is_whole(value.elements):
            # The value is a slice or a broadcast view: return its operand, from which JAX computes the view.
            assert current.node is not None and isinstance(current.node.inputs[0], Var)
            current = current.node.inputs[0]
            value = self.value(current)
        self.exits[current] = self._result_of(current)
        return self.exits[current]

    def _is_count(self, value: Atom) -> bool:
        """Whether a float is computed from integers and truth values, and from no other floats, such as an accuracy."""
        if isinstance(value, Const) or value.node is None or not value.floating:
            return False
        if value not in self._counts:
            # A table of floats is a weight.
            tables = [v for v in value.node.inputs if isinstance(v, Const) and v.scalar is None and "float" in v.dtype]
            inputs = [v for v in value.node.inputs if not isinstance(v, Const)]
            integers = [v for v in inputs if isinstance(v, Var) and not v.floating or self._is_count(v)]
            others = [v for v in inputs if v not in integers]
            self._counts[value] = (
                bool(integers) and not tables and all(self.is_light(v) and not takes_gradients(v) for v in others)
            )
        return self._counts[value]

    def _result_of(self, var: Var) -> Exit:
        value = self.value(var)
        if not value.layout.is_whole(value.elements):
            raise Unsupported(var.node, "JAX computes a result from it, but it is a slice or a broadcast view")
        return Exit(self.result(value.matrix), value.layout)

    # Values

    def emit(self, var: Var) -> Value:
        """The value; or a placeholder if it cannot be emitted, so that its readers are checked, too. The reason is noted."""
        node = var.node
        assert node is not None
        try:
            made = super().emit(var)
        except Unsupported as unsupported:
            self._note(unsupported, any(v in self._broken for v in node.inputs))
            for operand in node.inputs if unsupported.always else ():
                if isinstance(operand, Var) and operand.floating:
                    self.value(operand)
            made = Value(build.Value("%unsupported", var.shape, te_name(var.dtype) or "float32"), row_major(var.shape))
        if made.matrix.name == "%unsupported":
            self._broken.add(var)
        return made

    def _note(self, unsupported: Unsupported, broken: bool = False) -> None:
        """Notes why an operation cannot be emitted. broken: operands cannot be emitted either, which may be the cause."""
        place = unsupported.place
        node = place if isinstance(place, Node) else None
        if unsupported.always or not broken:
            text = f"{describe(node)}: {unsupported.reason}" if node is not None else unsupported.reason
            self._unsupported[node.index if node is not None else -1] = text

    def is_on_gpu(self, user: Node) -> bool:
        return self._on_gpu

    def is_deterministic(self) -> bool:
        return self._deterministic

    def lacks(self, node: Node) -> Unsupported:
        reason = f"'{node.name}' has no counterpart in te{_HINTS.get(node.name, '')}"
        failure: Unsupported | None = node.params.get("failure")
        return failure or Unsupported(node, reason, always=True)

    def _op_abs(self, var: Var, node: Node) -> Value:
        # JAX's derivative at 0 is 1, and that of math.absf is 0.
        value = self.whole(node.inputs[0], node)
        x, f = value.matrix, self.function
        zero = f.constant(0.0, x.shape, x.dtype)
        return Value(f.choose("oge", x, zero, f.add(x, zero), f.unary("arith.negf", x)), value.layout)

    def _op_round(self, var: Var, node: Node) -> Value:
        if int(node.params["rounding_method"]):
            return super()._op_round(var, node)
        # Halves away from zero: trunc(x) + trunc(2 (x - trunc(x))), where x has a fraction.
        value, f = self.whole(node.inputs[0], node), self.function
        x = value.matrix
        number = lambda n: f.constant(n, x.shape, x.dtype)
        whole = f.unary("math.trunc", x)
        made = f.add(whole, f.unary("math.trunc", f.mul(f.sub(x, whole), number(2.0))))
        return Value(f.choose("olt", f.unary("math.absf", x), number(2.0**23), made, whole), value.layout)

    def matched(self, var: Var, node: Node) -> Value | None:
        made = super().matched(var, node)
        chosen = losses.match_one_hot_sum(var) if made is None else None
        is_known = chosen is not None and chosen.x.shape[-1] <= MOST_CLASSES
        return self.picked(var, node, chosen) if chosen is not None and is_known else made

    # Layers

    def targets(
        self,
        user: Node,
        found: losses.CrossEntropy,
        place: np.ndarray[Any, Any],
        rows: int,
        classes: int,
        by_rows: bool,
    ) -> tuple[build.Value, build.Value | None]:
        ignored = found.ignore_index

        def counted(targets: Any, *masks: Any) -> Any:
            """The targets, with `ignored` for rows that do not count."""
            targets = targets.reshape(-1).astype(jnp.int32)
            if found.clamps:
                targets = jnp.clip(targets, 0, classes - 1)
            for mask, values in zip(found.masks, masks):
                seen = jnp.broadcast_to((values == 0) if mask.inverted else (values != 0), mask.shape)
                targets = jnp.where(seen.reshape(-1), targets, ignored)
            return targets

        calls = (user.origin.equation, *user.origin.calls)
        (places,) = apply(self.graph, counted, [found.targets, *(mask.values for mask in found.masks)], calls)
        number = lambda t: jnp.sum((t >= 0) & (t < classes)).astype(jnp.float32)
        if by_rows:
            counts = lambda t: jnp.maximum(number(t), 1)
            labels = self.feed(places, "labels", lambda t: t.astype(jnp.float32), (rows,), "float32", False, user)
            return labels, None if found.summed else self.feed(
                places, "count", counts, (), "float32", False, user, (classes, 1)
            )
        whole = len(place) == rows and (place == np.arange(rows)).all()
        # If the logits are some rows of a larger matrix, the other rows do not count.
        make = None if whole else (lambda t: jnp.full(rows, ignored, jnp.int32).at[place].set(t))
        how = () if whole else tuple(place.tolist())
        targets = self.feed(places, "targets", make, (rows,), "int32", False, user, how)
        if not found.summed:
            return targets, None
        return targets, self.feed(places, "count", number, (), "float32", False, user, (classes,))

    def is_returned(self, var: Var, readers: Sequence[Node]) -> bool:
        # JAX computes integers.
        return var in self.graph.outputs or not all(made.floating for node in readers for made in node.outputs)

    def table(
        self, table: Atom, user: Node, found: rotary.Rope, order: Sequence[int], batch: int, sequence: int
    ) -> build.Value:
        width, of = found.x.shape[-1], found.alike
        if len(table.shape) != 4:
            raise Unsupported(user, f"expected its tables to have four dimensions, but got {list(table.shape)}")
        b, s, h, columns = (rotary.sizes(table)[a] for a in order)
        if h != 1 or s != sequence or columns != (width // 2 if of == rotary.HALF else width) or b not in (1, batch):
            raise Unsupported(user, f"expected its tables to have a row for each position, but got {list(table.shape)}")
        if of == rotary.HALVES and not rotary.has_equal_halves(table):
            raise Unsupported(
                user,
                "the halves of its tables are not known to be equal; create them by concatenate([a, a], -1), or rotate "
                "the halves of x by tables of half the width",
            )
        if of == rotary.PAIRS and not rotary.has_equal_pairs(table):
            raise Unsupported(
                user, "the pairs of its tables are not known to be equal; create them by repeat(a, 2, -1)"
            )

        def make(t: Any) -> Any:
            rows = jnp.transpose(t, order).reshape(-1, t.shape[-1])[: b * s]
            half = rows[:, ::2] if of == rotary.PAIRS else rows[:, : width // 2]
            return half.astype(jnp.float32)

        # Pairs and halves take different columns of a table.
        how = (*order, of == rotary.PAIRS)
        return self.feed(table, "half", make, (b * s, width // 2), "float32", differentiable=False, user=user, how=how)

    def _op_custom_vjp_call(self, var: Var, node: Node) -> Value:
        kind = node.name.removesuffix("_jaxpr").removesuffix("_call")
        function = custom_function(node.origin.equation) or "a function"
        raise Unsupported(node, f"{function} has a custom derivative (jax.{kind}), which is not imported", always=True)

    _op_custom_vjp_call_jaxpr = _op_custom_jvp_call = _op_custom_vjp_call


_HINTS = {
    "while": "; write the loop in Python",
    "top_k": ", except for the choice of experts of 'ragged_dot'",
    "cond": "; evaluate the condition outside of the function",
}


def boundary(var: Var, is_light: Callable[[Atom], bool]) -> list[Var]:
    """The floating-point values that an integer value is computed from, and that JAX does not compute from arguments.

    is_light: whether JAX computes a value from arguments.
    """
    found: list[Var] = []
    seen, stack = set(), [var]
    while stack:
        node = stack.pop().node
        if node is None or node in seen:
            continue
        seen.add(node)
        for operand in node.inputs:
            if isinstance(operand, Var) and operand.floating and not is_light(operand):
                found.append(operand)
            elif isinstance(operand, Var):
                stack.append(operand)
    return found
