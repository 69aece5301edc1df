"""Queries and marks of single nodes of an ATen graph, before it is divided into regions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch.fx import Node

from te_mlir.torch.adapter import APART


def is_op(node: Any, name: str) -> bool:
    """Whether `node` calls the ATen op `name`, in any of its overloads."""
    return isinstance(node, Node) and node.op == "call_function" and str(node.target).startswith(f"aten.{name}.")


def set_apart(nodes: Iterable[Node]) -> None:
    """Excludes `nodes` from patterns: no gradient passes through them, or a later node writes to memory that they use."""
    for node in nodes:
        node.meta[APART] = True
