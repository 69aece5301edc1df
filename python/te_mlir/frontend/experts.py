"""Emits mixtures of experts: the choice of experts, the rows that each expert gets, a layer for each expert, and their sum.

The rows of an expert are consecutive and begin at a multiple of `ALIGNMENT`, as casts and GEMMs of every recipe need them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from te_mlir import build
from te_mlir.frontend.base import Emission, Unsupported, Value
from te_mlir.frontend.graph import Atom, Node, Var

#: What the rows of an expert begin at multiples of. Every recipe takes it.
ALIGNMENT = 128


def rows_for(entries: int, experts: int) -> int:
    """The number of rows that the experts have together, whatever the ids are."""
    return math.ceil((entries + experts * (ALIGNMENT - 1)) / ALIGNMENT) * ALIGNMENT


class Routing(NamedTuple):
    """Which expert gets which rows, in a graph of a framework.

    ids: the experts of each token, of `shape` [tokens, k]. order: the order of the ids that rows outside of the compiled
    ops have; None if the ids are in that order.
    """

    ids: Any
    shape: tuple[int, int]
    order: Any
    experts: int


class Grouped(NamedTuple):
    """The rows of experts that a value of a graph has: those of `rows`, times `probs` [entries].

    sorted: whether the value has them in the order of experts, instead of that of the ids.
    """

    rows: Any
    routing: Routing
    probs: Any = None
    sorted: bool = True

    @property
    def order(self) -> Any:
        """The order of the ids that the value has its rows in; None for that of the ids."""
        return self.routing.order if self.sorted else None

    def has_places_of(self, other: Grouped) -> bool:
        """Whether the rows of two values are those of the same tokens, in the same order."""
        return self._replace(rows=other.rows) == other


class Chosen(NamedTuple):
    """The experts of each token, [tokens, k], and 1 for each token that is used and 0 for others; None if all are used."""

    ids: build.Value
    used: build.Value | None = None


class Experts(Emission):
    """Emits mixtures of experts."""

    def __init__(self, function: build.Function) -> None:
        super().__init__(function)
        #: Where the rows of a number of experts are.
        self.routed: dict[tuple[Chosen, int], build.Routed] = {}

    # Defined by each frontend

    def given_ids(self, ids: Atom, user: Node) -> build.Value:
        """The experts of each token, [tokens, k] of int32, that are computed before the compiled part."""
        raise NotImplementedError

    def given_used(self, used: Atom, user: Node) -> build.Value:
        """1 for each token that is used and 0 for others, in float32, which is known before the compiled part."""
        raise NotImplementedError

    def stack(self, w: Atom, user: Node) -> build.Value:
        """The weights of all experts, [experts, out, in]."""
        raise NotImplementedError

    def stack_name(self, w: Atom) -> str | None:
        """The name in reports of the layer with these weights; None if the compiler chooses one."""
        raise NotImplementedError

    # Emission

    def emit(self, var: Var) -> Value:
        if var.node is not None and var.node.name in ("expert_ids", "expert_used"):
            raise Unsupported(var.node, "it chooses experts for several compiled parts")
        return super().emit(var)

    def _chosen(self, ids: Atom, user: Node) -> Chosen:
        node = ids.node if isinstance(ids, Var) and self.is_inside(ids) else None
        if node is not None and node.name == "expert_used":
            inner, used = node.inputs
            return Chosen(self._chosen(inner, node).ids, self.given_used(used, node))
        is_choice = node is not None and node.name == "expert_ids"
        return Chosen(self._choice(node)[0] if is_choice else self.given_ids(ids, user))  # type: ignore[arg-type]

    def _choice(self, node: Node) -> tuple[build.Value, build.Value, build.Value]:
        """The experts of each token, their scores, and the scores of all experts."""
        logits, bias = (*node.inputs, None)[:2]
        added = self.vector(bias, node, "float32") if bias is not None else None
        return self.function.router_topk(self.rows(logits, node), bias=added, **node.params)

    def _op_expert_probs(self, var: Var, node: Node) -> Value:
        return self.dense(var, self._choice(node)[1])

    def _op_expert_rows(self, var: Var, node: Node) -> Value:
        x, ids = node.inputs
        chosen = self._chosen(ids, node)
        rows, experts = self.rows(x, node), node.params["experts"]
        routed = self.function.permute(rows, chosen.ids, experts, ALIGNMENT, chosen.used)
        self.routed[chosen, experts] = routed
        return self.dense(var, routed.rows)

    def _places(self, ids: Atom, experts: int, user: Node) -> build.Routed:
        """Where the rows of experts are."""
        chosen = self._chosen(ids, user)
        if (chosen, experts) not in self.routed:
            # The rows come from outside of this function. Some columns are moved for their places.
            zeros = self.function.constant(0.0, (chosen.ids.shape[0], 16), "bfloat16")
            routed = self.function.permute(zeros, chosen.ids, experts, ALIGNMENT, chosen.used)
            self.routed[chosen, experts] = routed
        return self.routed[chosen, experts]

    def _op_expert_linear(self, var: Var, node: Node) -> Value:
        x, w, ids, bias = (*node.inputs, None)[:4]
        f, dtype = self.function, var.dtype
        rows, weights = f.cast(self.rows(x, node), dtype), f.cast(self.stack(w, node), dtype)
        biases = f.cast(self.rows(bias, node), dtype) if bias is not None else None
        sizes = self._places(ids, w.shape[0], node).sizes
        made = f.grouped_linear(rows, weights, sizes, biases, ALIGNMENT, self.stack_name(w))
        return self.dense(var, made)

    def _op_expert_sum(self, var: Var, node: Node) -> Value:
        y, ids, probs = (*node.inputs, None)[:3]
        rows = self.rows(y, node)
        factors = self.function.cast(self.rows(probs, node), "float32") if probs is not None else None
        return self.dense(var, self.function.unpermute(rows, self._places(ids, node.params["experts"], node), factors))
