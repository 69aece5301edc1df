"""Gives the dropouts of a graph a random state, so that they can be compiled.

The state is drawn from PyTorch's generator of the device in each call, without a wait for the device. So
`torch.manual_seed` repeats a run, and a checkpoint that restores the generator computes the same zeros
again. Compiled code zeroes other elements than PyTorch would.
"""

from __future__ import annotations

from collections.abc import Set

import torch
from torch.fx import Graph, Node

#: The range of the numbers of a state.
_RANGE = -(2**31), 2**31


def dropout(x: torch.Tensor, state: torch.Tensor, probability: float, stream: int) -> torch.Tensor:
    """A dropout that is compiled. `take_back` replaces those that stay in PyTorch."""
    raise NotImplementedError


def give_states(graph: Graph) -> None:
    """Replaces the dropouts of a graph with `dropout`. The state of a device is drawn at the start of the graph."""
    states: dict[torch.device, Node] = {}
    first = next(node for node in graph.nodes if node.op != "placeholder")
    for stream, node in enumerate([n for n in graph.nodes if _draws(n)]):
        x, probability, _ = node.args
        value = x.meta["val"]
        if value.device not in states:
            with graph.inserting_before(first):
                kwargs = {"dtype": torch.int32, "device": value.device, "pin_memory": False}
                drawn = graph.call_function(torch.ops.aten.randint.low, (*_RANGE, [2]), kwargs)
            drawn.meta["val"] = value.new_empty((2,), dtype=torch.int32)
            states[value.device] = drawn
        node.target, node.args, node.kwargs = dropout, (x, states[value.device], probability, stream), {}


def take_back(graph: Graph, compiled: Set[Node]) -> None:
    """Lets the dropouts that are not compiled be PyTorch's again, which draw as without te."""
    for node in [n for n in graph.nodes if n.target is dropout and n not in compiled]:
        x, state, probability, _ = node.args
        node.target, node.args = torch.ops.aten.dropout.default, (x, probability, True)
        if not state.users:
            graph.erase_node(state)


def _draws(node: Node) -> bool:
    """Whether a node zeroes random elements of a tensor of floats."""
    if node.op != "call_function" or str(node.target) != "aten.dropout.default":
        return False
    _, probability, train = node.args
    return bool(train and probability and node.meta["val"].is_floating_point())
