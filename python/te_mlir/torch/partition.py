"""What of a graph runs where: before the region, in it, or after it.

Data says most of it: what depends on a parameter is to be compiled, what that needs
comes before, and what cannot be compiled comes after, with all that depends on it.
Effects say the rest. A node that writes to a tensor, draws random numbers, or does
something that no tensor shows has its place among all that touch the same memory
or generator: these stay in the order of the program, though the region runs as one.
"""

from __future__ import annotations

import operator
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule, Node

from te_mlir.torch import casts

#: Stands for the generator among the memory that nodes touch.
_RANDOM = "random"

#: Ops that write to arguments although their schemas do not say so: which ones, and the one that turns it on.
_HIDDEN_WRITES = {"batch_norm": ((3, 4), 5), "instance_norm": ((3, 4), 5)}

#: In-place ops that are the same as others where nobody looks at the tensor by its old names.
_PLAIN = frozenset("add sub mul div relu silu gelu neg exp tanh sqrt pow".split())

#: Higher-order ops that are what is in them: the compiler itself chooses what to compute again.
_INLINED = frozenset(("tag_activation_checkpoint", "wrap_activation_checkpoint", "wrap", "invoke_subgraph"))

#: What takes no tensor and gives none, and does nothing that a graph would see.
_HARMLESS = frozenset(("_log_api_usage_once", "lazy_load_decompositions"))

#: Methods that change how a tensor is differentiated, which no ATen op shows.
_GRADIENT_METHODS = frozenset(
    ("register_hook", "register_post_accumulate_grad_hook", "requires_grad_", "retain_grad", "backward")
)


def storages(value: Any) -> Set[Any]:
    """Ids of the memory behind a value that tracing left on a node."""
    if isinstance(value, torch.Tensor):
        return {value.untyped_storage()._cdata}
    if isinstance(value, (list, tuple)):
        return set().union(*(storages(v) for v in value)) if value else set()
    return set()


def refusal(module: GraphModule, flat: GraphModule) -> Optional[str]:
    """Why no part of a captured graph may be compiled: what it does that tracing it to ATen would lose."""
    kept = {str(n.target) for n in flat.graph.nodes if n.op == "call_function"}
    for part in module.modules():
        for node in part.graph.nodes if isinstance(part, GraphModule) else ():
            found = _lost(node, kept)
            if found is not None:
                return found
    for node in flat.graph.nodes:
        if node.op == "get_attr" and isinstance(getattr(flat, str(node.target), None), FakeTensor):
            return "a tensor is used that tracing does not follow, such as 'Tensor.data'; use 'detach()'"
        known = isinstance(node.target, (torch._ops.OpOverload, torch._ops.HigherOrderOperator))
        if node.op == "call_function" and not known and node.target not in (operator.getitem, set_grad_enabled):
            if not casts.is_mode(node):
                return f"'{_name(node)}' is not known here"
        if str(node.target).startswith("aten.as_strided") and node.all_input_nodes[0].op != "placeholder":
            return "'Tensor.as_strided' names places in memory, where results of compiled code may lie otherwise"
    if not torch.is_grad_enabled() and any(is_grad_mode(n) and n.args[0] for n in flat.graph.nodes):
        return "torch.enable_grad in a call without gradients is not imported"
    return None


def _lost(node: Node, kept: Set[str]) -> Optional[str]:
    if node.op == "call_method" and str(node.target) in _GRADIENT_METHODS:
        return f"'Tensor.{node.target}' is not imported"
    if node.op != "call_function":
        return None
    name = _name(node)
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        if name in _INLINED or name in kept:
            return None
        what = {
            "autograd_function_apply": "a torch.autograd.Function has a backward of its own, which is not imported",
            "register_hook": "'Tensor.register_hook' is not imported",
        }
        return what.get(name, f"the higher-order op '{name}' is not imported")
    if node.target in (torch.autograd.grad, torch.autograd.backward):
        return f"'torch.autograd.{name}' is not imported"
    if is_mode(node) or getattr(node.target, "__module__", "") in ("_operator", "math"):
        return None
    # What takes no tensor and gives none is there for what it does.
    value = node.meta.get("example_value", node.meta.get("val"))
    if value is None and name not in _HARMLESS and not any(_is_tensor(n) for n in node.all_input_nodes):
        return f"'{name}' is not imported"
    return None


def _is_tensor(node: Node) -> bool:
    return bool(storages(node.meta.get("example_value", node.meta.get("val"))))


def _name(node: Node) -> str:
    target = node.target
    return target if isinstance(target, str) else getattr(target, "__name__", None) or str(target)


set_grad_enabled = torch._C._set_grad_enabled


def is_grad_mode(node: Node) -> bool:
    return node.op == "call_function" and node.target is set_grad_enabled


def is_mode(node: Node) -> bool:
    """Whether `node` changes how others run, and computes nothing."""
    return is_grad_mode(node) or casts.is_mode(node)


def frozen_nodes(graph: torch.fx.Graph) -> Set[Node]:
    """Nodes that no gradient goes through: those below torch.no_grad, and `detach`."""
    enabled = torch.is_grad_enabled()
    found: Set[Node] = set()
    for node in graph.nodes:
        if is_grad_mode(node):
            enabled = bool(node.args[0])
        elif node.op == "call_function" and (
            not enabled and torch.is_grad_enabled() or node.target is torch.ops.aten.detach.default
        ):
            found.add(node)
    return found


class Effects:
    """What the nodes of a graph touch and write.

    examples: the arguments, in order; those that share memory are one piece of it.
    """

    def __init__(self, graph: torch.fx.Graph, examples: Sequence[torch.Tensor]) -> None:
        self.order = {node: index for index, node in enumerate(graph.nodes)}
        self._of: Dict[Any, Any] = {}
        owners: Dict[Any, Any] = {}
        for node, example in zip((n for n in graph.nodes if n.op == "placeholder"), examples):
            for key in storages(node.meta.get("val")):
                self._of[key] = owners.setdefault(_memory(example, node), key)
        #: Memory of arguments, and of tensors that the graph holds.
        self.outer: Set[Any] = set()
        for node in graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                self.outer |= self.own(node)
        self.writes: Dict[Node, Set[Any]] = {}
        for node in graph.nodes:
            written = self._written(node)
            if written:
                self.writes[node] = written
        self._touching: Dict[Any, List[Node]] = {}
        hot = set().union(*self.writes.values()) if self.writes else set()
        for node in graph.nodes if hot else ():
            if node.op == "call_function":
                for key in (self.touched(node) | self.writes.get(node, set())) & hot:
                    self._touching.setdefault(key, []).append(node)

    def own(self, node: Node) -> Set[Any]:
        """The memory that the node's value lies in."""
        return {self._of.get(key, key) for key in storages(node.meta.get("val"))}

    def touched(self, node: Node) -> Set[Any]:
        """The memory that the node reads or names."""
        return self.own(node).union(*(self.own(n) for n in node.all_input_nodes))

    def _written(self, node: Node) -> Set[Any]:
        if node.op != "call_function" or is_grad_mode(node):
            return set()
        written: Set[Any] = set()
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
        if _is_random(node):
            written.add(_RANDOM)
        return written

    def users_of_memory(self, key: Any) -> Sequence[Node]:
        return self._touching.get(key, ())

    def conflicts(self, place: Dict[Node, int]) -> Iterator[Tuple[Node, Node]]:
        """Pairs of a node that has to go after the region and the one that it would otherwise come before.

        place: 0 before the region, 1 in it, 2 after it.
        """
        for writer, written in self.writes.items():
            for key in written:
                for other in self.users_of_memory(key):
                    if other is writer or key == _RANDOM and 1 in (place[other], place[writer]):
                        continue
                    first, last = (writer, other) if self.order[writer] < self.order[other] else (other, writer)
                    if place[first] > place[last]:
                        yield last, first


def written_nodes(graph: torch.fx.Graph, examples: Sequence[torch.Tensor]) -> Set[Node]:
    """The nodes whose memory is written to in place, by whatever name."""
    effects = Effects(graph, examples)
    memory: Set[Any] = set().union(*effects.writes.values(), set())
    return {node for node in graph.nodes if memory & effects.own(node)} if memory else set()


def _memory(example: torch.Tensor, node: Node) -> Any:
    try:
        return example.untyped_storage()._cdata
    except (RuntimeError, NotImplementedError):
        # A tensor without memory of the usual kind shares none.
        return node


def _nodes(value: Any) -> List[Node]:
    found: List[Node] = []
    torch.fx.node.map_arg(value, found.append)
    return found


def _is_random(node: Node) -> bool:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    given = dict(zip((a.name for a in target._schema.arguments), node.args), **node.kwargs)
    if given.get("train", given.get("training", True)) is False:
        return False
    return bool(given.get("p", given.get("dropout_p", 0.0 if "dropout_p" in str(target._schema) else 1.0)))


def without_plain_writes(graph: torch.fx.Graph, effects: Effects) -> bool:
    """Makes new tensors of in-place ops wherever nothing can tell; says whether there was one."""
    changed = False
    for node in list(effects.writes):
        name = str(node.target).split(".")
        if name[0] != "aten" or not name[1].endswith("_") or name[1][:-1] not in _PLAIN:
            continue
        packet = getattr(torch.ops.aten, name[1][:-1])
        target, written = node.args[0], effects.writes[node]
        if name[2] not in packet.overloads() or not isinstance(target, Node) or written & effects.outer:
            continue
        operands = [n.meta["val"] for n in node.all_input_nodes]
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


class Partition:
    """Where each node runs, as far as is known; nodes go from the region to after it.

    roots: what gradients are wanted of. inside: what is to be compiled. after: what is
    not although it depends on that, or has to come later.
    """

    def __init__(self, graph: torch.fx.Graph, roots: Set[Node], examples: Sequence[torch.Tensor]) -> None:
        self.graph = graph
        self.effects = Effects(graph, examples)
        if without_plain_writes(graph, self.effects):
            self.effects = Effects(graph, examples)
        self.frozen = frozen_nodes(graph)
        self.dependent = dependents(graph, roots)
        self.inside: Set[Node] = set(roots)
        self.after: Set[Node] = set()
        for node in graph.nodes:
            if node.op != "call_function" or is_mode(node):
                continue
            above = node.all_input_nodes
            if any(n in self.after or (node in self.frozen and n in self.inside - roots) for n in above):
                self.after.add(node)
            elif node not in self.frozen and any(n in self.inside for n in above):
                self.inside.add(node)

    def without_gradients(self) -> List[Node]:
        """Where values that depend on a root begin to stop gradients."""
        firsts = []
        stopped: Set[Node] = set()
        for node in self.graph.nodes:
            if any(n in stopped for n in node.all_input_nodes):
                stopped.add(node)
            elif node in self.frozen and node in self.dependent:
                firsts.append(node)
                stopped.add(node)
        return firsts

    def drop(self, node: Node) -> Set[Node]:
        """Leaves the node, and all that depends on it, for after the region; gives what was to be compiled of that."""
        moved = {n for n in dependents(self.graph, {node}) if n.op == "call_function"}
        lost = moved & self.inside
        self.inside -= moved
        self.after |= moved
        return lost

    def settle(self) -> List[Tuple[Node, str]]:
        """Drops what effects forbid to compile or to run early; gives the nodes that are lost by it, with reasons."""
        lost: List[Tuple[Node, str]] = []
        for node in self.effects.writes:
            if node in self.inside and self.effects.writes[node] - {_RANDOM} and self.drop(node):
                lost.append((node, "it writes to a tensor in place"))
        while True:
            place = {n: 2 if n in self.after else int(n in self.inside) for n in self.graph.nodes}
            conflict = next(self.effects.conflicts(place), None)
            if conflict is None:
                return lost
            last, first = conflict
            dropped = self.drop(last)
            if dropped:
                node = min(dropped, key=self.effects.order.__getitem__)
                lost.append((node, f"it comes after '{first.target}', which stays in PyTorch and shares memory with it"))

    def written_after(self) -> Set[Any]:
        """The memory that is written to after the region."""
        return set().union(*(self.effects.writes[n] for n in self.after if n in self.effects.writes), set())


def dependents(graph: torch.fx.Graph, roots: Set[Node]) -> Set[Node]:
    """The nodes that depend on `roots`, and these."""
    found = set(roots)
    for node in graph.nodes:
        if node.op not in ("placeholder", "output") and any(n in found for n in node.all_input_nodes):
            found.add(node)
    return found
