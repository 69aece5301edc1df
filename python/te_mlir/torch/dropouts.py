"""Gives the dropouts of a graph a random state, so that they can be compiled.

The state is drawn from PyTorch's generator of the device in each call, without a wait for the device. So
`torch.manual_seed` repeats a run, and a checkpoint that restores the generator computes the same zeros
again. Compiled code zeroes other elements than PyTorch would.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.utils._pytree import tree_leaves

from te_mlir.torch.effects import is_random

#: The range of the numbers of a state.
_RANGE = -(2**31), 2**31


def dropout(state: torch.Tensor, stream: int, *arguments: Any, **options: Any) -> torch.Tensor:
    """aten.dropout of `arguments`, to be compiled. `take_back` replaces those that stay in PyTorch."""
    raise NotImplementedError


def attention(state: torch.Tensor, stream: int, *arguments: Any, **options: Any) -> torch.Tensor:
    """aten.scaled_dot_product_attention with dropout, like `dropout`."""
    raise NotImplementedError


#: The ops that draw, and their functions.
DRAWING = {
    torch.ops.aten.dropout.default: dropout,
    torch.ops.aten.scaled_dot_product_attention.default: attention,
}
#: The op of each function.
DRAWN: dict[Any, torch._ops.OpOverload] = {function: op for op, function in DRAWING.items()}


def give_states(graph: Graph) -> None:
    """Replaces the dropouts of a graph with the functions. The state of a device is drawn at the start of the graph."""
    states: dict[torch.device, Node] = {}
    first = next(node for node in graph.nodes if node.op != "placeholder")
    for stream, node in enumerate([n for n in graph.nodes if _draws(n)]):
        value = node.meta["val"]
        if value.device not in states:
            with graph.inserting_before(first):
                kwargs = {"dtype": torch.int32, "device": value.device, "pin_memory": False}
                drawn = graph.call_function(torch.ops.aten.randint.low, (*_RANGE, [2]), kwargs)
            drawn.meta["val"] = value.new_empty((2,), dtype=torch.int32)
            states[value.device] = drawn
        node.target, node.args = DRAWING[node.target], (states[value.device], stream, *node.args)


def take_back(graph: Graph, compiled: Set[Node]) -> None:
    """Lets the dropouts that are not compiled be PyTorch's again, which draw as without te."""
    for node in [n for n in graph.nodes if n.target in DRAWN and n not in compiled]:
        state, _, *arguments = node.args
        node.target, node.args = DRAWN[node.target], tuple(arguments)
        if not state.users:
            graph.erase_node(state)


class Generators:
    """PyTorch's generators that nodes draw from, so that a call can be started again with the same numbers."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        drawn = [node.meta.get("val") for node in nodes if is_random(node)]
        devices = {value.device for value in tree_leaves(drawn) if isinstance(value, torch.Tensor)}
        gpus = [device.index for device in devices if device.type == "cuda"]
        self._gpus = [torch.cuda.current_device() if index is None else index for index in gpus]
        self._uses_host = any(device.type == "cpu" for device in devices)

    def states(self) -> tuple[torch.Tensor | None, list[torch.Tensor]]:
        """Their states, for `restore`. While a CUDA graph is captured, those of GPUs cannot be read, and are left out."""
        host = torch.get_rng_state() if self._uses_host else None
        if not self._gpus or torch.cuda.is_current_stream_capturing():
            return host, []
        return host, [torch.cuda.get_rng_state(index) for index in self._gpus]

    def restore(self, states: tuple[torch.Tensor | None, list[torch.Tensor]]) -> None:
        host, gpus = states
        if host is not None:
            torch.set_rng_state(host)
        for index, state in zip(self._gpus, gpus):
            torch.cuda.set_rng_state(state, index)


def _draws(node: Node) -> bool:
    """Whether a node zeroes random floats."""
    if node.op != "call_function" or node.target not in DRAWING or not node.meta["val"].is_floating_point():
        return False
    if node.target is torch.ops.aten.dropout.default:
        _, probability, train = node.args
        return bool(train and probability)
    return bool(node.args[4] if len(node.args) > 4 else node.kwargs.get("dropout_p"))
