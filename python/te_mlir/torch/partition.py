"""Decides where each node of a graph runs: before the regions, in a compiled region, or in PyTorch between regions.

Data dependences decide most of it: nodes that depend on a parameter are compiled, the nodes that
those need run before, and nodes that cannot be compiled run between regions. Side effects decide
the rest. A node that writes to a tensor, draws random numbers, or has another side effect stays in
the order of the program among all nodes that use the same memory or generator, although each region
runs as a whole.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule, Node

from te_mlir.torch import casts, custom, patterns
from te_mlir.torch.adapter import reason_of
from te_mlir.torch.collectives import is_collective
from te_mlir.torch.effects import (
    RANDOM,
    Effects,
    frozen_nodes,
    is_detach,
    is_grad_mode,
    is_mode,
    set_grad_enabled,
    storages,
)
from te_mlir.torch.expert_ops import is_ids
from te_mlir.torch.lines import place_of
from te_mlir.torch.replay import is_choice

#: Higher-order ops that are replaced with their bodies, because the compiler itself chooses what to recompute.
_INLINED = frozenset(("tag_activation_checkpoint", "wrap_activation_checkpoint", "wrap", "invoke_subgraph"))

#: Higher-order ops that are replaced when a graph is replayed.
_REPLACED = frozenset(("flex_attention",))

#: Functions without tensors as arguments or results that do not affect a graph.
_HARMLESS = frozenset(
    ("_log_api_usage_once", "lazy_load_decompositions", "_vmap_increment_nesting", "_vmap_decrement_nesting")
)

#: Calls for `Tensor.requires_grad_`, which changes nothing in a call without gradients.
_REQUIRES_GRAD = frozenset(("requires_grad_", "set_inplace_requires_grad_allowed"))

#: Functions of the transformations of torch.func whose graphs cannot be traced, and the transformations. A trace that one
#: of these ends leaves what it switched off for the whole process, such as the hooks of saved tensors.
_TRANSFORMS = {
    "_saved_tensors_hooks_disable": "torch.func.grad (or vjp, jacrev, hessian)",
    "_jvp_increment_nesting": "torch.func.jvp (or jacfwd, hessian)",
}

#: What to do about a reason for which a whole graph stays in PyTorch.
_APART = "apply torch.compiler.disable to the function that contains it to compile the rest"

#: Methods that change how a tensor is differentiated without an ATen op.
_GRADIENT_METHODS = frozenset(
    ("register_hook", "register_post_accumulate_grad_hook", "requires_grad_", "retain_grad", "backward")
)


def untraceable(module: GraphModule) -> str | None:
    """Why a captured graph cannot be traced to ATen; None if it may be."""
    for part in module.modules():
        for node in part.graph.nodes if isinstance(part, GraphModule) else ():
            if node.op == "call_function" and _name(node) in _TRANSFORMS:
                return f"{_TRANSFORMS[_name(node)]} is not imported{place_of(node)}; {_APART}"
    return None


def refusal(module: GraphModule, flat: GraphModule) -> str | None:
    """Why no part of a captured graph may be compiled: something that it does would be lost in tracing it to ATen."""
    kept = {str(n.target) for n in flat.graph.nodes if n.op == "call_function"}
    if flat.meta[custom.CALLS].are_all_of(module):
        kept.add(str(custom.APPLY))
    for part in module.modules():
        for node in part.graph.nodes if isinstance(part, GraphModule) else ():
            found = _lost(node, kept)
            if found is not None:
                return f"{found}{place_of(node)}; {_APART}"
    for node in flat.graph.nodes:
        if node.op == "get_attr" and isinstance(getattr(flat, str(node.target), None), FakeTensor):
            return "tracing does not support a tensor that it reads, such as 'Tensor.data'; use 'detach()'"
        known = isinstance(node.target, (torch._ops.OpOverload, torch._ops.HigherOrderOperator))
        known = known or node.target in (operator.getitem, set_grad_enabled)
        if node.op == "call_function" and not known and not casts.is_mode(node):
            return f"'{_name(node)}' is not imported"
        if str(node.target).startswith("aten.as_strided") and node.all_input_nodes[0].op != "placeholder":
            return "'Tensor.as_strided' assumes strides, and results of compiled code may have others"
    if not torch.is_grad_enabled() and any(is_grad_mode(n) and n.args[0] for n in flat.graph.nodes):
        return "torch.enable_grad in a call without gradients is not imported"
    return None


def ignored(module: GraphModule) -> list[str]:
    """What a captured graph does that has no effect in compiled code: one line for each kind."""
    graphs = (part.graph for part in module.modules() if isinstance(part, GraphModule))
    chosen = next((n for graph in graphs for n in graph.nodes if is_choice(n.target)), None)
    if chosen is None:
        return []
    return [f"torch.nn.attention.sdpa_kernel{place_of(chosen)}: te has its own attention"]


def _lost(node: Node, kept: set[str]) -> str | None:
    if not torch.is_grad_enabled() and node.op.startswith("call") and _name(node) in _REQUIRES_GRAD:
        return None
    if node.op == "call_method" and str(node.target) in _GRADIENT_METHODS:
        return f"'Tensor.{node.target}' is not imported"
    if node.op != "call_function":
        return None
    name = _name(node)
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        if name in _INLINED or name in _REPLACED or name in kept:
            return None
        what = {
            "autograd_function_apply": "a torch.autograd.Function has a custom backward, which is not imported",
            "register_hook": "'Tensor.register_hook' is not imported",
        }
        return what.get(name, f"the higher-order op '{name}' is not imported")
    if node.target in (torch.autograd.grad, torch.autograd.backward):
        return f"'torch.autograd.{name}' is not imported"
    if is_mode(node) or is_choice(node.target) or getattr(node.target, "__module__", "") in ("_operator", "math"):
        return None
    # A function without tensors as arguments or results is called for its side effects.
    value = node.meta.get("example_value", node.meta.get("val"))
    if value is None and name not in _HARMLESS and not any(_is_tensor(n) for n in node.all_input_nodes):
        return f"'{name}' is not imported"
    return None


def _is_tensor(node: Node) -> bool:
    return bool(storages(node.meta.get("example_value", node.meta.get("val"))))


def _name(node: Node) -> str:
    target = node.target
    return target if isinstance(target, str) else getattr(target, "__name__", None) or str(target)


#: The time of arguments, and of values that are computed from them without gradients.
BEFORE = -2

#: The layers that make a region worth compiling.
_LAYERS = ("linear", "mm", "matmul", "addmm", "expert_linear")


class Schedule:
    """When each node runs: BEFORE, at 2k in the k-th region, or at 2k + 1 in PyTorch after it (-1: before the first).

    roots: parameters, and other arguments that need gradients. left: nodes that depend on roots and
    stay in PyTorch. free: nodes that are computed only from parameters, such as their casts, which are
    a part of every region that uses them. A node runs as early as possible, except for nodes that only
    later regions need, such as the norm after a dropout, which belong to those regions. Nodes that use
    memory that is written to, or that draw random numbers, keep their order.
    """

    def __init__(
        self, graph: torch.fx.Graph, roots: set[Node], parameters: set[Node], examples: Sequence[torch.Tensor]
    ) -> None:
        self.graph, self.roots, self.parameters = graph, roots, parameters
        self.effects = Effects(graph, examples)
        patterns.set_apart(self.effects.read_before_writes())
        self.frozen = frozen_nodes(graph)
        written: set[Any] = set().union(*self.effects.writes.values(), set())
        #: Those of them that are emitted: a write to memory that they share with their operand would not reach it.
        self._emitted = {
            n for n in self.frozen if is_detach(n) and _is_floating(n) and not self.effects.own(n) & written
        }
        given = (n for n in graph.nodes if n.op == "placeholder")
        self._needing = {n for n, example in zip(given, examples) if n in roots and example.requires_grad}
        self.dependent = dependents(graph, roots)
        self._nodes = [n for n in graph.nodes if n.op in ("call_function", "get_attr") and not is_mode(n)]
        self._earlier, self._later = self.effects.neighbours()
        # A view that is created without gradients may not be written with one.
        traced = {n for n in self.effects.writes if n in self.dependent and n not in self.frozen}
        self._traced: set[Any] = set().union(*(self.effects.writes[n] for n in traced), set()) - {RANDOM}
        self.left: set[Node] = set()
        self._idle: set[Node] = set()
        self.time: dict[Node, int] = {}
        self.free: set[Node] = set()
        self._arrange()

    def without_gradients(self) -> list[Node]:
        """The nodes at which values that depend on a root that needs gradients stop passing them.

        Without those that are emitted, unless layers run in PyTorch because of them.
        """
        firsts = []
        stopped: set[Node] = set()
        needing = dependents(self.graph, self._needing)
        for node in self.graph.nodes:
            if any(n in stopped for n in node.all_input_nodes):
                stopped.add(node)
            elif node in self.frozen and node in needing and not self._is_harmless(node):
                firsts.append(node)
                stopped.add(node)
        return firsts

    def _is_harmless(self, node: Node) -> bool:
        if node not in self._emitted:
            return False
        return not any(self.time.get(n) == BEFORE and _is_product(n) for n in dependents(self.graph, {node}))

    def writes_outside(self) -> bool:
        """Whether arguments, or tensors that belong to the graph, are written to."""
        return any(written & self.effects.outer for written in self.effects.writes.values())

    def refused(self) -> list[tuple[Node, str]]:
        """The nodes that depend on a root and stay in PyTorch regardless of what they compute, with reasons."""
        found = []
        for node in self._nodes:
            if node not in self._moving or node in self.roots or node in self.frozen or node not in self.dependent:
                continue
            if node in self.effects.writes:
                in_place = self.effects.writes[node] - {RANDOM}
                reason = "it writes to a tensor in place" if in_place else "it draws random numbers"
                # Statistics are why batch_norm stays in PyTorch, also where none are stored.
                found.append((node, reason_of(node) if patterns.is_op(node, "batch_norm") else reason))
            elif self._is_condition(node) or is_ids(node):
                continue
            elif not _is_floating(node) and any(n in self._moving and _is_floating(n) for n in node.all_input_nodes):
                found.append((node, reason_of(node)))
        return found

    def leave(self, node: Node, inside: set[Node]) -> bool:
        """Leaves a node in PyTorch or, if it is not in `inside`, its users. Returns whether there was a node to leave."""
        found = {node} & inside or {n for n in node.users if n in inside}
        # A node with several results stays with each of them.
        found |= {n.args[0] for n in found if n.target is operator.getitem}  # type: ignore[misc]
        found -= self.roots
        self.left |= found
        if found:
            self._arrange()
        return bool(found)

    def regions(self) -> list[int]:
        """The times of regions, in order."""
        return sorted({t for t in self.time.values() if t >= 0 and t % 2 == 0})

    @property
    def end(self) -> int:
        """The time after all others."""
        return max(self.time.values(), default=0) + 1

    def is_before(self, node: Node) -> bool:
        """Whether a node is computed before all regions, without gradients."""
        return node.op != "placeholder" and self.time.get(node) == BEFORE and node not in self.free

    def is_staying(self, node: Node) -> bool:
        """Whether a node runs in PyTorch, between regions."""
        return self.time.get(node, BEFORE) % 2 == 1

    def is_between(self, node: Node, time: int, end: int) -> bool:
        """Whether a node runs in PyTorch from `time` on and before `end`."""
        return self.is_staying(node) and time <= self.time[node] < end

    def inside(self, time: int) -> set[Node]:
        """The nodes of the region of a time, and the free nodes that they may use."""
        return {n for n in self._nodes if self.time[n] == time} | self.free | self.roots

    def written_after(self, time: int) -> set[Any]:
        """The memory that is written to after the region of a time."""
        writes = self.effects.writes
        return set().union(*(writes[n] for n in writes if self.time.get(n, BEFORE) > time), set())

    def _is_layer(self, node: Node) -> bool:
        return node in self.dependent and _is_product(node)

    def _is_condition(self, node: Node) -> bool:
        """Whether only choices between values read a node of truth values, directly or through other conditions."""
        if not patterns.is_condition(node) or node in self.left:
            return False
        return bool(node.users) and all(
            patterns.chooses_by(user, node) or self._is_condition(user) for user in node.users
        )

    def _stays(self, node: Node) -> bool:
        """Whether a node that depends on roots stays in PyTorch regardless of what it computes."""
        if node in self.left or node in self._idle or node not in self.dependent or is_collective(node):
            return True
        if node in self.frozen and node not in self._emitted:
            return True
        if node.target is operator.getitem and node.args[0] in self._staying:
            return True
        return node in self.effects.writes or not (_is_floating(node) or self._is_condition(node) or is_ids(node))

    def _arrange(self) -> None:
        while True:
            self._arrange_once()
            layers = {t for n, t in self.time.items() if self._is_layer(n)}
            regions = {t for t in self.time.values() if t >= 0 and t % 2 == 0}
            idle = {n for n in self._nodes if self.time[n] in regions - layers}
            if not idle:
                return
            # A region without a layer gains nothing.
            self._idle |= idle

    def _arrange_once(self) -> None:
        time = {n: BEFORE for n in self.graph.nodes if n.op == "placeholder"}
        flexible: list[Node] = []
        free: set[Node] = set()
        moving = set(self.roots)
        self._staying: set[Node] = set()
        for node in self._nodes:
            above = node.all_input_nodes
            earliest = max((time[n] for n in (*above, *self._earlier.get(node, ())) if n in time), default=BEFORE)
            # No gradient passes through a node that is computed only from roots and stops gradients.
            is_first = node in self.frozen or not any(n in moving for n in above)
            if earliest == BEFORE and is_first and not self.effects.own(node) & self._traced:
                time[node] = BEFORE
                continue
            moving.add(node)
            if self._stays(node):
                self._staying.add(node)
                time[node] = max(earliest | 1, -1)
            elif self._is_layer(node):
                time[node] = max(earliest + earliest % 2, 0)
            elif (
                all(n in self.parameters or n in free or n not in moving for n in above)
                and not _makes_rows(node)
                # Memory that is written to keeps its order.
                and node not in self._earlier
                and node not in self._later
            ):
                free.add(node)
                time[node] = BEFORE
            else:
                time[node] = max(earliest, -1) if earliest % 2 else max(earliest, 0)
                flexible.append(node)
        for node in reversed(flexible):
            users = [time[n] for n in (*node.users, *self._later.get(node, ())) if n in time]
            if time[node] % 2 and users and min(users) > time[node]:
                time[node] += 1
        self.time, self.free, self._moving = time, free, moving


def _is_product(node: Node) -> bool:
    return patterns.is_op(node, *_LAYERS)


def _makes_rows(node: Node) -> bool:
    """Whether the result of a node of parameters is larger than the parameters."""
    return patterns.is_op(node, "embedding")


def _is_floating(node: Node) -> bool:
    """Whether the used tensors of a node's value are floating-point; the value may be several tensors."""
    value = node.meta.get("val")
    if isinstance(value, (list, tuple)) and node.users and all(n.target is operator.getitem for n in node.users):
        value = [value[n.args[1]] for n in node.users]  # type: ignore[index]
    tensors = _tensors(value)
    return bool(tensors) and all(tensor.is_floating_point() for tensor in tensors)


def wanting(graph: torch.fx.Graph, frozen: set[Node], leaves: set[Node], effects: Effects) -> set[Node]:
    """The nodes that have gradients if `leaves` need them, also because such a value is written to their memory."""
    found = set(leaves)
    before = 0
    while len(found) > before:
        before = len(found)
        for node in graph.nodes:
            if node.op != "call_function" or node in frozen or not any(n in found for n in node.all_input_nodes):
                continue
            if any(t.is_floating_point() or t.is_complex() for t in _tensors(node.meta.get("val"))):
                found.add(node)
            written = effects.writes.get(node, set()) - {RANDOM}
            found |= (
                {n for n in graph.nodes if n.op == "call_function" and effects.own(n) & written} if written else set()
            )
    return found


def passing(graph: torch.fx.Graph, gradients: set[Node], effects: Effects) -> set[Node]:
    """Those of the nodes with gradients from which one reaches a result: conditions and indices pass none."""
    if effects.writes.keys() & gradients:
        return gradients  # What is written is read through other nodes, too.
    found = {n for node in graph.nodes if node.op == "output" for n in node.all_input_nodes} & gradients
    for node in reversed(graph.nodes):
        if node in found and node.op == "call_function":
            found |= gradients.intersection(node.all_input_nodes)
    return found


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in _tensors(part)]
    return [value] if isinstance(value, torch.Tensor) else []


def dependents(graph: torch.fx.Graph, roots: set[Node]) -> set[Node]:
    """`roots`, and the nodes that depend on them."""
    found = set(roots)
    for node in graph.nodes:
        if node.op not in ("placeholder", "output") and any(n in found for n in node.all_input_nodes):
            found.add(node)
    return found
