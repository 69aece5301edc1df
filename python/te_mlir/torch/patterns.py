"""What is asked of single nodes of an ATen graph where it is rewritten and divided."""

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


def is_plain(node: Any, name: str) -> bool:
    """Whether `node` calls the ATen op `name`, and a pattern may take it in, so that it is not computed by itself."""
    return is_op(node, name) and APART not in node.meta


def without_casts(node: Any) -> Any:
    """What a row of casts to floating-point types of 16 bits or more is of."""
    while is_plain(node, "to") or is_plain(node, "_to_copy") or is_plain(node, "float") or is_plain(node, "type_as"):
        dtype = node.meta["val"].dtype
        if not dtype.is_floating_point or dtype.itemsize < 2:
            break
        node = node.args[0]
    return node


def transposed(node: Any) -> Any:
    """What a matrix is the transpose of, or None."""
    swaps = any(is_plain(node, name) for name in ("t", "mT", "numpy_T", "transpose", "permute"))
    if not swaps or len(node.meta["val"].shape) != 2:
        return None
    if is_plain(node, "permute") and [axis % 2 for axis in node.args[1]] != [1, 0]:
        return None
    if is_plain(node, "transpose") and node.args[1] % 2 == node.args[2] % 2:
        return None
    return node.args[0]
