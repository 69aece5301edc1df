"""Pads the arguments of a graph to its capacities, repairs the graph for that, and cuts its results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Node

from te_mlir.torch.expert_ops import USED, ids_of
from te_mlir.torch.facts import COPY, Content, Fact, Factor, axis_of
from te_mlir.torch.proof import Repair


class Cut(NamedTuple):
    """Padding of a result. inner: the number of elements of the axis behind each element of the padded factor.

    group: which of the sizes of the graph it belongs to. size: that of the factor.
    """

    axis: int
    inner: int
    size: int
    group: int


def cuts_of(fact: Fact, group: int) -> list[Cut]:
    """The padding of a result."""
    found = []
    for index, axis in enumerate(fact.axes):
        inner = 1
        for factor in reversed(axis):
            if factor.is_padded:
                found.append(Cut(index, inner, factor.size, group))
            inner *= factor.size
    return found


def cut(result: torch.Tensor, cuts: Sequence[Cut], missing: Sequence[int]) -> torch.Tensor:
    """The result without padding. missing: for each group, the number of padded elements."""
    dense = result.is_contiguous()
    for one in sorted(cuts, key=lambda one: -one.inner):
        if missing[one.group]:
            shape = result.shape
            parts = result.unflatten(one.axis, (-1, one.size, one.inner))
            parts = parts.narrow(one.axis + 1, 0, one.size - missing[one.group])
            result = parts.reshape(*shape[: one.axis], -1, *shape[one.axis + 1 :])
    return result.contiguous() if dense else result


class Fill(NamedTuple):
    """How an axis of an argument is padded. number: what is appended; None repeats the last element."""

    axis: int
    size: int
    number: float | None


def fills_of(dtype: torch.dtype, sizes: Mapping[int, int], label: float | None) -> list[Fill]:
    """How an argument is padded. sizes: by its axes, their capacities. label: that of rows that do not count.

    Zeros stay zeros in most layers. Integers may be indices, of which the last one is in range.
    """
    number = 0.0 if dtype.is_floating_point and label is None else label
    return [Fill(axis, size, number) for axis, size in sizes.items()]


def fact_of(used: Sequence[int], fills: Sequence[Fill]) -> Fact:
    """What is known of an argument of which some axes are padded. used: its used sizes."""
    axes = [axis_of([Factor(size, size)]) for size in used]
    for axis, size, number in fills:
        if size != used[axis]:
            axes[axis] = axis_of([Factor(used[axis], size, COPY if number is None else Content(number, number))])
    return Fact(tuple(axes))


def filled(tensor: torch.Tensor, fills: Sequence[Fill]) -> torch.Tensor:
    """The argument with padding."""
    for axis, size, number in fills:
        missing = size - tensor.shape[axis]
        if not missing:
            continue
        if number is None:
            last = tensor.narrow(axis, tensor.shape[axis] - 1, 1)
            tensor = torch.cat(
                (tensor, last.expand(*(missing if a == axis else -1 for a in range(tensor.dim())))), axis
            )
        else:
            amounts = [0, 0] * (tensor.dim() - 1 - axis) + [0, missing]
            tensor = torch.nn.functional.pad(tensor, amounts, value=number)
    return tensor


def repair(flat: GraphModule, repairs: Sequence[tuple[Repair, Node]]) -> None:
    """Replaces padding in front of the nodes that need it. Each repair has the argument that says what is used."""
    last = [node for node in flat.graph.nodes if node.op == "placeholder"][-1]
    # A value that is repaired for several nodes, in the same way, is repaired once.
    made: dict[tuple[Any, ...], Node] = {}
    latest: dict[tuple[Node, Node], Node] = {}
    for one, used in repairs:
        edge = (one.user, one.source)
        source = latest.get(edge, one.source)
        key = (source, used, one.axes, one.fill)
        if key not in made:
            made[key] = _Repairer(flat.graph, source, last if source.op == "placeholder" else source).masked(used, one)
        latest[edge] = made[key]
    for (user, source), node in latest.items():
        user.replace_input_with(source, node)


class _Repairer:
    """Inserts nodes that replace the padding of `source` behind the node `after`, in order."""

    def __init__(self, graph: torch.fx.Graph, source: Node, after: Node) -> None:
        self.graph, self.source, self.after = graph, source, after

    def call(self, op: Any, *arguments: Any) -> Node:
        with self.graph.inserting_after(self.after):
            node = self.graph.call_function(op, arguments)
        fakes = torch.fx.node.map_arg(arguments, lambda n: n.meta["val"])
        mode = self.source.meta["val"].fake_mode
        with mode, torch.no_grad():
            node.meta["val"] = op(*fakes)
        self.after = node
        return node

    def masked(self, used: Node, one: Repair) -> Node:
        """The source with `fill` as padding."""
        aten, value = torch.ops.aten, self.source.meta["val"]
        factors = [factor for axis in one.axes for factor in axis]
        mask: Node | None = None
        for place, (size, is_masked) in enumerate(factors):
            if is_masked:
                capacity = used.meta["val"].shape[0]
                own = self.call(aten.slice.Tensor, used, 0, capacity - size, capacity) if size < capacity else used
                own = self.call(aten.view.default, own, [size if p == place else 1 for p in range(len(factors))])
                mask = own if mask is None else self.call(aten.logical_and.default, mask, own)
        assert mask is not None, "a repair replaces padding"
        mask = self._in_axes(mask, one.axes)
        if one.source is ids_of(one.user):
            # Padding has no expert.
            mask = self.call(aten.reshape.default, mask, [-1])
            if self.source.target is not USED:
                return self.call(USED, self.source, mask)
            ids, others = self.source.args
            return self.call(USED, ids, self.call(aten.logical_and.default, others, mask))
        if value.dtype is torch.bool:
            if one.fill:
                return self.call(aten.logical_or.default, self.source, self.call(aten.logical_not.default, mask))
            return self.call(aten.logical_and.default, self.source, mask)
        return self.call(
            aten.where.ScalarOther, mask, self.source, one.fill if value.is_floating_point() else int(one.fill)
        )

    def _in_axes(self, mask: Node, axes: Sequence[Sequence[tuple[int, bool]]]) -> Node:
        """A mask of factors as one of the source's axes; those without padding have size 1."""
        aten = torch.ops.aten
        expanded, shape = [], []
        for axis in axes:
            has = any(is_masked for _, is_masked in axis)
            expanded += [size if has else 1 for size, _ in axis]
            shape.append(math.prod(size for size, _ in axis) if has else 1)
        if expanded != list(mask.meta["val"].shape):
            mask = self.call(aten.expand.default, mask, expanded)
        if shape != list(mask.meta["val"].shape):
            mask = self.call(aten.reshape.default, mask, shape)
        return mask
