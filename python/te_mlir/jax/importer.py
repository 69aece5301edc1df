"""From a graph to a function of the dialect.

Emission is on demand, from the results, so that an operation which a pattern takes in
(the mean of a norm, the mask of attention) is never emitted by itself. What JAX computes
before the call (indices, tables, transposed weights) is a `Feed`, an argument of the
function; JAX also differentiates it. Operations that cannot be emitted are collected,
with the reasons, so that one error names all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from te_mlir import build
from te_mlir.frontend import losses, rotary
from te_mlir.frontend.emitter import Unsupported, Value, te_name
from te_mlir.frontend.graph import Atom, Node, Var
from te_mlir.jax.graph import Graph, apply, custom_function, describe
from te_mlir.jax.weights import Weights
from te_mlir.layout import Layout, row_major


class Exit(NamedTuple):
    """A value that te gives: the place of its matrix among the results, and how it lies there."""

    place: int
    layout: Layout

    def restore(self, matrix: Any) -> Any:
        """The value, of the matrix."""
        atoms = [(size, stride, n) for n, (size, stride) in enumerate(a for dim in self.layout.dims for a in dim)]
        held = sorted(atoms, key=lambda atom: -atom[1])
        order = [[n for _, _, n in held].index(n) for n in range(len(atoms))]
        return matrix.reshape([size for size, _, _ in held]).transpose(order).reshape(self.layout.shape)


class Importer(Weights):
    """Emits values of a graph into one function. names: what the arguments are called."""

    def __init__(self, graph: Graph, names: Sequence[str]) -> None:
        super().__init__(graph, names)
        #: Why operations cannot be emitted, by their place in the program.
        self._unsupported: dict[int, str] = {}
        #: Those that stand in for what cannot be emitted, and views of them.
        self._broken: set[Atom] = set()
        #: Values that te gives to JAX.
        self.exits: dict[Var, Exit] = {}

    def import_all(self) -> list[Exit | None]:
        """Emits all that is needed; gives what te makes of each result of the graph."""
        for node in self.graph.effects:
            reason = "it has an effect beside its results, and te has none; leave it out of what is compiled"
            self._unsupported[node.index] = f"{describe(node)}: {reason}"
        limit = sys.getrecursionlimit()
        # Emission goes down from the results, some frames for each operation.
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
        """What te makes of a result; None where JAX does, of arguments and of what is compiled for other results."""
        if not isinstance(output, Var) or output.node is None or self.is_light(output):
            return None
        if not output.floating:
            for operand in boundary(output, self.is_light):
                self.exits.setdefault(operand, self._result_of(operand))
            return None
        current = output
        value = self.value(current)
        while not value.layout.is_whole(value.elements):
            # A part of a value: te gives the whole, JAX cuts it.
            assert current.node is not None and isinstance(current.node.inputs[0], Var)
            current = current.node.inputs[0]
            value = self.value(current)
        self.exits[current] = self._result_of(current)
        return self.exits[current]

    def _result_of(self, var: Var) -> Exit:
        value = self.value(var)
        if not value.layout.is_whole(value.elements):
            raise Unsupported(var.node, "what JAX computes of it needs a part of a compiled value")
        return Exit(self.result(value.matrix), value.layout)

    # Values

    def emit(self, var: Var) -> Value:
        """The value, or one in its place where it cannot be emitted, which is noted, so that what uses it is looked at."""
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
        """Notes why an operation cannot be emitted, unless operands are `broken` and may be at fault."""
        place = unsupported.place
        node = place if isinstance(place, Node) else None
        if unsupported.always or not broken:
            text = f"{describe(node)}: {unsupported.reason}" if node is not None else unsupported.reason
            self._unsupported[node.index if node is not None else -1] = text

    def lacks(self, node: Node) -> Unsupported:
        reason = f"'{node.name}' has no counterpart in te{_HINTS.get(node.name, '')}"
        return Unsupported(node, reason, always=True)

    def matched(self, var: Var, node: Node) -> Value | None:
        made = super().matched(var, node)
        rows = losses.match_rows(var) if made is None else None
        if rows is not None:
            # Its own operations are no matter.
            self.value(rows.logits)
            raise Unsupported(
                node,
                "the cross entropy of each row has no counterpart in te but in its sum, or mean, over all rows or "
                "those of a mask; weights that are known to be 0 or 1 are one: where(mask, loss, 0), loss * (w > 0)",
            )
        return made

    # Layers

    def targets(
        self, user: Node, found: losses.CrossEntropy, place: np.ndarray[Any, Any], rows: int, classes: int
    ) -> tuple[build.Value, build.Value | None]:
        ignored = found.ignore_index

        def counted(targets: Any, *masks: Any) -> Any:
            """The targets, and where no row counts what te ignores."""
            targets = targets.reshape(-1).astype(jnp.int32)
            if found.clamps:
                targets = jnp.clip(targets, 0, classes - 1)
            for mask, values in zip(found.masks, masks):
                seen = jnp.broadcast_to((values == 0) if mask.inverted else (values != 0), mask.shape)
                targets = jnp.where(seen.reshape(-1), targets, ignored)
            return targets

        calls = (user.origin.equation, *user.origin.calls)
        (places,) = apply(self.graph, counted, [found.targets, *(mask.values for mask in found.masks)], calls)
        whole = len(place) == rows and (place == np.arange(rows)).all()
        # Logits that are a part of others: rows beside it do not count.
        make = None if whole else (lambda t: jnp.full(rows, ignored, jnp.int32).at[place].set(t))
        how = () if whole else tuple(place.tolist())
        targets = self.feed(places, "targets", make, (rows,), "int32", False, user, how)
        if not found.summed:
            return targets, None
        number = lambda t: jnp.sum((t >= 0) & (t < classes)).astype(jnp.float32)
        return targets, self.feed(places, "count", number, (), "float32", False, user, (classes,))

    def table(
        self, table: Atom, user: Node, found: rotary.Rope, order: Sequence[int], batch: int, sequence: int
    ) -> build.Value:
        width, of = found.x.shape[-1], found.alike
        if len(table.shape) != 4:
            raise Unsupported(user, f"its tables are {list(table.shape)}; expected four dimensions")
        b, s, h, columns = (rotary.sizes(table)[a] for a in order)
        if h != 1 or s != sequence or columns != (width // 2 if of == rotary.HALF else width) or b not in (1, batch):
            raise Unsupported(user, f"its tables are {list(table.shape)}; expected one row for each position")
        if of == rotary.HALVES and not rotary.has_equal_halves(table):
            raise Unsupported(
                user,
                "the halves of its tables are not known to be equal; make them by concatenate([a, a], -1), or rotate "
                "the halves of x by tables of half the width",
            )
        if of == rotary.PAIRS and not rotary.has_equal_pairs(table):
            raise Unsupported(user, "the pairs of its tables are not known to be equal; make them by repeat(a, 2, -1)")

        def make(t: Any) -> Any:
            rows = jnp.transpose(t, order).reshape(-1, t.shape[-1])[: b * s]
            half = rows[:, ::2] if of == rotary.PAIRS else rows[:, : width // 2]
            return half.astype(jnp.float32)

        # What is alike says which columns are taken.
        how = (*order, of == rotary.PAIRS)
        return self.feed(table, "half", make, (b * s, width // 2), "float32", differentiable=False, user=user, how=how)

    def _op_custom_vjp_call(self, var: Var, node: Node) -> Value:
        kind = node.name.removesuffix("_jaxpr").removesuffix("_call")
        function = custom_function(node.origin.equation) or "a function"
        raise Unsupported(
            node, f"{function} has a derivative of its own (jax.{kind}), which is not imported", always=True
        )

    _op_custom_vjp_call_jaxpr = _op_custom_jvp_call = _op_custom_vjp_call


_HINTS = {
    "while": "; write the loop in Python",
    "cond": "; decide outside of the function",
    "erf": " but in gelu, x * 0.5 * (1 + erf(x * sqrt(0.5)))",
    "erfc": " but in gelu, x * 0.5 * erfc(-x * sqrt(0.5))",
    "stop_gradient": "; take it of an argument, outside of the function",
    "reduce_sum": " by itself; means over rows are part of norms and of the cross entropy",
    "reduce_max": " by itself",
    "log": " by itself; the mean cross entropy of all rows has one",
    "concatenate": "; a product for each part, and their sum, is the same",
}


def boundary(var: Var, is_light: Callable[[Atom], bool]) -> list[Var]:
    """The floating-point values below an integer one, that more than views are between them and arguments."""
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
