"""Runs the graphs of dynamo while they are traced to ATen ops, and replaces what plain tracing would lose.

* Blocks of torch.autocast are in force.
* `torch.nn.attention.sdpa_kernel` has no effect, because te has its own attention. See `is_choice`.
* `flex_attention` becomes attention with a tensor as its mask. See `te_mlir.torch.flex`.
* Parts under torch.vmap become ops on whole tensors.
* A torch.utils.checkpoint is what it wraps.
* A torch.autograd.Function becomes one op. See `te_mlir.torch.custom`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.attention
from torch._functorch import predispatch
from torch.func import functionalize
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from te_mlir.torch import custom, flex
from te_mlir.torch.lines import place_of

#: What dynamo calls for `torch.nn.attention.sdpa_kernel`.
_CHOICES = (torch.nn.attention._backend_from_string, torch.nn.attention._sdpa_kernel)
#: The start and the end of torch.vmap.
_BEGIN, _END = predispatch._vmap_increment_nesting, predispatch._vmap_decrement_nesting
_FLEX = torch.ops.higher_order.flex_attention
#: What dynamo calls for `torch.utils.checkpoint`.
CHECKPOINT = torch.ops.higher_order.tag_activation_checkpoint


def is_choice(target: Any) -> bool:
    """Whether a function chooses kernels of PyTorch's attention, and computes nothing."""
    return target in _CHOICES


def is_traced_first(module: GraphModule) -> bool:
    """Whether the graph of a module, or of one in it, has parts that a first run has to trace."""
    parts = (part.graph for part in module.modules() if isinstance(part, GraphModule))
    return any(node.target in (_FLEX, _BEGIN) for graph in parts for node in graph.nodes)


class _Mapped(torch.fx.Interpreter):
    """Runs a part of a graph under torch.vmap, inside of other transformations."""

    #: The number of levels outside.
    outer: int | None = None

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        # The graph has the numbers of the levels, from 1 on.
        outer = self.outer or 0
        if target is predispatch._add_batch_dim:
            args = (*args[:2], args[2] + outer)
        elif target is predispatch._remove_batch_dim:
            args = (args[0], args[1] + outer, *args[2:])
        made = super().call_function(target, args, kwargs)
        if target is _BEGIN and self.outer is None:
            self.outer = made - 1
        return made


def _mapped(graph: torch.fx.Graph) -> list[list[Node]]:
    """The parts of a graph under torch.vmap, in order."""
    found: list[list[Node]] = []
    depth = 0
    for node in graph.nodes:
        if node.target is _BEGIN:
            if depth == 0:
                found.append([])
            depth += 1
        if depth:
            found[-1].append(node)
        depth -= node.target is _END
    return found


class Replay(torch.fx.Interpreter):
    """Runs a graph of dynamo.

    traced: graphs of ATen ops for functions under torch.vmap. The first run, on fake tensors, fills it. The second one
    is traced before autograd, which cannot look into torch.vmap. calls: the calls of torch.autograd.Functions.
    """

    def __init__(self, module: GraphModule, traced: dict[Any, GraphModule], calls: custom.Calls) -> None:
        super().__init__(module)
        self.traced, self.calls = traced, calls
        self._parts = {nodes[0]: nodes for nodes in _mapped(module.graph)}
        self._within = {node for nodes in self._parts.values() for node in nodes}
        self._results: dict[Node, Any] = {}

    def run_node(self, node: Node) -> Any:
        if node in self._parts:
            self._results.update(self._part(self._parts[node]))
        if node.target is custom.APPLY:
            return self.calls(node, place_of(node), *self.fetch_args_kwargs_from_env(node))
        return self._results.pop(node, None) if node in self._within else super().run_node(node)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is torch.amp.autocast_mode._enter_autocast:
            device, *rest = args
            names = ("dtype", "enabled", "cache_enabled")
            return torch.autocast(device, **dict(zip(names, rest))).__enter__()
        if target is torch.amp.autocast_mode._exit_autocast:
            return args[0].__exit__(None, None, None)
        if is_choice(target):
            return None
        if target is CHECKPOINT:
            # The compiler chooses what to recompute.
            body, *operands = args
            return Replay(body, self.traced, self.calls).run(*operands)
        if target is _FLEX:
            return flex.attention(self._whole, *args, **kwargs)
        return super().call_function(target, args, kwargs)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        module = self.fetch_attr(target)
        if isinstance(module, GraphModule):
            return Replay(module, self.traced, self.calls).run(*args, **kwargs)
        return super().call_module(target, args, kwargs)

    def _whole(self, key: Any, function: Callable[..., Any], *tensors: torch.Tensor) -> Any:
        """The results of a function that uses torch.vmap. key: identifies the function."""
        if key not in self.traced:
            self.traced[key] = make_fx(functionalize(function))(*tensors)
        return torch.fx.Interpreter(self.traced[key]).run(*tensors)

    def _part(self, nodes: list[Node]) -> dict[Node, Any]:
        """The values that a part under torch.vmap computes for other nodes."""
        within = set(nodes)
        given = list(dict.fromkeys(n for node in nodes for n in node.all_input_nodes if n not in within))
        results = [node for node in nodes if any(user not in within for user in node.users)]
        graph = torch.fx.Graph()
        copies: dict[Node, Node] = {n: graph.placeholder(n.name) for n in given}
        for node in nodes:
            copies[node] = graph.node_copy(node, copies.__getitem__)
        graph.output(tuple(copies[n] for n in results))
        module = GraphModule(self.module, graph)
        values = self._whole(nodes[0], lambda *t: _Mapped(module).run(*t), *(self.env[n] for n in given))
        return dict(zip(results, values))
