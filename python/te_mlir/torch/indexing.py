"""Rewrites indexing by integers as lookups of rows, and by constant neighbours as slices, which are imported.

`x[:, i, j]` with integers `i` and `j` looks up rows of x, seen as a matrix whose rows are the dimensions after
those that are indexed, or its elements. As in other embeddings, an index out of range gives a row of zeros.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from te_mlir.torch.nodes import call
from te_mlir.torch.orders import is_range

_aten = torch.ops.aten


def as_lookups(module: GraphModule, dependent: Set[Node], written: Set[Node] = frozenset()) -> None:
    """Replaces those of the nodes `dependent` of a graph that index floats by integers.

    written: nodes whose memory is written; instead of a slice, which is a view, such a node is a copy with its memory.
    """
    graph = module.graph
    for node in [n for n in graph.nodes if n in dependent and n.target is _aten.index.Tensor]:
        x, indices = node.args
        places = [axis for axis, index in enumerate(indices) if index is not None]
        given = [indices[axis] for axis in places]
        value, shape = x.meta["val"], tuple(x.meta["val"].shape)
        after = places[-1] + 1
        # Indices of dimensions that are not neighbours come first in the result.
        if not value.is_floating_point() or places != list(range(places[0], after)):
            continue
        if not all(index.meta["val"].dtype in (torch.int64, torch.int32) for index in given) or 0 in shape:
            continue
        with graph.inserting_before(node):
            taken = _slice(module, x, places[0], given) if node not in written else None
            taken = taken or _picked(graph, x, given) or _rows(graph, x, places[0], after, given)
        if node in written:
            taken.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(taken)
        graph.erase_node(node)


def _slice(module: GraphModule, x: Node, axis: int, given: Sequence[Node]) -> Node | None:
    """The slice that a constant vector of neighbours takes; None for other indices."""
    source: Any = given[0]
    while isinstance(source, Node) and str(source.target).startswith(("aten.lift_fresh", "aten.detach", "aten.clone")):
        source = source.args[0]
    if len(given) > 1 or source.op != "get_attr" or given[0].meta["val"].dim() != 1:
        return None
    size, index = x.meta["val"].shape[axis], getattr(module, str(source.target)).tolist()
    if not index or not -size <= index[0] < size or index != list(range(index[0], index[0] + len(index))):
        return None
    first = index[0] % size
    end = first + len(index)
    return call(module.graph, _aten.slice.Tensor, x, axis, first, end) if end <= size else None


def _picked(graph: Graph, x: Node, given: Sequence[Node]) -> Node | None:
    """An element of each row of a matrix, as `gather`, which losses are found in; None for other indices."""
    shape = x.meta["val"].shape
    if len(given) != 2 or len(shape) != 2 or not is_range(given[0]) or given[0].meta["val"].numel() != shape[0]:
        return None
    if given[1].meta["val"].shape != shape[:1]:
        return None
    # A negative index counts from the end.
    from_end = call(graph, _aten.add.Tensor, given[1], shape[1])
    index = call(graph, _aten.where.self, call(graph, _aten.lt.Scalar, given[1], 0), from_end, given[1])
    found = call(graph, _aten.gather.default, x, 1, call(graph, _aten.unsqueeze.default, index, 1))
    return call(graph, _aten.squeeze.dim, found, 1)


def _rows(graph: Graph, x: Node, first: int, after: int, given: Sequence[Node]) -> Node:
    shape = tuple(x.meta["val"].shape)
    lead, width = math.prod(shape[:first]), math.prod(shape[after:])
    row = inside = None
    for index, size in zip(given, shape[first:after]):
        lowest, highest = call(graph, _aten.ge.Scalar, index, -size), call(graph, _aten.lt.Scalar, index, size)
        valid = call(graph, _aten.logical_and.default, lowest, highest)
        # A negative index counts from the end.
        index = call(graph, _aten.remainder.Scalar, index, size)
        inside = valid if inside is None else call(graph, _aten.logical_and.default, inside, valid)
        row = index if row is None else call(graph, _aten.add.Tensor, call(graph, _aten.mul.Tensor, row, size), index)
    assert row is not None and inside is not None
    if lead > 1:
        device, rank = x.meta["val"].device, row.meta["val"].dim()
        begins = call(graph, _aten.arange.default, lead, dtype=torch.int64, device=device, pin_memory=False)
        begins = call(graph, _aten.mul.Tensor, begins, math.prod(shape[first:after]))
        row = call(graph, _aten.add.Tensor, call(graph, _aten.view.default, begins, [lead] + [1] * rank), row)
    row = call(graph, _aten.masked_fill.Scalar, row, call(graph, _aten.logical_not.default, inside), -1)
    rows = call(graph, _aten.reshape.default, x, [math.prod(shape[:after]), width])
    found = call(graph, _aten.embedding.default, rows, row)
    own = list(inside.meta["val"].shape)
    return call(graph, _aten.reshape.default, found, [*shape[:first], *own, *shape[after:]])
