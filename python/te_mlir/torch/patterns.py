"""What is asked of single nodes of an ATen graph where it is divided."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch.fx import Node

from te_mlir.torch.adapter import APART


def is_op(node: Any, name: str) -> bool:
    """Whether `node` calls the ATen op `name`, in any of its overloads."""
    return isinstance(node, Node) and node.op == "call_function" and str(node.target).startswith(f"aten.{name}.")


def set_apart(nodes: Iterable[Node]) -> None:
    """Keeps patterns off `nodes`: no gradient goes through them, or what they read is written to after them."""
    for node in nodes:
        node.meta[APART] = True
