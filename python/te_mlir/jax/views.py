"""Where the elements of a value lie that only views another: the operations that cost nothing."""

from __future__ import annotations

from typing import Optional

from te_mlir.jax.graph import Node, Var
from te_mlir.layout import Layout


def viewed(var: Var, node: Node, layout: Layout) -> Optional[Layout]:
    """How what a node gives lies, if its operand lies as `layout`; None where it is no view."""
    params = node.params
    if node.name in ("reshape", "squeeze", "expand_dims"):
        return layout.reshape(var.shape)
    if node.name in ("convert_element_type", "copy"):
        return layout
    if node.name == "transpose":
        return layout.permute([int(a) for a in params["permutation"]])
    if node.name == "broadcast_in_dim":
        axes = [int(a) for a in params["broadcast_dimensions"]]
        if axes != sorted(axes):
            return None
        dims = tuple(layout.dims[axes.index(a)] if a in axes else () for a in range(len(var.shape)))
        return Layout(dims, layout.offset).expand(var.shape)
    if node.name == "slice":
        if any(s != 1 for s in params["strides"] or ()):
            return None
        found: Optional[Layout] = layout
        for axis, (first, end) in enumerate(zip(params["start_indices"], params["limit_indices"])):
            found = found.narrow(axis, int(first), int(end)) if found is not None else None
        return found
    if node.name == "split":
        axis = int(params["axis"])
        first = sum(int(s) for s in params["sizes"][: node.outputs.index(var)])
        return layout.narrow(axis, first, first + var.shape[axis])
    return None
