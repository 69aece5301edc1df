"""Traces a graph of torch.compile to ATen ops, and schedules its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.fx import GraphModule, Node

from te_mlir.torch import casts, patterns, varlen
from te_mlir.torch import graph as graphs
from te_mlir.torch.adapter import imports
from te_mlir.torch.complexes import as_pairs
from te_mlir.torch.dropouts import give_states
from te_mlir.torch.effects import Effects, frozen_nodes, same_tensors, without_plain_writes, written_nodes
from te_mlir.torch.experts import as_experts, is_empty, is_product
from te_mlir.torch.formulas import is_composed, with_formulas
from te_mlir.torch.fused import cut_layers
from te_mlir.torch.indexing import as_lookups
from te_mlir.torch.limits import without_idle_limits
from te_mlir.torch.mask_terms import find_terms
from te_mlir.torch.owners import owner_of
from te_mlir.torch.partition import Schedule, dependents, ignored, passing, refusal, untraceable, wanting
from te_mlir.torch.writes import without_view_writes


@dataclass(frozen=True)
class Captured:
    """A traced graph, from which `plan` chooses the regions.

    flat: the graph. names: the names of its arguments. schedule: where each node runs. gradients: the
    nodes that have gradients. devices: the devices of its arguments. ignored: one line for each
    kind of call that has no effect. is_empty: whether layers of experts have no rows in this graph.
    """

    flat: GraphModule
    names: dict[Node, str]
    schedule: Schedule
    gradients: set[Node]
    devices: frozenset[torch.device]
    ignored: tuple[str, ...]
    is_empty: bool

    @property
    def arguments(self) -> list[Node]:
        return [node for node in self.flat.graph.nodes if node.op == "placeholder"]


def capture(tracing: graphs.Tracing, examples: Sequence[torch.Tensor], names: Sequence[str]) -> Captured | str:
    """The traced graph; or, if all of it stays in PyTorch, the reason. names: the names of the arguments."""
    module = tracing.module
    refused = untraceable(module)
    if refused is not None:
        return refused
    try:
        flat = tracing(examples)
    except Exception as error:  # A graph that cannot be traced stays in PyTorch.
        reason = str(error)
        return f"the graph cannot be traced: {reason.splitlines()[0] if reason else type(error)}"
    refused = refusal(module, flat)
    if refused is not None:
        return refused
    casts.without_idle_blocks(flat.graph)
    same_tensors(flat.graph)
    graphs.without_templates(flat.graph)
    graphs.without_broadcasts(flat.graph)
    placeholders = [n for n in flat.graph.nodes if n.op == "placeholder"]
    parameters = {
        node
        for node, example in zip(placeholders, examples)
        if isinstance(owner_of(example), torch.nn.Parameter) and example.is_contiguous() and not example.data_ptr() % 16
    }
    owned = list(zip(placeholders, map(owner_of, examples)))
    leaves = {n for n, e in owned if e.is_leaf and e.requires_grad and not e._is_view()}
    casts.insert_casts(flat.graph, lambda node: imports(node) or is_composed(node), leaves)
    wanted = {node for node, example in zip(placeholders, examples) if example.requires_grad}
    roots = parameters | wanted
    _without_writes(flat.graph, examples, dependents(flat.graph, roots))
    as_experts(flat.graph, dependents(flat.graph, roots), written_nodes(flat.graph, examples))
    with_formulas(flat, dependents(flat.graph, roots), written_nodes(flat.graph, examples))
    as_lookups(flat, dependents(flat.graph, roots), written_nodes(flat.graph, examples))
    as_pairs(flat.graph, dependents(flat.graph, roots))
    patterns.set_apart(frozen_nodes(flat.graph) & dependents(flat.graph, wanted))
    cut_layers(flat.graph, parameters, written_nodes(flat.graph, examples))
    graphs.merge_equal(flat.graph, dependents(flat.graph, roots))
    give_states(flat.graph)
    varlen.give_boundaries(flat.graph)
    find_terms(flat, dependents(flat.graph, roots), written_nodes(flat.graph, examples))
    schedule = Schedule(flat.graph, roots, parameters, examples)
    gradients = wanting(flat.graph, schedule.frozen, wanted, schedule.effects)
    return Captured(
        flat,
        dict(zip(placeholders, names)),
        schedule,
        passing(flat.graph, gradients, schedule.effects),
        frozenset(example.device for example in examples),
        tuple(ignored(module)),
        any(map(is_empty, flat.graph.nodes)),
    )


def _without_writes(graph: torch.fx.Graph, examples: Sequence[torch.Tensor], dependent: set[Node]) -> None:
    without_idle_limits(graph)
    effects = Effects(graph, examples)
    if without_view_writes(graph, effects, dependent):
        effects = Effects(graph, examples)
    if without_plain_writes(graph, effects):
        # Values that were written but never read are now dead code.
        graph.eliminate_dead_code()


def with_experts(flat: GraphModule, examples: Sequence[torch.Tensor]) -> None:
    """Rewrites mixtures of experts in a traced graph, before its padding is proved: the order of rows depends on it.

    Under autocast, the types of values are not those of the trace, and nothing is rewritten.
    """
    graph = flat.graph
    devices = {example.device.type for example in examples}
    if (
        not any(map(is_product, graph.nodes))
        or any(map(casts.enabled, devices))
        or any(map(casts.is_mode, graph.nodes))
    ):
        return
    graphs.without_templates(graph)
    _without_writes(graph, examples, set(graph.nodes))
    as_experts(graph, set(graph.nodes), written_nodes(graph, examples))
