"""Cuts linear layers of which only parts are read (q, k and v, or gate and up) into one layer for each part.

This changes the ATen graph before it is divided, so that each part can be in a region of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.fx import Graph, Node

from te_mlir.frontend.graph import Var
from te_mlir.frontend.linear import Linear, match_linear
from te_mlir.frontend.looking import is_widened, uncast
from te_mlir.frontend.parts import Part, parts_of
from te_mlir.layout import Layout, row_major, same
from te_mlir.torch.adapter import Adapter
from te_mlir.torch.arguments import fake
from te_mlir.torch.nodes import called, cast
from te_mlir.torch.stored import stored


def cut_layers(graph: Graph, parameters: set[Node], written: set[Node]) -> None:
    """Replaces views of columns, which kernels do not take, by layers of rows of the weight, which they read in place.

    written: nodes that share memory with a tensor that is written in place.
    """
    for node in [n for n in graph.nodes if n.op == "call_function"]:
        adapter = Adapter()
        base = adapter.var(node)
        found = match_linear(base, lambda atom: stored(atom, parameters) is not None, adapter.readers)
        if found is None or not found.rows or found.x.free > found.x.summed:
            continue
        operands = [v for v in (found.w.atom, found.bias) if isinstance(v, Var)]
        places = [stored(v, parameters) for v in operands]
        if any(place is None or place.part is not None for place in places) or any(map(is_widened, operands)):
            continue
        parts = parts_of(base, found.layout, found.rows, found.columns, adapter.uses) or []
        touched = {node, found.node.origin, *(part.var.origin for part in parts)}
        if parts and all(map(_fits, parts)) and not touched & written:
            _cut(graph, node, found, parts)
    graph.eliminate_dead_code()


def _fits(part: Part) -> bool:
    """Whether every recipe takes a layer of these columns, and PyTorch has a view for the part."""
    run = part.columns.run
    # The addresses of such rows are also multiples of 16 bytes.
    return run is not None and not (run[0] % 32 or run[1] % 32) and all(len(dim) <= 1 for dim in _dims(part))


def _dims(part: Part) -> list[list[tuple[int, int]]]:
    """The sizes and strides of each dimension of a part."""
    return [Layout((dim,)).atoms for dim in part.layout.dims]


def _cut(graph: Graph, node: Node, found: Linear, parts: Sequence[Part]) -> None:
    """Adds a layer for each run of columns, and replaces the parts of `node` by views of these."""
    x, dtype = found.x.atom.origin, getattr(torch, found.node.output.dtype)  # type: ignore[union-attr]
    with graph.inserting_before(node):
        w = found.w.atom.origin  # type: ignore[union-attr]
        if found.w.free > found.w.summed:
            w = called(graph, fake(w).t(), torch.ops.aten.t.default, w)
        vectors = [w] if found.bias is None else [w, found.bias.origin]
        made: dict[tuple[int, int], Node] = {}
        for run in sorted(part.columns.run for part in parts if part.columns.run is not None):
            if run not in made:
                rows = [_rows(graph, vector, *run, dtype) for vector in vectors]
                value = fake(x).new_empty((*fake(x).shape[:-1], run[1] - run[0]), dtype=dtype)
                made[run] = called(graph, value, torch.ops.aten.linear.default, x, *rows)
    for part in parts:
        assert part.columns.run is not None, "_fits checks it"
        _replace(graph, part, made[part.columns.run], fake(node).dtype)


def _rows(graph: Graph, vector: Node, first: int, end: int, dtype: torch.dtype) -> Node:
    """Rows of the parameter below `vector`, with the casts in between, and cast to `dtype`."""
    parameter = uncast(Adapter().var(vector)).origin  # type: ignore[union-attr]
    rows = called(graph, fake(parameter)[first:end], torch.ops.aten.slice.Tensor, parameter, 0, first, end)
    return cast(graph, cast(graph, rows, fake(vector).dtype), dtype)


def _replace(graph: Graph, part: Part, layer: Node, dtype: torch.dtype) -> None:
    """Replaces a part by the layer of its columns, cast to `dtype` and then as the part is."""
    view: Node = part.var.origin
    with graph.inserting_before(view):
        for to in (dtype, *(getattr(torch, name) for name in part.types)):
            layer = cast(graph, layer, to)
        if not same(part.layout, row_major(fake(layer).shape)):
            shape, strides = list(part.layout.shape), [dim[0][1] if dim else 1 for dim in _dims(part)]
            value = fake(layer).as_strided(shape, strides)
            layer = called(graph, value, torch.ops.aten.as_strided.default, layer, shape, strides)
    view.replace_all_uses_with(layer)
