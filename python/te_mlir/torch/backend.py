"""The backend "te" of torch.compile, and `jit`, which is that with a handle.

Each captured graph becomes a `Graph`: a prologue in PyTorch, then compiled regions and
what runs between them in PyTorch. Regions are as large as the importer can make them:
a node that it cannot express is left to PyTorch, where autograd differentiates it as
always, and what depends on it is a part of the next region.
"""

from __future__ import annotations

import contextlib
import copy
import math
import warnings
import weakref
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import torch
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from te_mlir.errors import ArgumentError, ImportFailure
from te_mlir.frontend.base import Unsupported
from te_mlir.program import one_page, report
from te_mlir.recipes import Recipe
from te_mlir.torch import casts, patterns
from te_mlir.torch import graph as capture
from te_mlir.torch.adapter import imports
from te_mlir.torch.arguments import FIXED, Feed, describe, fake
from te_mlir.torch.importer import Importer
from te_mlir.torch.indices import Indices, source_of
from te_mlir.torch.masks import COMPARED, OTHER, Kind, OtherMask
from te_mlir.torch.partition import (
    Schedule,
    dependents,
    frozen_nodes,
    is_grad_mode,
    is_mode,
    refusal,
    same_tensors,
    storages,
    wanting,
    written_nodes,
)
from te_mlir.layout import Layout
from te_mlir.torch.runner import Options, Region, Spec
from te_mlir.torch.states import States, WithStates


class _Exit(NamedTuple):
    """A node that something outside of the region uses: a view of one of its results.

    shape, strides: of the node's own tensor.
    """

    node: Node
    result: int
    layout: Layout
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]


class _Plan(NamedTuple):
    """A region of a graph: the nodes inside, the function, and what leaves it."""

    time: int
    inside: Set[Node]
    importer: Importer
    exits: List[_Exit]


def _attempt(
    schedule: Schedule, time: int, names: Dict[Node, str], wanting: Set[Node], masks: Mapping[str, Kind]
) -> _Plan:
    """Emits all that leaves the region of a time; raises Unsupported at the first node that cannot be."""
    inside = schedule.inside(time)
    importer = Importer(inside, names, schedule.parameters, wanting, masks)
    exits: List[_Exit] = []
    for node in schedule.graph.nodes:
        # In the order of the program, whatever else leaves it: gradients are added in it.
        if node in inside and patterns.is_op(node, "linear"):
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
            exits.append(_Exit(node, place, value.layout, tuple(tensor.shape), tuple(tensor.stride())))
    return _Plan(time, inside, importer, exits)


def _plan(
    schedule: Schedule, names: Dict[Node, str], wanting: Set[Node], masks: Mapping[str, Kind]
) -> Tuple[List[_Plan], List[str]]:
    """The regions of a graph, as large as they can be, and why they are not larger."""
    stopping = [(n, "no gradient goes through it (torch.no_grad, or detach)") for n in schedule.without_gradients()]
    reasons = dict.fromkeys(f"{describe(node)}: {reason}" for node, reason in (*stopping, *schedule.refused()))
    plans: Dict[int, _Plan] = {}
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


class _Before:
    """Computes what comes before a region, once for each call, and keeps what did not change.

    wanted: the nodes whose values are given, in order.
    """

    def __init__(self, flat: GraphModule, schedule: Schedule, wanted: Sequence[Node], state: Sequence[bool]) -> None:
        graph, effects = flat.graph, schedule.effects
        self.wanted = list(wanted)
        nodes = [n for n in graph.nodes if n.op != "placeholder" and (schedule.is_before(n) or n in schedule.free)]
        needed = _needed([*wanted, *(n for n in nodes if n.is_impure() or n in effects.writes)], set())
        placeholders = [n for n in graph.nodes if n.op == "placeholder"]
        # What comes of buffers alone is kept; an input may change without a word.
        self.kept = {node for node, is_state in zip(placeholders, state) if is_state}
        self.kept -= {node for node in self.kept if any(effects.users_of_memory(key) for key in effects.own(node))}
        for node in nodes:
            quiet = node not in effects.writes and not any(effects.users_of_memory(k) for k in effects.own(node))
            if quiet and not node.is_impure() and all(n in self.kept for n in node.all_input_nodes):
                self.kept.add(node)
        fresh = [n for n in nodes if n in needed and n not in self.kept]
        held = [n for n in nodes if n in needed and n in self.kept]
        used = {source for n in fresh for source in n.all_input_nodes} | set(wanted)
        self.held = [n for n in held if n in used]
        self.fresh = [n for n in wanted if n not in self.kept]
        self.once = _program(flat, held, [], self.held) if self.held else None
        self.each = _program(flat, fresh, self.held, self.fresh) if fresh else None
        self.watched = [i for i, p in enumerate(placeholders) if p in self.kept and p in _needed(self.held, set())]
        self._versions: List[Any] = []
        self._values: Optional[Sequence[torch.Tensor]] = None

    def __call__(self, tensors: Sequence[torch.Tensor]) -> Tuple[bool, Dict[Node, torch.Tensor]]:
        """Whether what is kept was made anew, and the values of the wanted nodes."""
        renewed = False
        if self.once is not None:
            versions = [(tensors[i], tensors[i]._version) for i in self.watched]
            if self._values is None or any(
                t is not was or version != before or copy is not None and not torch.equal(t, copy)
                for (t, version), (was, before, copy) in zip(versions, self._versions)
            ):
                with torch.no_grad():
                    # On a CPU also what no version counts, a write through `data`, is seen; a GPU would have to wait.
                    self._versions = [(t, v, t.clone() if t.device.type == "cpu" else None) for t, v in versions]
                    self._values, renewed = self.once(*tensors), True
        held = self._values or ()
        values = dict(zip(self.held, held))
        if self.each is not None:
            with torch.no_grad():
                values.update(zip(self.fresh, self.each(*tensors, *held)))
        return renewed, values


def _needed(nodes: Sequence[Node], known: Set[Node]) -> Set[Node]:
    """The nodes that `nodes` depend on, and these, as far as they are not known."""
    found: Set[Node] = set()
    pending = [n for n in nodes if n not in known]
    while pending:
        current = pending.pop()
        if current not in found:
            found.add(current)
            pending.extend(n for n in current.all_input_nodes if n not in known)
    return found


def _program(
    flat: GraphModule, nodes: Sequence[Node], given: Sequence[Node], results: Any
) -> Callable[..., Sequence[torch.Tensor]]:
    """`nodes` as a function of the graph's arguments, then of the values of `given`."""
    part = torch.fx.Graph()
    copies: Dict[Node, Node] = {n: part.node_copy(n) for n in flat.graph.nodes if n.op == "placeholder"}
    for index, node in enumerate(given):
        copies[node] = part.placeholder(f"given{index}")
        copies[node].meta.update(node.meta)
    blocks = casts.blocks_of(flat.graph, nodes)
    if blocks:
        nodes = [n for n in flat.graph.nodes if n in blocks or n in set(nodes)]
    for node in nodes:
        copies[node] = part.node_copy(node, copies.__getitem__)
    part.output(torch.fx.node.map_arg(results, copies.__getitem__))
    capture.simplify(part)
    return GraphModule(flat, part).forward


class _Feeder:
    """Makes the arguments of a region of what came before it; makes again only what changed."""

    def __init__(self, flat: GraphModule, feeds: Sequence[Feed], before: _Before) -> None:
        places = {n: i for i, n in enumerate(n for n in flat.graph.nodes if n.op == "placeholder")}
        #: Which of the graph's arguments each is, if it is one as it lies.
        self.sources = [places.get(f.node, -1) if f.make is None else -1 for f in feeds]
        #: The others: (place, feed, the graph's argument or -1, whether it is kept).
        self.made = [
            (i, f, places.get(f.node, -1), f.node.op != "placeholder" and f.node in before.kept)
            for i, f in enumerate(feeds)
            if self.sources[i] < 0
        ]
        self._held: Dict[int, torch.Tensor] = {}
        self._parts = [m for m in self.made if m[1].part is not None]
        #: Of `made`, masks and tables: a call that has others than its graph is begun again, so they are seen before
        #: anything runs.
        self._compared = [m for m in self.made if m[1].key in COMPARED]
        self._seen: Set[int] = set()

    def owners(self, tensors: Sequence[torch.Tensor]) -> Dict[int, torch.Tensor]:
        """The parameters that arguments are parts of."""
        return {index: tensors[source] for index, feed, source, _ in self._parts}

    def look(self, tensors: Sequence[torch.Tensor], renewed: bool, values: Dict[Node, torch.Tensor]) -> None:
        """Raises OtherMask for a mask, or a table of a rotation, that is there before the first region."""
        for index, feed, source, kept in self._compared:
            if (source >= 0 or feed.node in values) and (not kept or renewed or index not in self._held):
                assert feed.make is not None
                with torch.no_grad():
                    self._held[index] = feed.make(tensors[source] if source >= 0 else values[feed.node])
                self._seen.add(index)

    def __call__(
        self, tensors: Sequence[torch.Tensor], renewed: bool, values: Dict[Node, torch.Tensor]
    ) -> List[torch.Tensor]:
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
                # Not below no_grad: it may want a gradient.
                tensor = feed.make(tensor)
            arguments[index] = tensor
        return arguments


def _direct(feed: Feed, graph: torch.fx.Graph) -> Feed:
    """Indices made of the graph's argument, where they are shifted labels."""
    found = source_of(feed.node, graph) if isinstance(feed.make, Indices) else None
    return feed if found is None else feed._replace(node=found[0], make=found[1])


def _view(result: torch.Tensor, exit: _Exit) -> torch.Tensor:
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


def _torn(schedule: Schedule, plan: _Plan) -> Optional[Node]:
    """A node whose memory is written to after the region, and that would be a copy of what others view of it."""
    written = schedule.written_after(plan.time)
    memory = [schedule.effects.own(exit.node) & written for exit in plan.exits]
    for exit, own in zip(plan.exits, memory):
        if own and memory.count(own) > 1:
            value, _ = plan.importer.function.results[exit.result]
            made = torch.empty(value.shape, device="meta")
            if storages(_view(made, exit)) != storages(made):
                return exit.node
    return None


def _guarded(plan: _Plan, schedule: Schedule) -> List[Feed]:
    """The feeds of a region; of what is written to after it, which its backward may read, a copy."""
    written = schedule.written_after(plan.time)

    def guarded(feed: Feed) -> Feed:
        if feed.node.op == "placeholder" or feed.key or not schedule.effects.own(feed.node) & written:
            return feed
        return feed._replace(make=lambda t: t.clone(memory_format=torch.contiguous_format))

    return [guarded(feed) for feed in plan.importer.feeds]


class _Program:
    """What runs in PyTorch before the first region, or after one.

    nodes: what it computes. exits: nodes that leave the region. given: what else it needs, beside the
    graph's arguments. made: the nodes that it gives, or None for the results of the graph.
    """

    def __init__(
        self, flat: GraphModule, nodes: Sequence[Node], exits: List[Node], given: List[Node], made: Optional[List[Node]]
    ) -> None:
        self.nodes, self.exits, self.given, self.made = nodes, exits, given, made or []
        output = next(n for n in flat.graph.nodes if n.op == "output")
        self.run = _program(flat, nodes, [*exits, *given], output.args[0] if made is None else made)
        self._idle = not nodes

    def into(self, values: Dict[Node, torch.Tensor], tensors: Sequence[torch.Tensor]) -> None:
        """Adds what it makes to the values of nodes."""
        if not self._idle:
            values.update(zip(self.made, self.run(*tensors, *(values[node] for node in (*self.exits, *self.given)))))


def _programs(
    flat: GraphModule, schedule: Schedule, plans: Sequence[_Plan], feeds: Sequence[Sequence[Feed]]
) -> List[_Program]:
    """What runs in PyTorch before the first region and after each."""
    graph = flat.graph
    times = [-1] + [plan.time + 1 for plan in plans]
    exits = {exit.node for plan in plans for exit in plan.exits}
    effects = [n for n in graph.nodes if n.op == "call_function" and (n.is_impure() or n in schedule.effects.writes)]
    fed = [{f.node for f in own if f.node.op != "placeholder"} for own in feeds]
    found: List[_Program] = []
    #: What later programs and regions need of earlier ones.
    needed: Set[Node] = set()
    for index in reversed(range(len(times))):
        end = times[index + 1] if index + 1 < len(times) else schedule.end
        here = {n for n in graph.nodes if schedule.is_between(n, times[index], end)}
        elsewhere = {n for n in graph.nodes if schedule.is_staying(n)} - here
        known = {n for n in graph.nodes if n in exits or n in elsewhere or schedule.is_before(n)}
        targets: List[Node] = [n for n in graph.nodes if n.op == "output"]
        if index < len(plans):
            needed |= fed[index]
            # Also the views of arguments of a region that the next one begins with.
            targets = [n for n in graph.nodes if n in needed and (n in here or n in fed[index] - known)]
        within = _needed([*targets, *(n for n in effects if n in here)], known)
        own = [exit.node for exit in plans[index - 1].exits] if index else []
        given = [n for n in graph.nodes if n in known and n not in own and any(user in within for user in n.users)]
        modes = any(n in schedule.frozen for n in within)
        nodes = [n for n in graph.nodes if n.op == "call_function" and n in within or modes and is_grad_mode(n)]
        found.insert(0, _Program(flat, nodes, own, given, targets if index < len(plans) else None))
        needed |= set(given)
    return found


class Making(NamedTuple):
    """How the regions of a graph are made."""

    device: torch.device
    options: Options
    differentiate_outputs: str
    states: States
    shared: Sequence[int] = ()
    begun: Sequence[int] = ()


def _overlap(a: Feed, b: Feed) -> bool:
    """Whether two feeds are a parameter, or parts of it, in part the same."""
    return a.node is b.node and (a.part is None or b.part is None or a.part.meets(b.part))


def _sums(feeds: Sequence[Sequence[Feed]]) -> List[Tuple[List[int], List[int]]]:
    """`shared` and `begun` of a Region, of the feeds of each."""
    weights = [(own, i, f) for own, fs in enumerate(feeds) for i, f in enumerate(fs) if f.weight]
    found: List[Tuple[List[int], List[int]]] = [([], []) for _ in feeds]
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


class _Part:
    """A region, what feeds it, and the program that follows it.

    nodes: what leaves it, of which a call gives the tensors.
    """

    def __init__(
        self,
        flat: GraphModule,
        schedule: Schedule,
        plan: _Plan,
        feeds: Sequence[Feed],
        program: _Program,
        before: _Before,
        gradients: Set[Node],
        making: Making,
    ) -> None:
        self.program = program
        inputs = [
            Spec(
                f.name,
                f.shape,
                f.dtype,
                f.weight,
                f.node in gradients and f.dtype.is_floating_point and f.key != FIXED,
                f.part,
            )
            for f in feeds
        ]
        outputs = []
        results = plan.importer.function.results
        scalars = [not value.shape for value, _ in results]
        going_on = {
            exit.result
            for exit in plan.exits
            if any(user in gradients and user not in plan.inside for user in exit.node.users)
        }
        for index, (value, _) in enumerate(results):
            # Of a loss and its logits, the loss alone is differentiated.
            through = making.differentiate_outputs == "all" or not any(scalars) or scalars[index] or index in going_on
            dtype = getattr(torch, value.dtype)
            # Of the shape that leaves, where there is one: no view, which hooks and writes in place are lost on.
            rows = (e.shape for e in plan.exits if e.result == index and e.layout.is_row_major(math.prod(value.shape)))
            shape = next(rows, value.shape)
            outputs.append(Spec(f"result{index}", shape, dtype, differentiable=through))
        self.exits = plan.exits
        self.nodes = [exit.node for exit in plan.exits]
        self.region = Region(
            plan.importer.function,
            inputs,
            outputs,
            making.device,
            making.options,
            making.states,
            making.shared,
            making.begun,
        )
        self.feeder = _Feeder(flat, feeds, before)
        # Results that PyTorch writes to: the region's own stay as they are, and what shares memory there shares it here.
        # What does not share it there, such as a result and its clone, may be written to by whoever gets both.
        effects, written = schedule.effects, schedule.written_after(plan.time)
        output = next(n for n in flat.graph.nodes if n.op == "output")
        returned: Set[Any] = set().union(*(effects.own(n) for n in output.all_input_nodes))
        first = {e.result: effects.own(e.node) for e in reversed(plan.exits)}
        memory = [
            own & (written if own == first[e.result] else written | returned)
            for e, own in ((e, effects.own(e.node)) for e in plan.exits)
        ]
        # Without gaps there, which code outside of the graph may rely on.
        self.dense = [
            fake(e.node).is_contiguous() and not e.layout.is_row_major(fake(e.node).numel()) and not own & written
            for e, own in zip(plan.exits, memory)
        ]
        self.copied = [(e.result, *own) if own else None for e, own in zip(plan.exits, memory)]
        #: The region's results that leave it, where each leaves as it is: a loss.
        self.plain: Optional[List[int]] = None
        as_they_are = (
            key is None
            and not dense
            and e.layout.is_row_major(math.prod(e.shape))
            and outputs[e.result].shape == e.shape
            for e, key, dense in zip(plan.exits, self.copied, self.dense)
        )
        if all(as_they_are):
            self.plain = [e.result for e in plan.exits]

    def __call__(
        self, tensors: Sequence[torch.Tensor], renewed: bool, values: Dict[Node, torch.Tensor]
    ) -> List[torch.Tensor]:
        self.region.belong_to(self.feeder.owners(tensors))
        results = self.region(*self.feeder(tensors, renewed, values))
        if self.plain is not None:
            return [results[i] for i in self.plain]
        copies: Dict[Any, torch.Tensor] = {}
        views = []
        for exit, key, dense in zip(self.exits, self.copied, self.dense):
            result = results[exit.result]
            if key is not None:
                if key not in copies:
                    copies[key] = result.clone()
                result = copies[key]
            view = _view(result, exit)
            views.append(view.contiguous() if dense else view)
        return views


class Graph:
    """A captured graph: how much of it is compiled, and why the rest is not.

    reasons: one line for each node that stays in PyTorch although it depends on a
    parameter. parts: what is compiled, in the order that it runs in.
    """

    def __init__(
        self,
        module: GraphModule,
        examples: Sequence[torch.Tensor],
        options: Options,
        differentiate_outputs: str,
        states: Optional[States] = None,
    ) -> None:
        self.module = module
        self.options, self.differentiate_outputs = options, differentiate_outputs
        self.states = states or States()
        self.names, self.buffers = capture.argument_names(module), capture.buffers(module)
        self.masks: Dict[str, Kind] = {}
        self._import(examples)

    def _import(self, examples: Sequence[torch.Tensor]) -> None:
        module = self.module
        self.reasons: List[str] = []
        self.parts: List[_Part] = []
        try:
            flat = capture.flatten(module, examples)
        except Exception as error:  # Whatever tracing does not take, PyTorch does.
            self.reasons = [f"the graph cannot be traced: {str(error).splitlines()[0] if str(error) else type(error)}"]
            return
        refused = refusal(module, flat)
        if refused is not None:
            self.reasons = [refused]
            return
        casts.without_idle_blocks(flat.graph)
        same_tensors(flat.graph)
        placeholders = [n for n in flat.graph.nodes if n.op == "placeholder"]
        names = dict(zip(placeholders, self.names))
        parameters = {
            node
            for node, example in zip(placeholders, examples)
            if isinstance(example, torch.nn.Parameter) and example.is_contiguous() and not example.data_ptr() % 16
        }
        leaves = {n for n, e in zip(placeholders, examples) if e.is_leaf and e.requires_grad and not e._is_view()}
        casts.insert_casts(flat.graph, imports, leaves)
        wanted = {node for node, example in zip(placeholders, examples) if example.requires_grad}
        roots = parameters | wanted
        patterns.set_apart(frozen_nodes(flat.graph) & dependents(flat.graph, wanted))
        written = written_nodes(flat.graph, examples)
        capture.products_to_linears(flat.graph, parameters, written)
        capture.cut_linears(flat.graph, parameters, written)
        capture.merge_equal(flat.graph, dependents(flat.graph, roots))
        schedule = Schedule(flat.graph, roots, parameters, examples)
        gradients = wanting(flat.graph, schedule.frozen, wanted)
        plans, self.reasons = _plan(schedule, names, gradients, self.masks)
        if not plans:
            if not self.reasons:
                self.reasons = ["the graph has no linear layer"]
            return
        devices = {example.device for example in examples}
        if len(devices) != 1:
            self.reasons.append(f"its tensors are on several devices: {sorted(map(str, devices))}")
            return
        for plan in plans:
            torn = _torn(schedule, plan)
            if torn is not None:
                self.reasons.append(
                    f"{describe(torn)}: a tensor that shares its memory is written to, and lies otherwise here"
                )
                return
        making = Making(devices.pop(), self.options, self.differentiate_outputs, self.states)
        self._build(flat, schedule, plans, gradients, making)

    def _build(
        self, flat: GraphModule, schedule: Schedule, plans: List[_Plan], gradients: Set[Node], making: Making
    ) -> None:
        feeds = [[_direct(f, flat.graph) for f in _guarded(plan, schedule)] for plan in plans]
        programs = _programs(flat, schedule, plans, feeds)
        if self.options.main_grad:
            outside = {n for program in programs for n in program.nodes if n in gradients}
            self.reasons += [
                f"{name}: PyTorch uses it, and leaves its share of the gradient in 'grad', not in 'main_grad'"
                for node, name in zip((n for n in flat.graph.nodes if n.op == "placeholder"), self.names)
                if node in schedule.parameters & gradients and any(user in outside for user in node.users)
            ]
        used = {f.node for fs in feeds for f in fs} | {n for program in programs for n in program.given}
        self.before = _Before(
            flat,
            schedule,
            [n for n in flat.graph.nodes if n in used and schedule.is_before(n)],
            self.buffers,
        )
        self.first, *programs = programs
        self.parts = []
        for plan, own, program, (shared, begun) in zip(plans, feeds, programs, _sums(feeds)):
            made = making._replace(shared=shared, begun=begun)
            self.parts.append(_Part(flat, schedule, plan, own, program, self.before, gradients, made))
        self.rest = programs[-1].run
        #: Whether a call may be begun again.
        self._repeats = not schedule.writes_outside()
        for region in self.regions:
            region.refuse = self._refuse

    def _refuse(self, count: int) -> Optional[List[str]]:
        """None where so many layers more may stay in high precision, or where that would be all, why others do."""
        kept = [reason for region in self.regions for reason in region.kept.values()]
        layers = sum(len(region.function.layers()) for region in self.regions)
        return None if len(kept) + count < layers else kept

    @property
    def regions(self) -> List[Region]:
        """The compiled parts, in the order that they run in."""
        return [part.region for part in self.parts]

    @property
    def region(self) -> Optional[Region]:
        """The first of the compiled parts, or None."""
        return self.parts[0].region if self.parts else None

    def __call__(self, *tensors: torch.Tensor) -> Any:
        if not self.parts:
            return self.module(*tensors)
        try:
            return self._run(tensors)
        except OtherMask as found:
            self._import_again(found, tensors)
        return self(*tensors)

    def _import_again(self, found: OtherMask, tensors: Sequence[torch.Tensor]) -> None:
        """Imports the graph for other masks than it was; with strict, what is left to PyTorch for it is an error."""
        if not self._repeats:
            raise ArgumentError(
                f"{describe(found.origin)}: {found.reason} in this call, which was not so when its graph was compiled, "
                "and it cannot be begun again, as it writes to its inputs or buffers; torch.compiler.disable leaves a "
                "function to PyTorch"
            )
        # One that changes from call to call is anything.
        self.masks[found.mask] = OTHER if found.mask in self.masks else found.kind
        first = self.region.is_first_microbatch if self.region else None
        self._import(tensors)
        for region in self.regions:
            region.is_first_microbatch = first
        if self.reasons and self.options.strict:
            raise ImportFailure(self.reasons)
        if self.reasons:
            warnings.warn("te: parts of a graph stay in PyTorch:\n  " + "\n  ".join(self.reasons), stacklevel=2)

    def _run(self, tensors: Sequence[torch.Tensor]) -> Any:
        renewed, values = self.before(tensors)
        for part in self.parts:
            part.feeder.look(tensors, renewed, values)
        self.first.into(values, tensors)
        last = self.parts[-1]
        for part in self.parts:
            views = part(tensors, renewed, values)
            if part is not last:
                values.update(zip(part.nodes, views))
                part.program.into(values, tensors)
        return self.rest(*tensors, *views, *(values[node] for node in last.program.given))

    def reports(self, what: str, format: str) -> Dict[str, str]:
        """Reports of the compiled parts, by "part 0" and so on."""
        found: Dict[str, str] = {}
        for index, region in enumerate(self.regions):
            training = bool(region.wrt)
            region.load(training)  # Which settles its options.
            text = region.text(training)
            found[f"part {index}"] = report(text, "step", what, format, **region.options_for(training))
        return found

    def report(self, what: str = "precision", format: str = "text") -> str:
        """Reports of the compiled parts: precision, memory, constraints; all there is on one page as "html"."""
        if not self.parts:
            return "nothing of this graph is compiled\n"
        reports = self.reports(what, format)
        if format == "html":
            return one_page(reports, self.notes())
        if len(reports) == 1:
            return reports["part 0"]
        return "".join(f"{name}\n{text}" for name, text in reports.items())

    def notes(self) -> List[str]:
        """What is not compiled, or stays in high precision, and why."""
        kept = (reason for region in self.regions for reason in region.kept.values())
        return [
            *(f"stays in PyTorch: {reason}" for reason in self.reasons),
            *(f"stays in high precision: {reason}" for reason in kept),
        ]


def _strange(module: GraphModule, examples: Sequence[Any]) -> List[str]:
    """What no compiled part can take among the arguments of a graph, the first of each kind."""
    reasons: Dict[Any, str] = {}
    for example, name in zip(examples, capture.argument_names(module)):
        if isinstance(example, (int, float, torch.SymInt, torch.SymFloat)):
            reasons[int] = "a shape is not known when it is compiled; use torch.compile(..., dynamic=False)"
        elif not isinstance(example, torch.Tensor) or is_traceable_wrapper_subclass(example):
            kind = type(example)
            reasons.setdefault(kind, f"argument '{name}' is a {kind.__name__}, no tensor in memory")
    return list(reasons.values())


class Backend:
    """A backend for torch.compile, with the graphs that it compiled.

    Options are those of `te_mlir.compile`. strict: a graph, or a part of one, that
    cannot be imported is an error, as is a fall-back to higher precision.
    differentiate_outputs: "loss" takes gradients through the rank-0 results of a
    graph alone, where it has any; "all" through every result. cache_weights: casts of
    weights are kept while `is_first_microbatch` of this object is False. main_grad:
    gradients of parameters are added to their `main_grad`, float32, and `grad` stays
    None. cuda_graph: forward and backward are recorded once and replayed; results with
    dimensions are overwritten by the next call. Activations are computed again in the
    backward, as torch.compile does; remat="nothing" holds them.
    """

    def __init__(
        self,
        recipe: Optional[Recipe] = None,
        backward_override: Optional[str] = None,
        target: Optional[str] = None,
        strict: bool = False,
        differentiate_outputs: str = "loss",
        cache_weights: bool = False,
        main_grad: bool = False,
        cuda_graph: bool = False,
        **pipeline: Any,
    ) -> None:
        if differentiate_outputs not in ("loss", "all"):
            raise ValueError(
                f"expected 'differentiate_outputs' to be 'loss' or 'all', but got {differentiate_outputs!r}"
            )
        self.options = Options(
            recipe, backward_override, target, strict, cache_weights, main_grad, cuda_graph, tuple(pipeline.items())
        )
        self.strict, self.differentiate_outputs = strict, differentiate_outputs
        self._is_first_microbatch: Optional[bool] = True if cache_weights else None
        #: What was captured, in order.
        self.graphs: List[Graph] = []
        self.states = States()

    def __getstate__(self) -> Dict[str, Any]:
        # A copy compiles again; it has copies of the states.
        return {**self.__dict__, "graphs": []}

    def __call__(self, module: GraphModule, examples: List[Any]) -> Callable[..., Any]:
        reasons = _strange(module, examples)
        if reasons:
            if self.strict:
                raise ImportFailure(reasons)
            warnings.warn("te: a graph stays in PyTorch:\n  " + "\n  ".join(reasons), stacklevel=2)
            return module.forward
        graph = Graph(module, examples, self.options, self.differentiate_outputs, self.states)
        self.graphs.append(graph)
        for region in graph.regions:
            region.is_first_microbatch = self._is_first_microbatch
        if graph.reasons and self.strict:
            raise ImportFailure(graph.reasons)
        self._warn_of_limit()
        if graph.reasons:
            warnings.warn("te: parts of a graph stay in PyTorch:\n  " + "\n  ".join(graph.reasons), stacklevel=2)
        return graph

    def _warn_of_limit(self) -> None:
        """Tells that PyTorch is to run what comes next without te, as it does after so many shapes."""
        current = torch._guards.CompileContext.current_compile_id()
        limit = getattr(torch._dynamo.config, "recompile_limit", None)
        if current is not None and limit is not None and (current.frame_compile_id or 0) + 1 == limit:
            warnings.warn(
                f"te: a function was compiled {limit} times, which is torch._dynamo.config.recompile_limit; what does "
                "not fit one of these graphs runs in PyTorch alone. Pad inputs to fewer shapes, or raise the limit; "
                "models of one class count together until torch.compiler.reset()",
                stacklevel=2,
            )

    @property
    def is_first_microbatch(self) -> Optional[bool]:
        """What the next calls are.

        True, at first with cache_weights: they cast the weights, and begin the sums in
        main_grad anew. False: they use the casts of the call before, and add. None, at
        first without cache_weights: they cast, and add.
        """
        return self._is_first_microbatch

    @is_first_microbatch.setter
    def is_first_microbatch(self, value: Optional[bool]) -> None:
        if not self.options.cache_weights and not self.options.main_grad:
            raise ValueError(
                "expected 'cache_weights' or 'main_grad' for 'is_first_microbatch', but got a backend with neither"
            )
        if value is None and self.options.cache_weights:
            raise ValueError("expected 'is_first_microbatch' to be True or False with 'cache_weights', but got None")
        self._is_first_microbatch = value
        for region in (region for graph in self.graphs for region in graph.regions):
            region.is_first_microbatch = value

    @contextlib.contextmanager
    def microbatch(self, first: bool) -> Iterator[None]:
        """Calls in its block are of the first micro-batch of a step of the optimizer, or of a later one."""
        before = self._is_first_microbatch
        self.is_first_microbatch = first
        try:
            yield
        finally:
            self.is_first_microbatch = before

    def report(self, what: str = "precision", format: str = "text") -> str:
        """Reports of all graphs, and what stays in PyTorch; on one page as "html", where a part is compiled."""
        if not self.graphs:
            return (
                "no graph is compiled: the model was not called yet, or torch.compile runs it without te, as it does "
                "after its recompile_limit\n"
            )
        if format == "html" and any(graph.parts for graph in self.graphs):
            graphs = list(enumerate(self.graphs))
            pages = {f"graph {i}, {name}": page for i, g in graphs for name, page in g.reports(what, format).items()}
            return one_page(pages, [f"graph {i}: {note}" for i, graph in graphs for note in graph.notes()])
        parts = []
        for index, graph in enumerate(self.graphs):
            parts.append(f"graph {index}\n{graph.report(what, format)}")
            parts.extend(f"  {note}\n" for note in graph.notes())
        return "".join(parts)

    def state_dict(self) -> Dict[str, torch.Tensor]:
        """Copies of what recipes remember (histories, scales, random states), and of casts of weights that are kept.

        By the name of the layer, or the weight, in the model.
        """
        return self.states.values(casts=True)

    def load_state_dict(self, states: Mapping[str, torch.Tensor], strict: bool = True) -> None:
        """Sets what `state_dict` gave, before a first call or after; then calls go on as those of the saved model.

        strict: a name that no state of this model has, and one that is missing, is a
        KeyError. Raises ArgumentError for a tensor of another type or shape.
        """
        missing, unexpected = self.states.load(states, strict)
        if strict and missing:
            raise KeyError(f"expected a state '{missing[0]}', but got {sorted(states)}")
        if strict and unexpected:
            raise KeyError(
                f"expected states of the model's weights, <weight>.<x, w or dy>.<amax_history or scale>, but got "
                f"'{unexpected[0]}'"
            )


#: States of torch.compile's graphs, by the dict of options that it gives with each of them.
_states_of_options: "weakref.WeakValueDictionary[int, States]" = weakref.WeakValueDictionary()


def backend(module: GraphModule, examples: List[Any], **options: Any) -> Callable[..., Any]:
    """`torch.compile(model, backend="te", options={"recipe": ...})`."""
    given = options.get("options", options)
    made = Backend(**given)
    states = _states_of_options.get(id(given))
    if states is None:
        states = _states_of_options[id(given)] = made.states
        # Kept, so that no other dict gets its number.
        states.key = given
    made.states = states
    return made(module, examples)


class _Jitted(WithStates, torch._dynamo.eval_frame.OptimizedModule):
    """What `jit` gives of a module: it saves what recipes remember, and its copies compile again."""

    te: Backend
    _fullgraph: bool

    @property
    def _states(self) -> States:  # type: ignore[override]
        return self.te.states

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _compiled, (self._orig_mod, self.te, self._fullgraph)

    def __deepcopy__(self, memo: Any) -> Any:
        return _compiled(copy.deepcopy(self._orig_mod, memo), copy.deepcopy(self.te, memo), self._fullgraph)


def _compiled(module: Any, te: Backend, fullgraph: bool) -> Any:
    compiled: Any = torch.compile(module, backend=te, dynamic=False, fullgraph=fullgraph)
    if isinstance(compiled, torch._dynamo.eval_frame.OptimizedModule):
        te.states.belong_to(module)
        compiled.__class__ = _Jitted
        # Not attributes of the module inside.
        object.__setattr__(compiled, "te", te)
        object.__setattr__(compiled, "_fullgraph", fullgraph)
    else:
        compiled.te = te
    return compiled


def jit(module: Any, *, fullgraph: Optional[bool] = None, **options: Any) -> Any:
    """`module` compiled by te: what torch.compile gives, with the Backend as `te`.

    options: those of Backend. fullgraph: whether a graph break is an error; with
    strict it is.

        model = te_mlir.torch.jit(model, recipe=te_mlir.Float8CurrentScaling(), strict=True)
        model(tokens).backward()
        print(model.te.report("precision"))
    """
    te = Backend(**options)
    return _compiled(module, te, te.strict if fullgraph is None else fullgraph)


def _register() -> None:
    from torch._dynamo import register_backend

    if "te" not in torch._dynamo.list_backends(exclude_tags=()):
        register_backend(backend, name="te")


_register()
