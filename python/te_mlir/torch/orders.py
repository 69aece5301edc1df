"""Finds what integers in an ATen graph are: orders of a vector, their inverses, and counts of its numbers."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import torch
from torch.fx import Node

from te_mlir.torch.adapter import CASTS, RESHAPES
from te_mlir.torch.adapter import given as arguments_of
from te_mlir.torch.patterns import is_op

#: Views of all elements in their order.
_VIEWS = (*RESHAPES, "expand", "contiguous")


def item_of(node: Any, index: int, *names: str) -> Node | None:
    """The node whose result number `index` a node is, if it calls one of these ATen ops."""
    if not isinstance(node, Node) or node.target is not operator.getitem or node.args[1] != index:
        return None
    several: Any = node.args[0]
    return several if is_op(several, *names) else None


def without_casts(node: Any) -> Node:
    """The node whose elements a node has, below casts."""
    while is_op(node, *CASTS) and isinstance(node.args[0], Node):
        node = node.args[0]
    return node  # type: ignore[no-any-return]


def without_widening(node: Any) -> Node:
    """The node whose elements a node has, below casts of floats that change no number."""
    while is_op(node, *CASTS) and isinstance(node.args[0], Node):
        before, after = node.args[0].meta["val"].dtype, node.meta["val"].dtype
        if before is not after and not (before.is_floating_point and after is torch.float32):
            break
        node = node.args[0]
    return node  # type: ignore[no-any-return]


def without_views(node: Any) -> Node:
    """The node whose elements a node has in their order; columns may be repetitions of a single one."""
    while is_op(node, *_VIEWS):
        before, after = node.args[0].meta["val"].shape, node.meta["val"].shape
        if is_op(node, "expand") and before not in ((*after[:-1], 1), after):
            break
        node = node.args[0]
    return node  # type: ignore[no-any-return]


def index_of(node: Any) -> tuple[Node, Node] | None:
    """(x, i) of a node that looks up x[i]; None for other nodes."""
    if not is_op(node, "index") or len(node.args[1]) != 1:
        return None
    return node.args[0], node.args[1][0]


def is_range(node: Any) -> bool:
    """Whether a node is the vector 0, 1, 2, ..."""
    return is_op(node, "arange") and list(node.args) in ([count := node.meta["val"].numel()], [0, count])


class Order(NamedTuple):
    """The numbers of the elements of a vector in ascending order of these.

    vector: what has the elements, in any shape. node: the numbers. values: the elements in that order, or None.
    """

    vector: Node
    node: Node
    values: Node | None

    def is_inverse(self, index: Any) -> bool:
        """Whether an index is the place of each number in the order."""
        found = order_of(index)
        if found is not None:
            return found.vector is self.node
        if not is_op(index, "index_put", "index_put_") or len(index.args) > 3:
            return False
        _, places, values = index.args
        return list(places) == [self.node] and is_range(values)


def order_of(node: Any) -> Order | None:
    """The order that a node is, by sort or argsort. None for other nodes."""
    sort: Any = item_of(node, 1, "sort") or (node if is_op(node, "argsort") else None)
    if sort is None:
        return None
    given = arguments_of(sort)
    if given["descending"] or given["self"].meta["val"].dim() != 1:
        return None
    values = next((user for user in sort.users if item_of(user, 0, "sort") is sort), None)
    return Order(without_views(given["self"]), node, values)


def divided(index: Any) -> tuple[Any, int]:
    """(index, k) of an index that is divided by k and rounded down; k is 1 for others."""
    floors = is_op(index, "floor_divide") or (is_op(index, "div") and index.kwargs.get("rounding_mode") == "floor")
    return (index.args[0], index.args[1]) if floors and isinstance(index.args[1], int) else (index, 1)


def counted(ends: Node | None, groups: int) -> Node | None:
    """The vector of which `ends` are the counts of the numbers up to each of 0, 1, ..., groups - 1; None if there is none."""
    sums = without_casts(ends)
    counts = without_casts(sums.args[0]) if is_op(sums, "cumsum") else None
    if is_op(counts, "sum"):
        return _marked(counts, groups)
    if not is_op(counts, "histc"):
        return None
    given = arguments_of(counts)  # type: ignore[arg-type]
    # With integers from 0 on, both spellings count those of each group.
    if given["bins"] != groups or given["min"] != 0 or given["max"] not in (groups - 1, groups):
        return None
    vector = without_casts(given["self"])
    sort = item_of(vector, 0, "sort")
    return without_views(arguments_of(sort)["self"] if sort is not None else vector)


def _marked(counts: Any, groups: int) -> Node | None:
    """The ids of which a sum counts those of each group, by marks in a matrix of tokens and groups."""
    marks = without_casts(counts.args[0])
    axes = counts.args[1] if len(counts.args) > 1 else None
    last = marks.meta["val"].dim() - 1
    if not is_op(marks, "scatter", "scatter_") or axes != list(range(last)) or marks.meta["val"].shape[-1] != groups:
        return None
    zeros, axis, given, mark = marks.args
    ids = without_views(given)
    # Only the ids of a token that differ are marked as often as they occur.
    if item_of(ids, 1, "topk") is None or not is_op(zeros, "zeros") or axis not in (-1, last) or mark != 1:
        return None
    return ids
