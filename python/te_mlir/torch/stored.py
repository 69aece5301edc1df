"""Where in a parameter the weight of a layer is stored."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from torch.fx import Node as Origin

from te_mlir.frontend.graph import Atom, Node, Var
from te_mlir.frontend.looking import node_of, uncast
from te_mlir.torch.states import Part


class Stored(NamedTuple):
    """Where a value is stored: in a parameter or, if `part` is not None, in a part of it; whether the value is transposed."""

    parameter: Var
    transposed: bool = False
    part: Part | None = None


def stored(atom: Atom, parameters: Set[Origin]) -> Stored | None:
    """Where a value is stored that is a parameter, its transpose, rows or columns of it, or a cast; None for others."""
    atom = uncast(atom)
    if isinstance(atom, Var) and atom.origin in parameters:
        return Stored(atom)
    node = node_of(atom, "transpose", "slice")
    found = stored(node.inputs[0], parameters) if node is not None else None
    if node is None or found is None:
        return None
    if node.name == "transpose":
        matrix = tuple(node.params["permutation"]) == (1, 0)
        return found._replace(transposed=not found.transposed) if matrix else None
    if node.output.shape == node.inputs[0].shape:
        return found
    part = _part(node, found)
    return found._replace(part=part) if part is not None else None


def _part(node: Node, of: Stored) -> Part | None:
    """The part of a parameter that a slice of `of` reads; None if it is not a part that can be a weight."""
    starts, limits, strides = (node.params[name] for name in ("start_indices", "limit_indices", "strides"))
    others = any(starts[1:]) or tuple(limits[1:]) != node.inputs[0].shape[1:]
    is_slice = str(getattr(node.origin, "target", "")).startswith("aten.slice.")
    if not is_slice or of.part is not None or others or any(step != 1 for step in strides) or starts[0] == limits[0]:
        return None
    if of.transposed:
        return Part(1, starts[0], limits[0])
    tensor = of.parameter.origin.meta["val"]
    # Rows are read in place.
    aligned = starts[0] * tensor.stride(0) * tensor.element_size() % 16 == 0
    return Part(0, starts[0], limits[0]) if aligned else None
