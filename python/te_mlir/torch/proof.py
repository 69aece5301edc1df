"""Proves that a graph computes the same for inputs that are padded: no used element depends on padding.

The graph is traced twice, with the exact size of one axis and with its capacity, and both traces are compared node by
node. A node is accepted if a rule says which elements of its result are used, and that they depend on used elements only.
Gradients are then the same as well: the cotangents of padding are zero, and padding is finite. Where a rule needs
padding to be a number (0 in a sum, False in a mask), the graph is repaired: that value is replaced in front of the node.
The rules are in `proof_views` and `proof_rules`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Node

from te_mlir.torch.arguments import describe
from te_mlir.torch.effects import storages
from te_mlir.torch.facts import Content, Fact, Factor, whole


class Unprovable(Exception):
    """Why padding may change a result."""

    def __init__(self, node: Node, reason: str) -> None:
        super().__init__(f"{describe(node)}: {reason}")


class Repair(NamedTuple):
    """The node `user` reads `source` with `fill` as its padding.

    axes: for each axis of the source, its factors: their sizes, and whether their padding is replaced.
    """

    user: Node
    source: Node
    axes: tuple[tuple[tuple[int, bool], ...], ...]
    fill: float


class Proof(NamedTuple):
    """repairs: those of the graph. results: what is known of each result of the graph; None for an argument or no tensor."""

    repairs: list[Repair]
    results: list[Fact | None]


class Comparison:
    """Compares the graph `full` with `used`, the same graph of smaller arguments. The other arguments are those of `prove`."""

    def __init__(
        self, full: GraphModule, used: GraphModule, arguments: Sequence[Fact], missing: int, scaled: bool
    ) -> None:
        self.full, self.used, self.missing, self.scaled = full, used, missing, scaled
        self.nodes, self.others = list(full.graph.nodes), list(used.graph.nodes)
        self.arguments = dict(zip((n for n in self.nodes if n.op == "placeholder"), arguments))
        self.place = {node: i for i, node in enumerate(self.others)} | {node: i for i, node in enumerate(self.nodes)}
        self.facts: dict[Node, Any] = {}
        self.repairs: list[Repair] = []
        #: The memory of values with padding.
        self.memory: set[Any] = set()

    def run(self) -> Proof:
        for node, other in zip(self.nodes, self.others):
            if node.op != other.op or str(node.target) != str(other.target):
                break
            if node.op == "output":
                return Proof(self.repairs, self._results(node, other))
            self.facts[node] = self._fact(node, other)
            if self._is_padded(node):
                self.memory |= storages(node.meta.get("val"))
        raise Unprovable(self.nodes[-1], "the graphs of two sizes have other operations")

    def _results(self, node: Node, other: Node) -> list[Fact | None]:
        results: Any = node.args[0]
        if not isinstance(results, (list, tuple)) or self._literals(node) != self._literals(other):
            raise Unprovable(node, "a result of the graph is a size")
        found = [self.facts[n] if isinstance(n, Node) and n.op != "placeholder" else None for n in results]
        self._check_sizes(node, [factor for fact in found if fact is not None for factor in fact.padded])
        return found

    def _check_sizes(self, node: Node, factors: Sequence[Factor]) -> None:
        if any(factor.size - factor.used != self.missing for factor in factors):
            raise Unprovable(node, "it has another number of padded elements than the arguments of the graph")

    def _fact(self, node: Node, other: Node) -> Any:
        if node.op == "placeholder":
            return self.arguments[node]
        value, small = node.meta.get("val"), other.meta.get("val")
        if getattr(getattr(node.target, "_schema", None), "is_mutable", False) and self.memory & _memory(node):
            raise Unprovable(node, "it writes to a padded tensor")
        padded = [n for n in node.all_input_nodes if self._is_padded(n)]
        if not padded and _shapes(value) == _shapes(small) and self._literals(node) == self._literals(other):
            if node.op == "get_attr" and not self._is_same_constant(node, other):
                raise Unprovable(node, "a constant depends on the size")
            return _whole(value)
        if node.op != "call_function":
            raise Unprovable(node, f"'{node.op}' has no rule")
        if node.target is operator.getitem:
            fact = self.facts[node.args[0]][node.args[1]]  # type: ignore[index]
        else:
            rule = self.rule(node)
            if rule is None:
                raise Unprovable(node, "there is no rule for the padding of its operands")
            fact = rule(node, other)
        if fact is None:
            raise Unprovable(node, "its padding is not at the end of an axis")
        return fact

    def rule(self, node: Node) -> Callable[[Node, Node], Any] | None:
        """The rule for a call of an op: what is known of its result, or None if its padding is not at the end of an axis."""
        raise NotImplementedError

    def _is_padded(self, node: Node) -> bool:
        fact = self.facts.get(node)
        return any(one is not None and one.padded for one in (fact if isinstance(fact, list) else [fact]))

    def _is_same_constant(self, node: Node, other: Node) -> bool:
        a, b = getattr(self.full, str(node.target)), getattr(self.used, str(other.target))
        return a is b or (type(a) is type(b) is torch.Tensor and torch.equal(a, b))

    def _literals(self, node: Node) -> Any:
        """The arguments of a node, with the places of nodes."""
        return torch.fx.node.map_arg((node.args, dict(node.kwargs)), lambda n: ("node", self.place[n]))

    def _same_literals(self, node: Node, other: Node) -> None:
        if self._literals(node) != self._literals(other):
            raise Unprovable(node, "it uses the size as a number")

    # Repairs

    def _with(
        self, user: Node, source: Node, fill: float, axes: Sequence[int] | None = None, stops: bool = False
    ) -> Fact:
        """What is known of an operand with `fill` as the padding of `axes`, which needs no repair if it is so already.

        stops: whether no gradient may reach the padding, because it would change the scales of casts.
        """
        fact: Fact = self.facts[source]
        chosen = range(len(fact.axes)) if axes is None else axes
        own = [f for a in chosen for f in fact.axes[a] if f.is_padded]
        number = Content(fill, fill)
        stops = stops and self.scaled and source.meta["val"].is_floating_point()
        # Nothing is known of elements that are padding of two factors.
        if not stops and len(own) < 2 and all(f.pad == number for f in own):
            return fact
        self._check_sizes(user, own)
        layout = tuple(tuple((f.size, f.is_padded and a in chosen) for f in axis) for a, axis in enumerate(fact.axes))
        self.repairs.append(Repair(user, source, layout, fill))
        axes_ = [
            tuple(f._replace(pad=number) if f.is_padded and a in chosen else f for f in axis)
            for a, axis in enumerate(fact.axes)
        ]
        return Fact(tuple(axes_))

    def _indices(self, user: Node, source: Node, rows: int) -> Fact:
        """What is known of indices of a table, whose padding is in its range."""
        fact: Fact = self.facts[source]
        if all(f.pad.copies or (f.pad.lo >= 0 and f.pad.hi < rows) for f in fact.padded):
            return fact
        return self._with(user, source, 0.0)


def _memory(node: Node) -> set[Any]:
    """The memory of the operands of a node."""
    return set().union(*(storages(n.meta.get("val")) for n in node.all_input_nodes), set())


def _shapes(value: Any) -> Any:
    """The shapes of the tensors of a value; other values as they are."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape)
    return [_shapes(one) for one in value] if isinstance(value, (list, tuple)) else value


def _whole(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_whole(one) for one in value]
    return whole(value.shape if isinstance(value, torch.Tensor) else ())
