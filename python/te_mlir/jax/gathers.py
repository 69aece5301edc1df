"""Finds gathers of rows of a table, and gathers of one element of each row."""

from __future__ import annotations

import math

import jax

from te_mlir.frontend.graph import Atom, Const, Node, Var
from te_mlir.frontend.looking import counts_along, node_of, scalar

#: The indices, and whether indices out of range are clamped to the last or the first.
Taken = tuple[Atom, bool]


def rows_of(node: Node) -> Taken | None:
    """The indices of a gather of whole rows of a matrix; None for other gathers."""
    (table, index), var = node.inputs, node.output
    numbers = node.params["dimension_numbers"]
    collapsed, start = tuple(numbers.collapsed_slice_dims), tuple(int(a) for a in numbers.start_index_map)
    behind = 1 + (collapsed == ())
    whole = node_of(index, "concatenate")
    # jax.vmap gathers rows by pairs of indices: the row, and column 0.
    if start == (0, 1) and whole is not None and [v.shape[-1] for v in whole.inputs] == [1, 1]:
        index = whole.inputs[0]
        start = (0,) if scalar(whole.inputs[1]) == 0 else start
    elif start == (0, 1) and isinstance(index, Const) and index.shape[-1] == 2:
        numbered = index.array()
        index = Const(numbered[..., 0], numbered.shape[:-1])
        start = (0,) if (numbered[..., 1] == 0).all() else start
    rows = (
        len(table.shape) == 2
        and tuple(int(s) for s in node.params["slice_sizes"]) == (1, table.shape[1])
        and tuple(numbers.offset_dims) == tuple(range(len(var.shape) - behind, len(var.shape)))
        and collapsed in ((), (0,))
        and start == (0,)
        and math.prod(index.shape) == math.prod(var.shape[:-1])
        and not numbers.operand_batching_dims
    )
    return (index, node.params["mode"] == jax.lax.GatherScatterMode.CLIP) if rows else None


def picks_of(node: Node) -> Taken | None:
    """The indices of `take_along_axis(x, indices[..., None], -1)` or `x[arange(rows), indices]`; None for other gathers."""
    (x, index), params = node.inputs, node.params
    if not isinstance(x, Var):
        return None
    rank, numbers, fill = len(x.shape), params["dimension_numbers"], params.get("fill_value")
    if tuple(int(s) for s in params["slice_sizes"]) != (1,) * rank or (fill is not None and not math.isnan(fill)):
        return None
    clamps = "CLIP" in str(params["mode"])
    if tuple(numbers.start_index_map) == (rank - 1,):
        # One element of each row, in the order of the rows. Axes of size 1 need not be batch axes.
        batches = [int(a) for a in numbers.operand_batching_dims]
        places = [int(a) for a in numbers.start_indices_batching_dims]
        every = all(axis in batches for axis in range(rank - 1) if x.shape[axis] != 1)
        in_order = batches == sorted(batches) and places == sorted(places)
        whole = every and in_order and math.prod(index.shape) == math.prod(x.shape[:-1])
        return (index, clamps) if whole else None
    parts = node_of(index, "concatenate")
    if tuple(numbers.start_index_map) != tuple(range(rank)) or numbers.operand_batching_dims or parts is None:
        return None
    if int(parts.params["dimension"]) != len(index.shape) - 1 or len(parts.inputs) != rank:
        return None
    targets = parts.inputs[-1]
    if targets.shape != (*x.shape[:-1], 1):
        return None
    for axis, part in enumerate(parts.inputs[:-1]):
        if not isinstance(part, Const) or part.shape != targets.shape or not counts_along(part, axis):
            return None
    return targets, clamps
