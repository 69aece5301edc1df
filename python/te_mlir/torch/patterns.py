"""Queries and marks of single nodes of an ATen graph, before it is divided into regions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch.fx import Node

from te_mlir.torch.adapter import APART, CASTS, COMPARISONS, LOGIC

_LIBRARIES = ("aten", "te_mlir_torch")

#: Views of conditions.
_VIEWS = ("view", "reshape", "unsqueeze", "squeeze", "expand", "transpose", "permute", "slice", "select")


def is_op(node: Any, *names: str) -> bool:
    """Whether `node` calls one of these ops of ATen or of te, in any of its overloads."""
    if not isinstance(node, Node) or node.op != "call_function":
        return False
    return str(node.target).startswith(tuple(f"{library}.{name}." for library in _LIBRARIES for name in names))


def is_condition(node: Node) -> bool:
    """Whether `node` compares, or combines truth values, or is a view of such a node."""
    while is_op(node, *_VIEWS) and isinstance(node.args[0], Node):
        node = node.args[0]
    return is_op(node, *COMPARISONS, *LOGIC)


def chooses_by(node: Node, condition: Node) -> bool:
    """Whether `condition` is what `node` chooses between two values by, or casts to 0 and 1, or multiplies floats with."""
    if is_op(node, *CASTS) and node.meta["val"].is_floating_point():
        return node.args[0] is condition
    if is_op(node, "mul"):
        return node.meta["val"].is_floating_point()
    which = {"where": 0, "masked_fill": 1}
    found = next((place for name, place in which.items() if is_op(node, name)), None)
    return found is not None and [n for n, v in enumerate(node.args) if v is condition] == [found]


def set_apart(nodes: Iterable[Node]) -> None:
    """Excludes `nodes` from patterns: no gradient passes through them, or a later node writes to memory that they use."""
    for node in nodes:
        node.meta[APART] = True
