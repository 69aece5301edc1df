"""Removes limits of integers that are within them anyway, and what happens to those beyond.

Experts of transformers 5.17 and other releases mark and limit the ids of experts that other processes have, of which there are
none: `mask = ids >= experts`, `ids.clamp_(max=experts - 1)`, `rows.masked_fill_(mask, 0)`.
"""

from __future__ import annotations

from typing import Any

from torch.fx import Graph, Node

from te_mlir.torch.adapter import CASTS
from te_mlir.torch.adapter import given as arguments_of
from te_mlir.torch.orders import item_of, without_views
from te_mlir.torch.patterns import is_op


def without_idle_limits(graph: Graph) -> None:
    """Replaces the nodes of a graph that limit what a node chose, and those that write where it is beyond a limit."""
    for node in list(graph.nodes):
        if _is_idle(node):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def _is_idle(node: Node) -> bool:
    """Whether a node is its first operand, and so is the memory that it writes."""
    if is_op(node, "masked_fill", "masked_fill_"):
        return _is_never(node.args[1])
    if not is_op(node, "clamp", "clamp_") or not isinstance(node.args[0], Node):
        return False
    given, count = arguments_of(node), _choices(node.args[0])
    least, most = given.get("min"), given.get("max")
    return (
        count is not None
        and (least is None or (isinstance(least, int) and least <= 0))
        and (most is None or (isinstance(most, int) and most >= count - 1))
    )


def _is_never(condition: Any) -> bool:
    """Whether a condition is False for every element."""
    if is_op(condition, "unsqueeze"):
        return _is_never(condition.args[0])
    if not is_op(condition, "ge"):
        return False
    chosen, limit = condition.args
    count = _choices(chosen) if isinstance(chosen, Node) and isinstance(limit, int) else None
    return count is not None and limit >= count


def _choices(node: Node) -> int | None:
    """The number of things of which a node numbers some, in any order; None if it may have other numbers."""
    while True:
        below: Any = without_views(node)
        if is_op(below, *CASTS) and not below.meta["val"].is_floating_point():
            below = below.args[0]
        below = _sorted(below) or below
        if below is node:
            break
        node = below
    several = item_of(node, 1, "topk")
    if several is None:
        return None
    given = arguments_of(several)
    return int(given["self"].meta["val"].shape[given.get("dim", -1)])


def _sorted(node: Node) -> Node | None:
    """What a node has the elements of in ascending order."""
    sort = item_of(node, 0, "sort")
    return sort and arguments_of(sort)["self"]
