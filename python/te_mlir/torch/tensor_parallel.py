"""Rewrites graphs of models of `parallelize_module`, whose parameters are DTensors, to graphs of local tensors.

A linear layer of ColwiseParallel has rows of the weight in each process. Its input is the same in all processes, so the
input's gradient is summed over them. One of RowwiseParallel has columns of the weight and of the input, and its results
are summed. These sums stay in PyTorch, and what is between them is compiled.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Node

from te_mlir.torch import graph as graphs
from te_mlir.torch.collectives import ENTER, SUM
from te_mlir.torch.lines import place_of
from te_mlir.torch.owners import local_part
from te_mlir.torch.replay import CHECKPOINT

#: What the reasons end with.
_TAKEN = "te takes linear layers of ColwiseParallel and RowwiseParallel with their default layouts"


class Localised(NamedTuple):
    """A graph of local tensors. kept: the places of its arguments. sharded: those of them that are DTensors."""

    module: GraphModule
    kept: tuple[int, ...]
    sharded: frozenset[int]

    def arguments(self, given: Sequence[Any]) -> list[Any]:
        """The arguments of the graph, from those of the captured one."""
        return [local_part(given[i]) if i in self.sharded else given[i] for i in self.kept]


class _Refused(Exception):
    """Why a graph is not rewritten."""


class _Call(NamedTuple):
    """What a node calls: a function, or a method by its name, with its operands."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


#: Functions that PyTorch 2.11 traces in place of a call with placements, which are in the function's closure.
_WITH_PLACEMENTS = {
    "prim from_local": "from_local",
    "prim_redistribute": "redistribute",
    "prim_to_local": "to_local",
}


def _call_of(node: Node) -> _Call:
    """The call of a node. DTensor.from_local, redistribute and to_local are names, however PyTorch traces them."""
    from torch.distributed.tensor import DTensor

    if node.op == "call_method" or node.op == "call_function" and node.target is DTensor.from_local:
        return _Call(getattr(node.target, "__name__", node.target), node.args, dict(node.kwargs))
    target: Any = node.target
    name = _WITH_PLACEMENTS.get(getattr(target, "__name__", ""))
    captured: dict[str, Any] = {}
    if node.op == "call_function" and name is not None:
        captured = dict(zip(target.__code__.co_freevars, target.__closure__ or ()))
    if not {"args_as_value", "kwargs_as_value"} <= captured.keys():
        return _Call(target, node.args, dict(node.kwargs))
    args = (*node.args, *captured["args_as_value"].cell_contents)
    return _Call(name, args, {**captured["kwargs_as_value"].cell_contents, **node.kwargs})


def localise(module: GraphModule, examples: Sequence[Any], main_grad: bool) -> Localised | str | None:
    """The graph on local tensors, or the reason why it stays in PyTorch; None for a graph without DTensors."""
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return None
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor

    sharded = [i for i, example in enumerate(examples) if isinstance(example, DTensor)]
    meshes = {i: example for i, example in enumerate(examples) if isinstance(example, DeviceMesh)}
    if not sharded and not meshes:
        return None
    names = graphs.argument_names(module)
    if main_grad and sharded:
        return f"argument '{names[sharded[0]]}' is a DTensor, whose gradient has to be in 'grad'; compile without main_grad"
    graph = copy.deepcopy(module.graph)
    _inline_checkpoints(module, graph)
    try:
        _Rewriting(graph, names, meshes).run()
    except _Refused as refused:
        return str(refused)
    kept = tuple(i for i in range(len(examples)) if i not in meshes)
    return Localised(GraphModule(module, graph), kept, frozenset(sharded))


def _inline_checkpoints(module: GraphModule, graph: torch.fx.Graph) -> None:
    """Replaces torch.utils.checkpoint with what it wraps, as tracing does: the compiler chooses what to recompute."""
    for node in graph.find_nodes(op="call_function", target=CHECKPOINT):
        body: Any
        body, *operands = node.args
        inner = getattr(module, str(body.target)).graph
        # One that is not replaced, because it refers to parts of its own, keeps the graph in PyTorch if it has DTensors.
        if inner.find_nodes(op="get_attr") or any(user.target is not operator.getitem for user in node.users):
            continue
        copies = dict(zip(inner.find_nodes(op="placeholder"), operands))
        with graph.inserting_before(node):
            results: Any = graph.graph_copy(inner, copies)
        for user in list(node.users):
            user.replace_all_uses_with(results[user.args[1]])
            graph.erase_node(user)
        graph.erase_node(node)
        if not body.users:
            graph.erase_node(body)


class _Rewriting:
    """Rewrites a graph in place. names: those of its arguments. meshes: the arguments that are meshes, by place."""

    def __init__(self, graph: torch.fx.Graph, names: Sequence[str], meshes: dict[int, Any]) -> None:
        placeholders = graph.find_nodes(op="placeholder")
        self.graph, self.names = graph, dict(zip(placeholders, names))
        self.meshes = {placeholders[i]: mesh for i, mesh in meshes.items()}
        self.mesh: Any = None
        #: The local tensors of nodes that are DTensors, and their placements.
        self.local: dict[Node, Node] = {}
        self.placement: dict[Node, Any] = {}
        #: Those of them that need gradients.
        self.wanting: set[Node] = set()
        #: Nodes that take the local tensor of a DTensor, and that tensor. They are replaced last.
        self.taken: dict[Node, Node] = {}
        #: Biases to add after the sum of a layer's results.
        self.biases: dict[Node, Node] = {}
        #: Inputs of layers of ColwiseParallel.
        self.entered: dict[Node, Node] = {}

    def run(self) -> None:
        from torch.distributed.tensor import DTensor

        erased = []
        for node in list(self.graph.nodes):
            value = node.meta.get("example_value")
            given = [n for n in node.all_input_nodes if n in self.local or n in self.meshes]
            if node.op == "placeholder":
                if isinstance(value, DTensor):
                    self._parameter(node, value)
            elif given or isinstance(value, DTensor):
                self._node(node, value)
                if node not in self.local or self.local[node] is not node:
                    erased.append(node)
        for node, local in self.taken.items():
            while local in self.taken:
                local = self.taken[local]
            node.replace_all_uses_with(local)
        for node in reversed([*self.meshes, *erased]):
            self.graph.erase_node(node)
        self.graph.lint()

    def _parameter(self, node: Node, value: Any) -> None:
        mesh, what = value.device_mesh, f"argument '{self.names[node]}' is a DTensor with placements {value.placements}"
        if mesh.ndim != 1:
            raise _Refused(f"{what} on a mesh of {mesh.ndim} dimensions; {_TAKEN}, on a mesh of one dimension")
        if self.mesh is not None and mesh != self.mesh:
            raise _Refused(f"{what} on another mesh than other arguments of the graph; {_TAKEN}, on one mesh")
        if mesh.get_coordinate() is None:
            raise _Refused(f"{what} on a mesh without this process")
        (placement,) = value.placements
        axis = getattr(placement, "dim", None)
        if not placement.is_replicate() and not (placement.is_shard() and axis in range(value.ndim)):
            raise _Refused(f"{what}; {_TAKEN}")
        if axis is not None and value.shape[axis] % mesh.size():
            raise _Refused(
                f"{what}, which has {value.shape[axis]} elements there for {mesh.size()} processes; {_TAKEN}"
            )
        self.mesh = mesh
        self._set(node, node, value)

    def _set(self, node: Node, local: Node, value: Any) -> None:
        """Notes the local tensor of a node, whose value is a DTensor."""
        self.local[node], (self.placement[node],) = local, value.placements
        if value.requires_grad:
            self.wanting.add(node)
        if local is node:
            node.meta["example_value"] = _inner(value)

    def _node(self, node: Node, value: Any) -> None:
        """Rewrites a node that computes a DTensor, or reads one."""
        call = _call_of(node)
        is_done = False
        if call.target == "from_local":
            is_done = self._from_local(node, call, value)
        elif call.target is torch.nn.functional.linear:
            is_done = self._linear(node, value)
        elif call.target == "redistribute":
            is_done = self._redistribute(node, call, value)
        elif call.target == "to_local":
            is_done = self._to_local(node, call)
        if not is_done:
            raise _Refused(self._reason(node, value))

    def _reason(self, node: Node, value: Any) -> str:
        target = _call_of(node).target
        name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
        what = "a result of the graph is" if node.op == "output" else f"'{name}' has"
        operands = [n for n in node.all_input_nodes if n in self.local]
        given = [f"{self.names.get(n, n.name)}: {self.placement[n]!r}" for n in operands]
        text = f"{what} a DTensor ({', '.join(given)})" if given else f"{what} an operand on a DeviceMesh"
        placements = getattr(value, "placements", None)
        made = f" and a result with placements {placements}" if placements else ""
        return f"{text}{made}{place_of(node)}; {_TAKEN}"

    def _from_local(self, node: Node, call: _Call, value: Any) -> bool:
        x, *rest = call.args
        others = {key for key, given in call.kwargs.items() if given and key not in ("placements", "device_mesh")}
        if others or len(rest) > 2 or not isinstance(x, Node) or x in self.local or value.device_mesh != self.mesh:
            return False
        (placement,) = value.placements
        if not (placement.is_replicate() or _is_shard(placement, value.ndim - 1)):
            return False
        self._set(node, x, value)
        return True

    def _to_local(self, node: Node, call: _Call) -> bool:
        source: Any = call.args[0]
        if len(call.args) > 1 or call.kwargs.get("grad_placements") or _is_partial(self.placement[source]):
            return False
        self.taken[node] = self.local[source]
        return True

    def _linear(self, node: Node, value: Any) -> bool:
        names = ("input", "weight", "bias")
        operands: dict[str, Any] = dict(zip(names, node.args)) | dict(node.kwargs)
        x, weight, bias = (operands.get(name) for name in names)
        if x not in self.local or weight not in self.local or not (bias is None or bias in self.local):
            return False
        given, by = self.placement[x], self.placement[weight]
        of_bias = self.placement[bias] if bias is not None else None
        (made,), local = value.placements, self.local[x]
        if given.is_replicate() and _is_shard(by, 0) and (of_bias is None or _is_shard(of_bias, 0)):
            if not _is_shard(made, value.ndim - 1):
                return False
            if x in self.wanting:
                local = self._enter(node, local)
        elif _is_shard(given, _dims(x) - 1) and _is_shard(by, 1) and (of_bias is None or of_bias.is_replicate()):
            if not _is_partial(made):
                return False
            if bias is not None:
                self.biases[node], bias = self.local[bias], None
        else:
            return False
        node.args, node.kwargs = (local, self.local[weight], self.local[bias] if bias is not None else None), {}
        self._set(node, node, value)
        return True

    def _enter(self, node: Node, x: Node) -> Node:
        """The input of a layer of ColwiseParallel. Layers with one input share the sum of its gradients."""
        if x not in self.entered:
            with self.graph.inserting_before(node):
                self.entered[x] = self._call(ENTER, (x, self._group()), x, node)
        return self.entered[x]

    def _group(self) -> str:
        return str(self.mesh.get_group(0).group_name)

    def _call(self, target: Any, arguments: tuple[Any, ...], like: Node, place: Node) -> Node:
        """A call whose result is like `like`, at the line of `place`."""
        made = self.graph.call_function(target, arguments)
        made.meta = {**place.meta, "example_value": like.meta.get("example_value")}
        return made

    def _redistribute(self, node: Node, call: _Call, value: Any) -> bool:
        source: Any = call.args[0]
        others = {key for key, given in call.kwargs.items() if given and key not in ("placements", "async_op")}
        if others or len(call.args) > 1 or source not in self.local:
            return False
        before, (after,) = self.placement[source], value.placements
        local = self.local[source]
        if _is_partial(before) and after.is_replicate():
            with self.graph.inserting_before(node):
                local = self._call(SUM, (local, self._group()), local, node)
                bias = self.biases.get(source)
                if bias is not None:
                    if bias.meta["example_value"].dtype is not value.dtype:
                        # Under torch.autocast, the layer would cast its bias.
                        bias = self.graph.call_method("to", (bias, value.dtype))
                    local = self._call(torch.add, (local, bias), local, node)
        elif before != after:
            return False
        self._set(node, local, value)
        return True


def _inner(value: Any) -> Any:
    """The local tensor of a DTensor that tracing made."""
    with torch.no_grad():
        return value.to_local()


def _dims(node: Node) -> int:
    return int(node.meta["example_value"].dim())


def _is_shard(placement: Any, axis: int) -> bool:
    from torch.distributed.tensor import Shard

    return type(placement) is Shard and placement.dim == axis


def _is_partial(placement: Any) -> bool:
    """Whether a value is the sum of those of the processes."""
    from torch.distributed.tensor import Partial

    return bool(placement == Partial())
