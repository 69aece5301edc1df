"""Finds attention weights beside sinks, `softmax(cat([scores, sinks], -1), -1)[..., :-1]`, in a graph of ATen ops.

If keys have padding, it is before the sinks, and so at the end of no axis of the values between `cat` and the slice. What
such values are is known of all of them together: a mask hides the padding, and they have no readers outside.
"""

from __future__ import annotations

import operator
from typing import NamedTuple

import torch
from torch.fx import Node

from te_mlir.torch.adapter import CASTS, given, name_of
from te_mlir.torch.facts import Factor

#: Softmaxes of which an element that is hidden is 0.
SHARES = ("softmax", "_softmax", "_safe_softmax", "special_softmax")
#: Types of scores that may be -infinity, by which masks hide elements.
INFINITE = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


class Between(NamedTuple):
    """What is known of a value between. padded: the padding of its scores, which is not at the end of an axis."""

    padded: list[Factor]


class Sinks(NamedTuple):
    """scores: those that are joined with sinks. between: the values between. weights: the softmaxes without the sinks."""

    scores: Node
    sinks: Node
    between: list[Node]
    weights: list[Node]


def sinks_of(cat: Node) -> Sinks | None:
    """The weights that are computed from a `cat` of scores and sinks; None if other nodes read it, or it is another one."""
    arguments = given(cat)
    tensors = arguments["tensors"]
    if len(tensors) != 2 or tensors[1].meta["val"].shape[-1:] != (1,) or not _is_last(cat, arguments["dim"]):
        return None
    # Scores beside sinks, their maxima, which may be subtracted, and their softmaxes.
    joined, maxima, shares, weights = [cat], list[Node](), list[Node](), list[Node]()
    node = cat.next
    while node.op != "output":
        if any(n in (*joined, *maxima, *shares) for n in node.all_input_nodes):
            name, first = name_of(node), node.args[0]
            if first in joined and name in ("max", "amax") and _is_maximum(node):
                maxima.append(node)
            elif first in joined and name == "sub" and node.args[1] in maxima and not node.kwargs:
                joined.append(node)
            elif first in joined and name in SHARES and _is_last(node, given(node)["dim"]):
                shares.append(node)
            elif first in shares and name == "slice" and _is_without_last(node):
                weights.append(node)
            elif first in maxima and (name == "detach" or node.target is operator.getitem and node.args[1] == 0):
                maxima.append(node)
            elif name in CASTS and first in joined and node.meta["val"].dtype in INFINITE:
                joined.append(node)
            elif name in CASTS and first in shares:
                shares.append(node)
            else:
                return None
        node = node.next
    between = [*joined, *maxima, *shares]
    if any(n in between for n in node.all_input_nodes):
        return None
    return Sinks(tensors[0], tensors[1], between, weights)


def _is_last(node: Node, axis: int) -> bool:
    """Whether an axis of the first operand of a node, or of the operands of `cat`, is the last one."""
    rank = node.all_input_nodes[0].meta["val"].dim()
    return axis in (-1, rank - 1)


def _is_maximum(node: Node) -> bool:
    """Whether a node has the maximum of each row, in place of the row."""
    arguments = given(node)
    axes = arguments.get("dim")
    (axis,) = axes if isinstance(axes, (list, tuple)) and len(axes) == 1 else (axes,)
    return isinstance(axis, int) and _is_last(node, axis) and bool(arguments["keepdim"])


def _is_without_last(node: Node) -> bool:
    """Whether a node is a slice of all elements of each row but the last one."""
    arguments = given(node)
    is_last = _is_last(node, arguments["dim"]) and arguments["step"] == 1
    return is_last and arguments["start"] in (0, None) and arguments["end"] == -1
