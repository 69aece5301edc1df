"""The side effects of the nodes of a graph: writes to memory, random numbers, and modes for other nodes.

Nodes that use the same memory or generator stay in the order of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Node

from te_mlir.torch import casts

#: The key of the random generator among the memory that nodes use.
RANDOM = "random"

#: Ops that write to arguments although their schemas do not declare it: the arguments, and the flag that enables it.
_HIDDEN_WRITES = {"batch_norm": ((3, 4), 5), "instance_norm": ((3, 4), 5)}

#: In-place ops that can be replaced with other ops if the tensor is not read under its old names.
PLAIN = frozenset(
    [
        *("add", "sub", "mul", "div", "addcmul", "neg", "exp", "tanh", "sqrt", "rsqrt", "pow", "square", "sigmoid"),
        *("relu", "relu6", "leaky_relu", "elu", "selu", "celu", "silu", "gelu", "mish", "hardtanh", "hardswish"),
        *("hardsigmoid", "clamp", "clamp_min", "clamp_max", "masked_fill", "index_copy"),
    ]
)


def storages(value: Any) -> set[Any]:
    """Ids of the memory of a value that tracing stored on a node."""
    if isinstance(value, torch.Tensor):
        return {value.untyped_storage()._cdata}
    if isinstance(value, (list, tuple)):
        return set().union(*(storages(v) for v in value)) if value else set()
    return set()


set_grad_enabled = torch._C._set_grad_enabled


def is_grad_mode(node: Node) -> bool:
    return node.op == "call_function" and node.target is set_grad_enabled


def is_mode(node: Node) -> bool:
    """Whether `node` changes how others run, and computes nothing."""
    return is_grad_mode(node) or casts.is_mode(node)


def is_detach(node: Node) -> bool:
    return node.op == "call_function" and node.target is torch.ops.aten.detach.default


def frozen_nodes(graph: torch.fx.Graph) -> set[Node]:
    """Nodes through which no gradient passes: those under torch.no_grad, and `detach`."""
    enabled = torch.is_grad_enabled()
    found: set[Node] = set()
    for node in graph.nodes:
        if is_grad_mode(node):
            enabled = bool(node.args[0])
        elif is_detach(node) or (node.op == "call_function" and not enabled and torch.is_grad_enabled()):
            found.add(node)
    return found


def same_tensors(graph: torch.fx.Graph) -> None:
    """If an op under torch.no_grad returns its operand, replaces uses of the result with the operand.

    The operand may need a gradient. In-place ops write to it; others, such as a cast to the type that it has, do nothing.
    """
    frozen = frozen_nodes(graph)
    for node in graph.nodes:
        given = node.args[0] if node in frozen and node.args else None
        if isinstance(given, Node) and given not in frozen and _gives_operand(node, given):
            node.replace_all_uses_with(given)


def _gives_operand(node: Node, operand: Node) -> bool:
    target, value, before = node.target, node.meta.get("val"), operand.meta.get("val")
    if not isinstance(target, torch._ops.OpOverload) or not isinstance(before, FakeTensor):
        return False
    written = [a.alias_info is not None and a.alias_info.is_write for a in target._schema.arguments]
    if written[:1] == [True] and len(target._schema.returns) == 1:
        return True
    if not isinstance(value, torch.Tensor) or storages(value) != storages(before):
        return False
    given = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    with before.fake_mode, torch.no_grad():
        return target(*given[0], **given[1]) is before


class Effects:
    """The memory that the nodes of a graph use and write.

    examples: the arguments, in order. Arguments that share memory count as one piece of memory.
    """

    def __init__(self, graph: torch.fx.Graph, examples: Sequence[torch.Tensor]) -> None:
        self.order = {node: index for index, node in enumerate(graph.nodes)}
        self._of: dict[Any, Any] = {}
        owners: dict[Any, Any] = {}
        for node, example in zip((n for n in graph.nodes if n.op == "placeholder"), examples):
            for key in storages(node.meta.get("val")):
                self._of[key] = owners.setdefault(_memory(example, node), key)
        #: Memory of arguments, and of tensors that belong to the graph.
        self.outer: set[Any] = set()
        for node in graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                self.outer |= self.own(node)
        self.writes: dict[Node, set[Any]] = {}
        for node in graph.nodes:
            written = self._written(node)
            if written:
                self.writes[node] = written
        self._touching: dict[Any, list[Node]] = {}
        hot = set().union(*self.writes.values()) if self.writes else set()
        for node in graph.nodes if hot else ():
            if node.op == "call_function":
                for key in (self.touched(node) | self.writes.get(node, set())) & hot:
                    self._touching.setdefault(key, []).append(node)

    def own(self, node: Node) -> set[Any]:
        """The memory of the node's value."""
        return {self._of.get(key, key) for key in storages(node.meta.get("val"))}

    def touched(self, node: Node) -> set[Any]:
        """The memory that the node reads or has a view of."""
        return self.own(node).union(*(self.own(n) for n in node.all_input_nodes))

    def _written(self, node: Node) -> set[Any]:
        if node.op != "call_function" or is_grad_mode(node):
            return set()
        written: set[Any] = set()
        target = node.target
        if isinstance(target, torch._ops.HigherOrderOperator):
            return set().union(*(self.own(n) for n in node.all_input_nodes)) if node.all_input_nodes else set()
        if not isinstance(target, torch._ops.OpOverload):
            return set()
        arguments = target._schema.arguments
        for argument, value in [*zip(arguments, node.args), *((a, node.kwargs.get(a.name)) for a in arguments)]:
            if argument.alias_info is not None and argument.alias_info.is_write:
                written |= set().union(*(self.own(n) for n in _nodes(value)), set())
        places, switch = _HIDDEN_WRITES.get(target._schema.name.removeprefix("aten::"), ((), 0))
        if places and node.args[switch]:
            written |= set().union(*(self.own(n) for i in places for n in _nodes(node.args[i])), set())
        if is_random(node):
            written.add(RANDOM)
        return written

    def users_of_memory(self, key: Any) -> Sequence[Node]:
        return self._touching.get(key, ())

    def read_before_writes(self) -> set[Node]:
        """The nodes that use memory which a later node writes."""
        return {
            node
            for writer, written in self.writes.items()
            for key in written
            for node in self.users_of_memory(key)
            if self.order[node] < self.order[writer]
        }

    def neighbours(self) -> tuple[dict[Node, list[Node]], dict[Node, list[Node]]]:
        """For each node, the nodes that must stay before it and after it, because one of the two writes memory of both."""
        before: dict[Node, list[Node]] = {}
        after: dict[Node, list[Node]] = {}
        for writer, written in self.writes.items():
            for key in written:
                for other in self.users_of_memory(key):
                    if other is not writer:
                        first, last = (writer, other) if self.order[writer] < self.order[other] else (other, writer)
                        before.setdefault(last, []).append(first)
                        after.setdefault(first, []).append(last)
        return before, after


def written_nodes(graph: torch.fx.Graph, examples: Sequence[torch.Tensor]) -> set[Node]:
    """The nodes whose memory is written in place, also through another view."""
    effects = Effects(graph, examples)
    memory: set[Any] = set().union(*effects.writes.values(), set())
    return {node for node in graph.nodes if memory & effects.own(node)} if memory else set()


def _memory(example: torch.Tensor, node: Node) -> Any:
    try:
        return example.untyped_storage()._cdata
    except (RuntimeError, NotImplementedError):
        # A tensor without ordinary memory shares none.
        return node


def _nodes(value: Any) -> list[Node]:
    found: list[Node] = []
    torch.fx.node.map_arg(value, found.append)
    return found


def is_random(node: Node) -> bool:
    """Whether a node draws random numbers."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    given = dict(zip((a.name for a in target._schema.arguments), node.args), **node.kwargs)
    if given.get("train", given.get("training", True)) is False:
        return False
    return bool(given.get("p", given.get("dropout_p", 0.0 if "dropout_p" in str(target._schema) else 1.0)))


def without_plain_writes(graph: torch.fx.Graph, effects: Effects) -> bool:
    """Replaces in-place ops with ops that create new tensors if no one can notice. Returns whether there was one."""
    changed = False
    for node in list(effects.writes):
        name = str(node.target).split(".")
        if name[0] != "aten" or not name[1].endswith("_") or name[1][:-1] not in PLAIN:
            continue
        packet = getattr(torch.ops.aten, name[1][:-1])
        target, written = node.args[0], effects.writes[node]
        if name[2] not in packet.overloads() or not isinstance(target, Node) or written & effects.outer:
            continue
        operands = [v for v in (n.meta["val"] for n in node.all_input_nodes) if v.is_floating_point()]
        if not target.meta["val"].is_floating_point() or len({v.dtype for v in operands}) != 1:
            continue
        place = effects.order[node]
        old = {n for key in written for n in effects.users_of_memory(key) if effects.order[n] < place}
        old = {n for n in old if effects.own(n) & written}
        if any(effects.order[user] > place for n in old for user in n.users):
            continue
        node.target = getattr(packet, name[2])
        node.kwargs = {key: value for key, value in node.kwargs.items() if key != "inplace"}
        changed = True
    return changed
