"""Replaces writes through views of tensors that a graph makes itself, so that what is written can be compiled.

After `k[..., :n] = a`, each reader of k, or of a view of k, reads a new value: what k was, with `a` in these places.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import torch
from torch.fx import Graph, Node

from te_mlir.torch.adapter import RESHAPES, SWAPS, name_of
from te_mlir.torch.adapter import given as arguments_of
from te_mlir.torch.effects import PLAIN, RANDOM, Effects, frozen_nodes
from te_mlir.torch.nodes import call, cast
from te_mlir.torch.patterns import is_op

_aten = torch.ops.aten

#: Views of a part that a value can be written back through, and the ops that do.
_SCATTERS = {"slice": _aten.slice_scatter.default, "select": _aten.select_scatter.default}
#: In-place ops whose result depends on the operands only, and not on what was there.
_FILLS = ("copy_", "fill_", "zero_")


def without_view_writes(graph: Graph, effects: Effects, dependent: Set[Node]) -> bool:
    """Replaces the writes to those tensors of which a part depends on roots. Returns whether there was one.

    dependent: the nodes that depend on a root.
    """
    frozen = frozen_nodes(graph)
    changed = False
    for key in sorted(set().union(*effects.writes.values(), set()) - {RANDOM} - effects.outer, key=str):
        nodes = [node for node in graph.nodes if key in effects.own(node)]
        writes = {node for node in effects.writes if key in effects.writes[node]}
        if not writes & dependent or writes & frozen or not _are_replaceable(nodes, writes):
            continue
        _Memory(graph, nodes, writes).replace()
        changed = True
    return changed


def _are_replaceable(nodes: Sequence[Node], writes: Set[Node]) -> bool:
    """Whether nodes that share memory are a tensor, views of it, and writes to views that can be replaced."""
    base, *others = nodes
    value = base.meta["val"]
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or not writes <= set(others):
        return False
    if not any(_chain(node.args[0], base) for node in writes):
        return False  # Writes to a whole tensor need no view.
    for node in others:
        inputs, own = node.all_input_nodes, node.meta["val"]
        # The elements of these views follow from how a tensor is stored.
        if is_op(node, "as_strided") or (isinstance(own, torch.Tensor) and own.dtype is not value.dtype):
            return False
        if node in writes:
            if not _is_replaceable(node) or _chain(node.args[0], base) is None:
                return False
        elif not inputs or inputs[0] not in nodes or inputs[0] is not node.args[0] or len(inputs) > 1:
            return False
    # Of tensors that are returned and share memory, each would become a tensor of its own.
    returned = [user for node in nodes for user in node.users if user.op == "output"]
    return len(returned) <= 1


def _is_replaceable(write: Node) -> bool:
    """Whether an op writes to its first operand what another op computes."""
    if not isinstance(write.target, torch._ops.OpOverload) or not str(write.target).startswith("aten."):
        return False
    name, overload = write.target._opname, write.target._overloadname
    if name in _FILLS:
        return True
    return name[:-1] in PLAIN and name.endswith("_") and overload in getattr(_aten, name[:-1]).overloads()


def _chain(node: Any, base: Node) -> list[Node] | None:
    """The views from `base` to a node; None if a value cannot be written back through them."""
    found: list[Node] = []
    while node is not base:
        if isinstance(node, Node) and is_op(node, *_SCATTERS, *SWAPS, *RESHAPES):
            found.append(node)
        elif not (isinstance(node, Node) and isinstance(node.target, torch._ops.OpOverload)) or not (
            node.target._schema.is_mutable or is_op(node, "alias")
        ):
            return None
        node = node.args[0]
    return found[::-1]


class _Memory:
    """Replaces the writes to one tensor by new values of it.

    nodes: the tensor and everything that shares its memory, in order. writes: those that write to it.
    """

    def __init__(self, graph: Graph, nodes: Sequence[Node], writes: Set[Node]) -> None:
        self.graph, self.base, self.nodes, self.writes = graph, nodes[0], set(nodes), writes
        #: The values that nodes have now, instead of those that they had when they were computed.
        self._now: dict[Node, Node] = {}
        self._is_written = False
        #: The parts of a new tensor that are written so far, by their first and last places along one axis.
        self._parts: dict[tuple[int, int], Node] = {}
        self._axis: int | None = None

    def replace(self) -> None:
        for node in list(self.graph.nodes):
            reads = [n for n in node.all_input_nodes if n in self.nodes]
            if node in self.writes:
                with self.graph.inserting_before(node):
                    self._write(node)
            elif reads and self._is_written and node not in self.nodes:
                with self.graph.inserting_before(node):
                    for read in reads:
                        node.replace_input_with(read, self._value(read))
        for node in reversed(list(self.graph.nodes)):
            if node in self.nodes and not node.users:
                self.graph.erase_node(node)

    def _value(self, node: Node) -> Node:
        """The value that a node has now."""
        if not self._is_written:
            return node
        if node in self.writes:
            return self._value(node.args[0])  # type: ignore[arg-type]
        if node not in self._now:
            if node is self.base:
                self._now[node] = self._joined()
            else:
                self._now[node] = self._replayed(node)
        return self._now[node]

    def _replayed(self, node: Node) -> Node:
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), self._value)
        # The new value may be stored in another order.
        target = _aten.reshape.default if is_op(node, "view", "_unsafe_view") else node.target
        return call(self.graph, target, *args, **kwargs)  # type: ignore[arg-type]

    def _joined(self) -> Node:
        """The new tensor, of the parts that are written; other places may contain anything, and contain zeros."""
        value, graph, axis = self.base.meta["val"], self.graph, self._axis
        assert axis is not None, "the tensor has a value after each other write"
        places = sorted(self._parts)
        ends = [0, *(end for _, end in places)]
        if [start for start, _ in places] == ends[:-1] and ends[-1] == value.shape[axis]:
            parts = [self._parts[place] for place in places]
            return parts[0] if len(parts) == 1 else call(graph, _aten.cat.default, parts, axis)
        kind = {"dtype": value.dtype, "device": value.device, "pin_memory": False}
        made = call(graph, _aten.zeros.default, list(value.shape), **kind)
        for start, end in places:
            made = call(graph, _aten.slice_scatter.default, made, self._parts[start, end], axis, start, end)
        return made

    def _write(self, node: Node) -> None:
        target: Any = node.args[0]
        chain = _chain(target, self.base)
        assert chain is not None, "_are_replaceable checks it"
        made = self._written(node, target)
        if not self._is_part(chain, made):
            for view in reversed(chain):
                made = self._written_back(view, made)
            self._now = {self.base: made}
            self._axis = None
        self._is_written = True

    def _written_back(self, view: Node, made: Node) -> Node:
        """The operand of a view, after `made` is written to the view."""
        source, name = self._value(view.args[0]), name_of(view)  # type: ignore[arg-type]
        if name in SWAPS:
            return call(self.graph, view.target, made, *view.args[1:], **view.kwargs)  # type: ignore[arg-type]
        if name in RESHAPES:
            return call(self.graph, _aten.reshape.default, made, list(source.meta["val"].shape))
        return call(self.graph, _SCATTERS[name], source, made, *view.args[1:], **view.kwargs)

    def _is_part(self, chain: Sequence[Node], made: Node) -> bool:
        """Notes a part of a new tensor that is written. Returns False if it is none, or if the tensor has a value already."""
        if self._is_written and self._axis is None:
            return False
        if not is_op(self.base, "empty") or len(chain) != 1 or not is_op(chain[0], "slice"):
            return False
        given, shape = arguments_of(chain[0]), self.base.meta["val"].shape
        axis = given["dim"] % len(shape)
        start, end, step = slice(given["start"], given["end"], given["step"]).indices(shape[axis])
        others = [place for place in self._parts if place[0] < end and start < place[1]]
        if step != 1 or start >= end or others or self._axis not in (None, axis):
            return False
        self._axis = axis
        self._parts[start, end] = made
        self._now = {}
        return True

    def _written(self, node: Node, target: Node) -> Node:
        """What a write leaves in the memory of its operand."""
        value, graph = target.meta["val"], self.graph
        name = name_of(node)
        kind = {"dtype": value.dtype, "device": value.device, "pin_memory": False}
        source: Any = node.args[1] if len(node.args) > 1 else 0.0
        if name in _FILLS and not isinstance(source, Node):
            return call(graph, _aten.full.default, list(value.shape), source, **kind)
        if name in _FILLS:
            made = self._value(source) if source in self.nodes else source
        else:
            read = lambda n: self._value(n) if n in self.nodes else n
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), read)
            made = call(graph, getattr(getattr(_aten, name[:-1]), node.target._overloadname), *args, **kwargs)  # type: ignore[union-attr]
        # In this order, because gradients are summed in the type of what is copied.
        if made.meta["val"].shape != value.shape:
            made = call(graph, _aten.expand.default, made, list(value.shape))
        return cast(graph, made, value.dtype)
