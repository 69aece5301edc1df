"""The nodes of a captured graph that run in PyTorch: before, between and after the compiled regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from te_mlir.torch import casts
from te_mlir.torch import graph as graphs
from te_mlir.torch.arguments import Feed
from te_mlir.torch.documents import is_on_host
from te_mlir.torch.effects import is_grad_mode
from te_mlir.torch.masks import COMPARED
from te_mlir.torch.owners import owner_of
from te_mlir.torch.partition import Schedule
from te_mlir.torch.plan import Plan


def needed_by(nodes: Sequence[Node], known: set[Node]) -> set[Node]:
    """`nodes` and the nodes that they depend on, without the known ones."""
    found: set[Node] = set()
    pending = [n for n in nodes if n not in known]
    while pending:
        current = pending.pop()
        if current not in found:
            found.add(current)
            pending.extend(n for n in current.all_input_nodes if n not in known)
    return found


def function_of(
    flat: GraphModule, nodes: Sequence[Node], given: Sequence[Node], results: Any
) -> Callable[..., Sequence[torch.Tensor]]:
    """`nodes` as a function of the graph's arguments, then of the values of `given`."""
    part = torch.fx.Graph()
    copies: dict[Node, Node] = {n: part.node_copy(n) for n in flat.graph.nodes if n.op == "placeholder"}
    for index, node in enumerate(given):
        copies[node] = part.placeholder(f"given{index}")
        copies[node].meta.update(node.meta)
    blocks = casts.blocks_of(flat.graph, nodes)
    if blocks:
        nodes = [n for n in flat.graph.nodes if n in blocks or n in set(nodes)]
    for node in nodes:
        copies[node] = part.node_copy(node, copies.__getitem__)
    part.output(torch.fx.node.map_arg(results, copies.__getitem__))
    graphs.simplify(part)
    return GraphModule(flat, part).forward


class Before:
    """Computes the values before a region in each call, and keeps those that did not change.

    wanted: the nodes whose values are returned, in order.
    """

    def __init__(self, flat: GraphModule, schedule: Schedule, wanted: Sequence[Node], state: Sequence[bool]) -> None:
        graph, effects = flat.graph, schedule.effects
        self.wanted = list(wanted)
        nodes = [n for n in graph.nodes if n.op != "placeholder" and (schedule.is_before(n) or n in schedule.free)]
        needed = needed_by([*wanted, *(n for n in nodes if n.is_impure() or n in effects.writes)], set())
        placeholders = [n for n in graph.nodes if n.op == "placeholder"]
        # Only values that are computed from buffers are kept, because a change of an input may go unnoticed.
        self.kept = {node for node, is_state in zip(placeholders, state) if is_state}
        self.kept -= {node for node in self.kept if any(effects.users_of_memory(key) for key in effects.own(node))}
        # What the graph returns belongs to the caller, who may write to it.
        (output,) = graph.find_nodes(op="output")
        returned: set[Any] = set().union(*map(effects.own, output.all_input_nodes), set())
        for node in nodes:
            own = effects.own(node)
            quiet = node not in effects.writes and not own & returned and not any(map(effects.users_of_memory, own))
            if quiet and not node.is_impure() and all(n in self.kept for n in node.all_input_nodes):
                self.kept.add(node)
        fresh = [n for n in nodes if n in needed and n not in self.kept]
        held = [n for n in nodes if n in needed and n in self.kept]
        used = {source for n in fresh for source in n.all_input_nodes} | set(wanted)
        self.held = [n for n in held if n in used]
        self.fresh = [n for n in wanted if n not in self.kept]
        self.once = function_of(flat, held, [], self.held) if self.held else None
        self.each = function_of(flat, fresh, self.held, self.fresh) if fresh else None
        self.watched = [i for i, p in enumerate(placeholders) if p in self.kept and p in needed_by(self.held, set())]
        self._versions: list[Any] = []
        self._values: Sequence[torch.Tensor] | None = None

    def __call__(self, tensors: Sequence[torch.Tensor]) -> tuple[bool, dict[Node, torch.Tensor]]:
        """Whether the kept values were computed again, and the values of the wanted nodes."""
        renewed = False
        if self.once is not None:
            versions = [(tensors[i], tensors[i]._version) for i in self.watched]
            if self._values is None or any(
                t is not was or version != before or copy is not None and not torch.equal(t, copy)
                for (t, version), (was, before, copy) in zip(versions, self._versions)
            ):
                with torch.no_grad():
                    # A write through `data` does not change the version. On a CPU it is found by comparing the values;
                    # on a GPU, that would have to wait for the device.
                    self._versions = [(t, v, t.clone() if is_on_host(t) else None) for t, v in versions]
                    self._values, renewed = self.once(*tensors), True
        held = self._values or ()
        values = dict(zip(self.held, held))
        if self.each is not None:
            with torch.no_grad():
                values.update(zip(self.fresh, self.each(*tensors, *held)))
        return renewed, values


class Feeder:
    """Computes the arguments of a region from the values before it, and computes again only those that changed."""

    def __init__(self, flat: GraphModule, feeds: Sequence[Feed], before: Before) -> None:
        places = {n: i for i, n in enumerate(n for n in flat.graph.nodes if n.op == "placeholder")}
        #: For each argument of the region, the index of the graph's argument that it is, or -1.
        self.sources = [places.get(f.node, -1) if f.make is None else -1 for f in feeds]
        #: The others: (index, feed, index of the graph's argument or -1, whether it is kept).
        self.made = [
            (i, f, places.get(f.node, -1), f.node.op != "placeholder" and f.node in before.kept)
            for i, f in enumerate(feeds)
            if self.sources[i] < 0
        ]
        self._held: dict[int, torch.Tensor] = {}
        self._parts = [m for m in self.made if m[1].part is not None]
        #: Masks and tables in `made`. If a call has others than its graph, the call is started again, so they are checked
        #: before anything runs.
        self.compared = [m for m in self.made if m[1].key.split("_")[0] in COMPARED]
        self._seen: set[int] = set()

    def owners(self, tensors: Sequence[torch.Tensor]) -> dict[int, torch.Tensor]:
        """The parameters that arguments are parts of."""
        return {index: owner_of(tensors[source]) for index, feed, source, _ in self._parts}

    def look(self, tensors: Sequence[torch.Tensor], renewed: bool, values: dict[Node, torch.Tensor]) -> None:
        """Checks masks, and tables of rotations, that are available before the first region; raises OtherMask."""
        for index, feed, source, kept in self.compared:
            if (source >= 0 or feed.node in values) and (not kept or renewed or index not in self._held):
                assert feed.make is not None
                with torch.no_grad():
                    self._held[index] = feed.make(tensors[source] if source >= 0 else values[feed.node])
                self._seen.add(index)

    def __call__(
        self, tensors: Sequence[torch.Tensor], renewed: bool, values: dict[Node, torch.Tensor]
    ) -> list[torch.Tensor]:
        arguments = [tensors[source] for source in self.sources]
        for index, feed, source, kept in self.made:
            if kept and not renewed and index in self._held:
                arguments[index] = self._held[index]
                continue
            if index in self._seen:
                self._seen.discard(index)
                arguments[index] = self._held[index] if kept else self._held.pop(index)
                continue
            tensor = tensors[source] if source >= 0 else values[feed.node]
            if feed.make is None:
                pass
            elif kept:
                with torch.no_grad():
                    tensor = self._held[index] = feed.make(tensor)
            else:
                # This is not under no_grad, because the tensor may need a gradient.
                tensor = feed.make(tensor)
            arguments[index] = tensor
        return arguments


class Eager:
    """The nodes that run in PyTorch before the first region, or after a region.

    nodes: the nodes that it computes. exits: nodes that leave the region. given: other nodes that it needs,
    besides the graph's arguments. made: the nodes that it returns, or None for the results of the graph.
    """

    def __init__(
        self, flat: GraphModule, nodes: Sequence[Node], exits: list[Node], given: list[Node], made: list[Node] | None
    ) -> None:
        self.nodes, self.exits, self.given, self.made = nodes, exits, given, made or []
        output = next(n for n in flat.graph.nodes if n.op == "output")
        self.run = function_of(flat, nodes, [*exits, *given], output.args[0] if made is None else made)
        self._idle = not nodes

    def into(self, values: dict[Node, torch.Tensor], tensors: Sequence[torch.Tensor]) -> None:
        """Adds its results to the values of nodes."""
        if not self._idle:
            values.update(zip(self.made, self.run(*tensors, *(values[node] for node in (*self.exits, *self.given)))))


def eager_of(
    flat: GraphModule, schedule: Schedule, plans: Sequence[Plan], feeds: Sequence[Sequence[Feed]]
) -> list[Eager]:
    """The nodes that run in PyTorch before the first region and after each region."""
    graph = flat.graph
    times = [-1] + [plan.time + 1 for plan in plans]
    exits = {exit.node for plan in plans for exit in plan.exits}
    effects = [n for n in graph.nodes if n.op == "call_function" and (n.is_impure() or n in schedule.effects.writes)]
    fed = [{f.node for f in own if f.node.op != "placeholder"} for own in feeds]
    found: list[Eager] = []
    #: The nodes of earlier parts that later ones need.
    needed: set[Node] = set()
    for index in reversed(range(len(times))):
        end = times[index + 1] if index + 1 < len(times) else schedule.end
        here = {n for n in graph.nodes if schedule.is_between(n, times[index], end)}
        elsewhere = {n for n in graph.nodes if schedule.is_staying(n)} - here
        known = {n for n in graph.nodes if n in exits or n in elsewhere or schedule.is_before(n)}
        targets: list[Node] = [n for n in graph.nodes if n.op == "output"]
        if index < len(plans):
            needed |= fed[index]
            # Include the views of a region's arguments that the next region starts with.
            targets = [n for n in graph.nodes if n in needed and (n in here or n in fed[index] - known)]
        within = needed_by([*targets, *(n for n in effects if n in here)], known)
        own = [exit.node for exit in plans[index - 1].exits] if index else []
        given = [n for n in graph.nodes if n in known and n not in own and any(user in within for user in n.users)]
        modes = any(n in schedule.frozen for n in within)
        nodes = [n for n in graph.nodes if n.op == "call_function" and n in within or modes and is_grad_mode(n)]
        found.insert(0, Eager(flat, nodes, own, given, targets if index < len(plans) else None))
        needed |= set(given)
    return found
