"""Which parts of a captured graph are compiled, as large as the importer can make them, and why they are not larger."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.fx import Node

from te_mlir.frontend.base import Unsupported
from te_mlir.layout import Layout
from te_mlir.torch.arguments import Feed, describe, fake
from te_mlir.torch.capture import Captured
from te_mlir.torch.effects import storages
from te_mlir.torch.importer import Importer
from te_mlir.torch.indices import Indices, source_of
from te_mlir.torch.masks import Kind
from te_mlir.torch.partition import Schedule


@dataclass(frozen=True)
class Exit:
    """A node that something outside of the region uses: a view of one of its results.

    shape, strides: of the node's own tensor.
    """

    node: Node
    result: int
    layout: Layout
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """A region of a graph: the nodes inside, the function, and what leaves it."""

    time: int
    inside: set[Node]
    importer: Importer
    exits: list[Exit]


@dataclass(frozen=True)
class Planned:
    """The regions of a graph, in the order that they run in; reasons: one line for each node that stays in PyTorch."""

    regions: tuple[Plan, ...]
    reasons: tuple[str, ...]


def plan(captured: Captured, masks: Mapping[str, Kind]) -> Planned:
    """The regions of a graph; masks: those that are not causal, as Importer has them."""
    schedule = captured.schedule
    regions, reasons = _regions(schedule, captured.names, captured.gradients, masks)
    if not regions:
        return Planned((), tuple(reasons or ["the graph has no linear layer"]))
    if len(captured.devices) != 1:
        reasons.append(f"its tensors are on several devices: {sorted(map(str, captured.devices))}")
        return Planned((), tuple(reasons))
    for region in regions:
        torn = _torn(schedule, region)
        if torn is not None:
            reasons.append(f"{describe(torn)}: a tensor that shares its memory is written to, and lies otherwise here")
            return Planned((), tuple(reasons))
    return Planned(tuple(regions), tuple(reasons))


def _attempt(
    schedule: Schedule, time: int, names: dict[Node, str], wanting: set[Node], masks: Mapping[str, Kind]
) -> Plan:
    """Emits all that leaves the region of a time; raises Unsupported at the first node that cannot be."""
    inside = schedule.inside(time)
    importer = Importer(inside, names, schedule.parameters, wanting, masks)
    exits: list[Exit] = []
    layers = importer.layers(node for node in schedule.graph.nodes if node in inside)
    for node in schedule.graph.nodes:
        # In the order of the program, whatever else leaves it: gradients are added in it.
        if node in layers:
            importer.tensor(node)
        users_outside = any(user not in inside for user in node.users)
        if node not in inside or node in schedule.free or node.op == "placeholder" or not users_outside:
            continue
        # Of several views, each is its own.
        if not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        value = importer.tensor(node)
        # Views of arguments are PyTorch's to make.
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
    """The tensor that a node gives, of the result that holds it; autograd follows it."""
    shape, layout = exit.shape, exit.layout
    if layout.is_row_major(result.numel()):
        return result if result.shape == shape else result.view(shape)
    # Small results share a storage.
    first = result.storage_offset() + layout.offset
    if all(len(dim) <= 1 for dim in layout.dims):
        # Also with PyTorch's strides of size 1, by which it knows what it writes to from what it reads.
        strides = [dim[0][1] if dim else stride for dim, stride in zip(layout.dims, exit.strides)]
        return result.as_strided(shape, strides, first)
    sizes = [size for dim in layout.dims for size, _ in dim]
    strides = [stride for dim in layout.dims for _, stride in dim]
    return result.as_strided(sizes, strides, first).reshape(shape)


def _torn(schedule: Schedule, plan: Plan) -> Node | None:
    """A node whose memory is written to after the region, and that would be a copy of what others view of it."""
    written = schedule.written_after(plan.time)
    memory = [schedule.effects.own(exit.node) & written for exit in plan.exits]
    for exit, own in zip(plan.exits, memory):
        if own and memory.count(own) > 1:
            value, _ = plan.importer.function.results[exit.result]
            made = torch.empty(value.shape, device="meta")
            if storages(view_of(made, exit)) != storages(made):
                return exit.node
    return None


def feeds_of(plan: Plan, captured: Captured) -> list[Feed]:
    """The feeds of a region; of what is written to after it, which its backward may read, a copy."""
    schedule, graph = captured.schedule, captured.flat.graph
    written = schedule.written_after(plan.time)

    def guarded(feed: Feed) -> Feed:
        if feed.node.op == "placeholder" or feed.key or not schedule.effects.own(feed.node) & written:
            return feed
        return feed._replace(make=lambda t: t.clone(memory_format=torch.contiguous_format))

    return [_direct(guarded(feed), graph) for feed in plan.importer.feeds]


def _direct(feed: Feed, graph: torch.fx.Graph) -> Feed:
    """Indices made of the graph's argument, where they are shifted labels."""
    found = source_of(feed.node, graph) if isinstance(feed.make, Indices) else None
    return feed if found is None else feed._replace(node=found[0], make=found[1])


def _overlap(a: Feed, b: Feed) -> bool:
    """Whether two feeds are a parameter, or parts of it, in part the same."""
    return a.node is b.node and (a.part is None or b.part is None or a.part.meets(b.part))


def sums_of(feeds: Sequence[Sequence[Feed]]) -> list[tuple[list[int], list[int]]]:
    """`shared` and `begun` of a Region, of the feeds of each."""
    weights = [(own, i, f) for own, fs in enumerate(feeds) for i, f in enumerate(fs) if f.weight]
    found: list[tuple[list[int], list[int]]] = [([], []) for _ in feeds]
    for node in dict.fromkeys(f.node for _, _, f in weights):
        uses = [use for use in weights if use[2].node is node]
        shared = [use for use in uses if any(use is not other and _overlap(use[2], other[2]) for other in uses)]
        for own, index, _ in shared:
            found[own][0].append(index)
        columns = any(f.part is not None and f.part.axis == 1 for _, _, f in uses)
        # Otherwise the steps write every element of it, each once.
        if shared or columns or sum(math.prod(f.shape) for _, _, f in uses) != fake(node).numel():
            own, index, _ = uses[0]
            found[own][1].append(index)
    return found
