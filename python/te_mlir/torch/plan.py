"""Chooses the regions of a captured graph, as large as the importer supports, and lists why they are not larger."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from te_mlir import devices
from te_mlir.errors import ArgumentError
from te_mlir.frontend.base import Unsupported
from te_mlir.layout import Layout
from te_mlir.torch.arguments import Feed, describe, fake
from te_mlir.torch.capture import Captured
from te_mlir.torch.effects import storages
from te_mlir.torch.importer import Importer
from te_mlir.torch.indices import Indices, source_of
from te_mlir.torch.masks import Kind
from te_mlir.torch.partition import Schedule

#: The reason of a graph that has nothing to compile.
NO_LAYER = "the graph has no linear layer"


@dataclass(frozen=True)
class Exit:
    """A node of a region that is used outside of it: a view of one of the region's results.

    layout: the layout of the node's elements in the result. shape, strides: those of the node's tensor in PyTorch.
    """

    node: Node
    result: int
    layout: Layout
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """A region of a graph: its time in the schedule, the nodes inside, the function, and the nodes used outside."""

    time: int
    inside: set[Node]
    importer: Importer
    exits: list[Exit]


@dataclass(frozen=True)
class Planned:
    """The regions of a graph, in the order in which they run. reasons: one line for each node that stays in PyTorch."""

    regions: tuple[Plan, ...]
    reasons: tuple[str, ...]


def plan(captured: Captured, masks: Mapping[str, Kind]) -> Planned:
    """Chooses the regions of a graph. masks: the kinds of the masks that are not causal, as in `Arguments`."""
    schedule = captured.schedule
    regions, reasons = _regions(schedule, captured.names, captured.gradients, masks)
    if not regions:
        return Planned((), tuple(reasons or [NO_LAYER]))
    if len(captured.devices) != 1:
        reasons.append(f"its tensors are on several devices: {sorted(map(str, captured.devices))}")
        return Planned((), tuple(reasons))
    try:
        devices.torch_place(*captured.devices)
    except ArgumentError as error:
        return Planned((), (*reasons, str(error)))
    for region in regions:
        torn = _torn(schedule, region)
        if torn is not None:
            reasons.append(
                f"{describe(torn)}: PyTorch writes to a tensor that shares its memory, but its compiled result would be a copy"
            )
            return Planned((), tuple(reasons))
    return Planned(tuple(regions), tuple(reasons))


def _attempt(
    schedule: Schedule, time: int, names: dict[Node, str], wanting: set[Node], masks: Mapping[str, Kind]
) -> Plan:
    """Emits the region of a time, from the nodes used outside of it; raises Unsupported for the first that cannot be emitted."""
    inside = schedule.inside(time)
    importer = Importer(inside, names, schedule.parameters, wanting, masks)
    exits: list[Exit] = []
    layers = importer.layers(node for node in schedule.graph.nodes if node in inside)
    for node in schedule.graph.nodes:
        # Layers are emitted in the order of the program, because gradients are summed in the order of the function.
        if node in layers:
            importer.tensor(node)
        users_outside = any(user not in inside for user in node.users)
        if node not in inside or node in schedule.free or node.op == "placeholder" or not users_outside:
            continue
        # If a node has several views, the nodes that read each of them are the exits.
        if not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        value = importer.tensor(node)
        # PyTorch creates views of arguments itself.
        if not any(value.matrix is argument for argument, _ in importer.function.arguments):
            tensor = fake(node)
            place = importer.result(value.matrix)
            exits.append(Exit(node, place, value.layout, tuple(tensor.shape), tuple(tensor.stride())))
    return Plan(time, inside, importer, exits)


def _regions(
    schedule: Schedule, names: dict[Node, str], wanting: set[Node], masks: Mapping[str, Kind]
) -> tuple[list[Plan], list[str]]:
    """The regions of a graph, as large as they can be, and why they are not larger."""
    stopping = [(n, "no gradient goes through it (torch.no_grad, or detach)") for n in schedule.without_gradients()]
    reasons = dict.fromkeys(f"{describe(node)}: {reason}" for node, reason in (*stopping, *schedule.refused()))
    plans: dict[int, Plan] = {}
    while True:
        try:
            for time in schedule.regions():
                if time not in plans or plans[time].inside != schedule.inside(time):
                    plans[time] = _attempt(schedule, time, names, wanting, masks)
        except Unsupported as unsupported:
            reasons[f"{describe(unsupported.origin)}: {unsupported.reason}"] = None
            if not schedule.leave(unsupported.origin, schedule.inside(time)):
                return [], list(reasons)
            continue
        return [plans[time] for time in schedule.regions()], list(reasons)


def view_of(result: torch.Tensor, exit: Exit) -> torch.Tensor:
    """The tensor of a node, as a view of the region's result that autograd tracks."""
    shape, layout = exit.shape, exit.layout
    if layout.is_row_major(result.numel()):
        return result if result.shape == shape else result.view(shape)
    # The result may have an offset, because small results share a storage.
    first = result.storage_offset() + layout.offset
    if all(len(dim) <= 1 for dim in layout.dims):
        # Axes of size 1 get PyTorch's own strides, from which its in-place ops infer which elements overlap.
        strides = [dim[0][1] if dim else stride for dim, stride in zip(layout.dims, exit.strides)]
        return result.as_strided(shape, strides, first)
    sizes = [size for dim in layout.dims for size, _ in dim]
    strides = [stride for dim in layout.dims for _, stride in dim]
    return result.as_strided(sizes, strides, first).reshape(shape)


def _torn(schedule: Schedule, plan: Plan) -> Node | None:
    """A node that needs a copy of a result, although PyTorch writes to its memory later through another node; or None."""
    written = schedule.written_after(plan.time)
    memory = [schedule.effects.own(exit.node) & written for exit in plan.exits]
    first: dict[frozenset[Any], int] = {}
    for exit, own in zip(plan.exits, memory):
        if own and memory.count(own) > 1:
            value, _ = plan.importer.function.results[exit.result]
            made = torch.empty(value.shape, device="meta")
            is_other = first.setdefault(frozenset(own), exit.result) != exit.result
            if is_other or storages(view_of(made, exit)) != storages(made):
                return exit.node
    return None


def feeds_of(plan: Plan, captured: Captured) -> list[Feed]:
    """The feeds of a region. A tensor that is written to after the region is copied, because the backward may read it."""
    schedule, graph = captured.schedule, captured.flat.graph
    written = schedule.written_after(plan.time)

    def guarded(feed: Feed) -> Feed:
        if feed.node.op == "placeholder" or feed.key or not schedule.effects.own(feed.node) & written:
            return feed
        return feed._replace(make=lambda t: t.clone(memory_format=torch.contiguous_format))

    return [_direct(guarded(feed), graph) for feed in plan.importer.feeds]


def _direct(feed: Feed, graph: torch.fx.Graph) -> Feed:
    """The feed; if it is shifted labels, it computes indices from the graph's argument in one step."""
    found = source_of(feed.node, graph) if isinstance(feed.make, Indices) else None
    return feed if found is None else feed._replace(node=found[0], make=found[1])


def _overlap(a: Feed, b: Feed) -> bool:
    """Whether two feeds have elements of one parameter in common."""
    return a.node is b.node and (a.part is None or b.part is None or a.part.meets(b.part))


def sums_of(feeds: Sequence[Sequence[Feed]]) -> list[tuple[list[int], list[int]]]:
    """For the feeds of each region, `shared` and `begun` of its `MainGrads`."""
    weights = [(own, i, f) for own, fs in enumerate(feeds) for i, f in enumerate(fs) if f.weight]
    found: list[tuple[list[int], list[int]]] = [([], []) for _ in feeds]
    for node in dict.fromkeys(f.node for _, _, f in weights):
        uses = [use for use in weights if use[2].node is node]
        shared = [use for use in uses if any(use is not other and _overlap(use[2], other[2]) for other in uses)]
        for own, index, _ in shared:
            found[own][0].append(index)
        columns = any(f.part is not None and f.part.axis == 1 for _, _, f in uses)
        # Otherwise, the steps write every element of the sum exactly once.
        if shared or columns or sum(math.prod(f.shape) for _, _, f in uses) != fake(node).numel():
            own, index, _ = uses[0]
            found[own][1].append(index)
    return found
