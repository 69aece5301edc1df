"""Builds the parts of a planned graph: compiled regions, their feeds, and the code that PyTorch runs around them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.fx import Node

from te_mlir.torch import dropouts, varlen
from te_mlir.torch.arguments import FIXED, Feed, fake
from te_mlir.torch.capture import Captured
from te_mlir.torch.cuts import Cut, whole
from te_mlir.torch.eager import Before, Eager, Feeder, eager_of
from te_mlir.torch.plan import Exit, Plan, Planned, feeds_of, sums_of, view_of
from te_mlir.torch.runner import Region
from te_mlir.torch.signature import Options
from te_mlir.torch.states import States
from te_mlir.torch.tensors import Spec


class Making(NamedTuple):
    """The options for building the regions of a graph."""

    options: Options
    differentiate_outputs: str
    states: States


@dataclass(frozen=True)
class Leaving:
    """How a node leaves its region: as a view of a result.

    copied: if PyTorch writes to it, a key for the nodes that share its memory; these share one
    copy, and the region's own result does not change. dense: whether it must be without gaps,
    because code outside of the graph may rely on that.
    """

    exit: Exit
    copied: tuple[Any, ...] | None
    dense: bool


@dataclass(frozen=True)
class Part:
    """A region, what feeds it, and the program that follows it.

    nodes: the nodes that leave it, whose tensors a call returns. plain: the region's results that
    leave it, if all of them leave unchanged, such as a loss.
    """

    region: Region
    feeder: Feeder
    eager: Eager
    nodes: list[Node]
    leaving: list[Leaving]
    plain: list[int] | None

    def __call__(
        self, tensors: Sequence[torch.Tensor], renewed: bool, values: dict[Node, torch.Tensor]
    ) -> list[torch.Tensor]:
        self.region.names.belong_to(self.feeder.owners(tensors))
        results = self.region(*self.feeder(tensors, renewed, values))
        if self.plain is not None:
            return [results[i] for i in self.plain]
        copies: dict[tuple[Any, ...], torch.Tensor] = {}
        views = []
        for leaving in self.leaving:
            result, key = results[leaving.exit.result], leaving.copied
            if key is not None:
                if key not in copies:
                    copies[key] = result.clone()
                result = copies[key]
            view = view_of(result, leaving.exit)
            views.append(view.contiguous() if leaving.dense else view)
        return views


@dataclass(frozen=True)
class Built:
    """What a call of a graph runs, in order.

    before: the nodes before the first region that depend on nothing compiled. first: the nodes
    that PyTorch runs next. rest: the nodes that it runs after the last part. repeats: whether a
    call can be started again. generators: those that a call which may be started again draws from.
    reasons: the gradients of parameters that PyTorch computes.
    """

    before: Before
    first: Eager
    parts: list[Part]
    rest: Callable[..., Any]
    repeats: bool
    generators: dropouts.Generators
    reasons: tuple[str, ...]

    def run(self, tensors: Sequence[torch.Tensor]) -> Any:
        renewed, values = self.before(tensors)
        parts = self.parts
        for part in parts:
            part.feeder.look(tensors, renewed, values)
        self.first.into(values, tensors)
        last = parts[-1]
        for part in parts:
            views = part(tensors, renewed, values)
            if part is not last:
                values.update(zip(part.nodes, views))
                part.eager.into(values, tensors)
        return self.rest(*tensors, *views, *(values[node] for node in last.eager.given))


def build(captured: Captured, planned: Planned, making: Making, buffers: Sequence[bool]) -> Built:
    """Builds the parts of a graph. buffers: which of its arguments are buffers of the model."""
    flat, schedule, gradients = captured.flat, captured.schedule, captured.gradients
    plans = planned.regions
    inside = set().union(*(plan.inside for plan in plans))
    dropouts.take_back(flat.graph, inside)
    varlen.take_back(flat.graph, inside)
    feeds = [feeds_of(plan, captured) for plan in plans]
    cuts_of = [[Cut(index) for index in range(len(own))] for own in feeds]
    if not (making.options.main_grad or making.options.cache_weights):
        joined = [whole(own, captured.names) for own in feeds]
        feeds, cuts_of = [given for given, _ in joined], [cuts for _, cuts in joined]
    eager = eager_of(flat, schedule, plans, feeds)
    used = {f.node for fs in feeds for f in fs} | {n for one in eager for n in one.given}
    before = Before(flat, schedule, [n for n in flat.graph.nodes if n in used and schedule.is_before(n)], buffers)
    outside = {n for one in eager for n in one.nodes if n in gradients}
    left = (
        f"{captured.names[node]}: PyTorch uses it, and leaves its share of the gradient in 'grad', not in 'main_grad'"
        for node in captured.arguments
        if node in schedule.parameters & gradients and any(user in outside for user in node.users)
    )
    first, *following = eager
    parts = []
    for plan, own, cuts, behind, (shared, begun) in zip(plans, feeds, cuts_of, following, sums_of(feeds)):
        inputs, outputs = _inputs(own, cuts, gradients), _outputs(plan, gradients, making.differentiate_outputs)
        (device,) = captured.devices
        region = Region(
            plan.importer.function, inputs, outputs, device, making.options, making.states, shared, begun, cuts
        )
        leaving = _leaving(captured, plan)
        plain = [one.exit.result for one in leaving] if all(_is_plain(one, outputs) for one in leaving) else None
        nodes = [exit.node for exit in plan.exits]
        parts.append(Part(region, Feeder(flat, own, before), behind, nodes, leaving, plain))
    reasons = tuple(left) if making.options.main_grad else ()
    repeats = not schedule.writes_outside()
    compares = any(part.feeder.compared for part in parts)
    generators = dropouts.Generators(flat.graph.nodes if repeats and compares else ())
    return Built(before, first, parts, following[-1].run, repeats, generators, reasons)


def _inputs(feeds: Sequence[Feed], cuts: Sequence[Cut], gradients: set[Node]) -> list[Spec]:
    """The arguments of a region."""
    parts = [tuple(cut.part for cut in cuts if cut.place == i and cut.part is not None) for i in range(len(feeds))]
    return [
        Spec(
            f.name,
            f.shape,
            f.dtype,
            f.weight,
            f.node in gradients and f.dtype.is_floating_point and f.key != FIXED,
            f.part,
            own,
        )
        for f, own in zip(feeds, parts)
    ]


def _outputs(plan: Plan, gradients: set[Node], differentiate_outputs: str) -> list[Spec]:
    """The results of a region; of a loss and its logits, only the loss is differentiated."""
    results = plan.importer.function.results
    going_on = {
        exit.result
        for exit in plan.exits
        if any(user in gradients and user not in plan.inside for user in exit.node.users)
    }
    passing = {exit.result for exit in plan.exits if exit.node in gradients}
    losses = {index for index, (value, _) in enumerate(results) if not value.shape and index in passing}
    outputs = []
    for index, (value, _) in enumerate(results):
        through = differentiate_outputs == "all" or not losses or index in losses or index in going_on
        # If a node leaves in row-major order, the result has its shape: on a view, hooks and in-place writes would not work.
        rows = (e.shape for e in plan.exits if e.result == index and e.layout.is_row_major(math.prod(value.shape)))
        shape = next(rows, value.shape)
        given = Spec(f"result{index}", shape, getattr(torch, value.dtype), constant=index not in passing)
        outputs.append(given._replace(differentiable=through and not given.constant))
    return outputs


def _leaving(captured: Captured, plan: Plan) -> list[Leaving]:
    """How the exits of a region leave it.

    If PyTorch writes to a result, the region's own result does not change, and nodes that share memory in the graph
    share a copy. Nodes that do not share memory in the graph, such as a result and its clone, get separate memory,
    because the caller may write to either.
    """
    effects, written = captured.schedule.effects, captured.schedule.written_after(plan.time)
    output = next(n for n in captured.flat.graph.nodes if n.op == "output")
    returned: set[Any] = set().union(*(effects.own(n) for n in output.all_input_nodes))
    first = {e.result: effects.own(e.node) for e in reversed(plan.exits)}
    found = []
    for exit in plan.exits:
        own = effects.own(exit.node)
        memory = own & (written if own == first[exit.result] else written | returned)
        tensor = fake(exit.node)
        dense = tensor.is_contiguous() and not exit.layout.is_row_major(tensor.numel()) and not memory & written
        found.append(Leaving(exit, (exit.result, *memory) if memory else None, dense))
    return found


def _is_plain(leaving: Leaving, outputs: Sequence[Spec]) -> bool:
    """Whether a node is an unchanged result of its region."""
    exit = leaving.exit
    return (
        leaving.copied is None
        and not leaving.dense
        and exit.layout.is_row_major(math.prod(exit.shape))
        and outputs[exit.result].shape == exit.shape
    )
