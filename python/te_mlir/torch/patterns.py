"""Queries and marks of single nodes of an ATen graph, before it is divided into regions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch.fx import Node

from te_mlir.torch.adapter import APART, CASTS, COMPARISONS, LOGIC

#: Views of conditions.
_VIEWS = ("view", "reshape", "unsqueeze", "squeeze", "expand", "transpose", "permute", "slice", "select")


def is_op(node: Any, name: str) -> bool:
    """Whether `node` calls the ATen op `name`, in any of its overloads."""
    return (
        isinstance(node, Node)
        and node.op == "call_function"
        and str(node.target).startswith((f"aten.{name}.", f"te_mlir_torch.{name}."))
    )


def is_condition(node: Node) -> bool:
    """Whether `node` compares, or combines truth values, or is a view of such a node."""
    while any(is_op(node, name) for name in _VIEWS) and isinstance(node.args[0], Node):
        node = node.args[0]
    return any(is_op(node, name) for name in (*COMPARISONS, *LOGIC))


def chooses_by(node: Node, condition: Node) -> bool:
    """Whether `condition` is what `node` chooses between two values by, or casts to 0 and 1, or multiplies floats with."""
    if any(is_op(node, name) for name in CASTS) and node.meta["val"].is_floating_point():
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
