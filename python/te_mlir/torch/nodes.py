"""Adds nodes to an ATen graph, with their values, where the graph inserts nodes at present."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, Node


def call(graph: Graph, op: torch._ops.OpOverload, *arguments: Any, **options: Any) -> Node:
    """A new node of a graph, with its value."""
    values = (n.meta.get("val") for n in graph.nodes)
    mode = next(value.fake_mode for value in values if isinstance(value, FakeTensor))
    node = graph.call_function(op, arguments, options)
    given = torch.fx.node.map_arg((arguments, options), lambda n: n.meta["val"])
    with mode:
        node.meta["val"] = op(*given[0], **given[1])
    return node


def called(graph: Graph, value: Any, target: Any, *arguments: Any) -> Node:
    """A node that calls an op whose result is like `value`."""
    made = graph.call_function(target, arguments)
    made.meta["val"] = value
    return made


def cast(graph: Graph, node: Node, dtype: torch.dtype) -> Node:
    """A node, or a cast of it if it has another type."""
    return node if node.meta["val"].dtype is dtype else call(graph, torch.ops.aten.to.dtype, node, dtype)
