"""Rewrites rotations by complex numbers as rotations of neighbouring pairs of real numbers, which are imported.

Llama's own code spells rotary embeddings as `view_as_real(view_as_complex(x) * table)`.
"""

from __future__ import annotations

from collections.abc import Set

import torch
from torch.fx import Graph, Node

from te_mlir.torch.nodes import call

_aten = torch.ops.aten


def as_pairs(graph: Graph, dependent: Set[Node]) -> None:
    """Replaces the rotations of the nodes `dependent` of a graph by numbers that are not among them."""
    for node in [n for n in graph.nodes if n.target is _aten.view_as_real.default and n in dependent]:
        product = node.args[0]
        if product.target is not _aten.mul.Tensor or len(product.users) != 1:
            continue
        for pairs, table in (product.args, product.args[::-1]):
            is_number = isinstance(table, Node) and table not in dependent and table.meta["val"].is_complex()
            if is_number and pairs.target is _aten.view_as_complex.default:
                with graph.inserting_before(node):
                    rotated = _rotated(graph, pairs.args[0], table)
                if rotated.meta["val"].shape == node.meta["val"].shape:
                    node.replace_all_uses_with(rotated)
                break
    graph.eliminate_dead_code()


def _rotated(graph: Graph, pairs: Node, table: Node) -> Node:
    """x[..., 2] as complex numbers times a table, as real numbers [..., 2]."""
    shape = list(pairs.meta["val"].shape)
    rows = [*shape[:-2], shape[-2] * 2]
    numbers = call(graph, _aten.view_as_real.default, table)
    own = list(numbers.meta["val"].shape)

    def both(part: int) -> Node:
        """The real or the imaginary parts, twice each."""
        one = call(graph, _aten.select.int, numbers, -1, part)
        two = call(graph, _aten.stack.default, [one, one], -1)
        return call(graph, _aten.reshape.default, two, [*own[:-2], own[-2] * 2])

    x = call(graph, _aten.reshape.default, pairs, rows)
    even, odd = (call(graph, _aten.slice.Tensor, x, -1, first, rows[-1], 2) for first in (0, 1))
    turned = call(graph, _aten.stack.default, [call(graph, _aten.neg.default, odd), even], -1)
    turned = call(graph, _aten.reshape.default, turned, rows)
    straight = call(graph, _aten.mul.Tensor, x, both(0))
    made = call(graph, _aten.add.Tensor, straight, call(graph, _aten.mul.Tensor, turned, both(1)))
    return call(graph, _aten.reshape.default, made, shape)
