"""Compiles a graph whose sizes are symbols for few sets of sizes.

The sizes of a call are rounded up to capacities where `proof` shows that padding changes no result, and are compiled as
they are otherwise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Node

from te_mlir.torch import graph as graphs
from te_mlir.torch.capacities import Capacities
from te_mlir.torch.capture import with_experts
from te_mlir.torch.facts import whole
from te_mlir.torch.padding import Cut, Fill, cut, cuts_of, fact_of, filled, fills_of, repair
from te_mlir.torch.proof import Repair, Unprovable
from te_mlir.torch.proof_rules import labels_of, prove
from te_mlir.torch.symbols import Group, Symbols, is_size, rounded

#: A warning follows after this many sets of sizes.
_MANY = 32
#: Calls without gradients are compiled for this many sets. `generate` has another set for each token.
_WITHOUT_GRADIENTS = 8


class Sizing(NamedTuple):
    """How graphs with sizes as arguments are compiled.

    make: compiles a graph without them. leave: runs a call without gradients in PyTorch, for a reason, if there are too
    many sets of sizes; None if such calls are compiled, too. capacities: what sizes are rounded up to. scaled: as for
    `prove`. note: is called with the reason why sizes are not rounded up.
    """

    make: Callable[[graphs.Tracing, list[torch.Tensor]], Callable[..., Any]]
    leave: Callable[[str, Sequence[Any]], Any] | None
    capacities: Capacities
    scaled: bool
    note: Callable[[str], None]


class Program(NamedTuple):
    """A graph for the capacities of groups.

    tables: for each group, `capacity` times True, then as often False. fills, cuts: how each argument is padded, and each
    result cut. same: by the index of a result, the index of the argument that it is.
    """

    run: Callable[..., Any]
    groups: tuple[Group, ...] = ()
    tables: Sequence[torch.Tensor] = ()
    fills: Sequence[Sequence[Fill]] = ()
    cuts: Sequence[Sequence[Cut]] = ()
    same: Mapping[int, int] = {}

    def __call__(self, sizes: Sequence[int], tensors: Sequence[torch.Tensor]) -> Any:
        if not self.groups:
            return self.run(*tensors)
        missing = [group.capacity - sizes[group.members[0]] for group in self.groups]
        used = [table.narrow(0, less, len(table) // 2) for table, less in zip(self.tables, missing)]
        results = list(self.run(*map(filled, tensors, self.fills), *used))
        for index, argument in self.same.items():
            results[index] = tensors[argument]
        return tuple(cut(result, cuts, missing) if cuts else result for result, cuts in zip(results, self.cuts))


class _Refused(Exception):
    """Why the sizes of a group are not rounded up."""

    def __init__(self, group: Group, reason: str) -> None:
        super().__init__(reason)
        self.group = group


class Specialised:
    """A graph with integers as arguments. places: where they are. fixed: those that are not rounded up."""

    def __init__(self, module: GraphModule, places: Sequence[int], sizing: Sizing, fixed: Collection[int] = ()) -> None:
        self.module, self.sizing, self.places = module, sizing, sorted(places)
        self.limit = None if sizing.leave is None or torch.is_grad_enabled() else _WITHOUT_GRADIENTS
        self.symbols = Symbols(module, self.places, fixed)
        #: Programs by the sizes of calls, and by their own sizes.
        self.known: dict[tuple[int, ...], Program] = {}
        self.programs: dict[Any, Program] = {}
        #: The groups that may not be rounded up.
        self.exact: set[Group] = set()

    def __call__(self, *arguments: Any) -> Any:
        sizes = tuple(int(arguments[i]) for i in self.places)
        tensors = [argument for argument in arguments if not is_size(argument)]
        if sizes not in self.known:
            program = self._program(sizes, tensors)
            if program is None:
                assert self.sizing.leave is not None, "there is a limit only if calls may be left"
                reason = f"calls without gradients have more than {self.limit} sets of sizes"
                return self.sizing.leave(reason, arguments)
            self.known[sizes] = program
        return self.known[sizes](sizes, tensors)

    def _program(self, sizes: tuple[int, ...], tensors: list[torch.Tensor]) -> Program | None:
        """The program for sizes; None if there are too many programs."""
        while True:
            groups = [g for g in self.symbols.groups(sizes, self.sizing.capacities) if self._may_round(g, sizes)]
            key = (rounded(sizes, groups), *groups)
            if key in self.programs:
                return self.programs[key]
            if len(self.programs) == self.limit:
                return None
            try:
                self.programs[key] = self._compiled(groups, sizes, tensors)
            except _Refused as refused:
                self._keep_exact(refused.group, str(refused))
                continue
            if len(self.programs) == _MANY:
                warnings.warn(
                    f"te: a graph was compiled for {_MANY} sets of sizes or other integers, {sizes} the last; pad inputs to "
                    "fewer shapes, and pass numbers that change in each call as tensors",
                    stacklevel=2,
                )
            return self.programs[key]

    def _may_round(self, group: Group, sizes: tuple[int, ...]) -> bool:
        """Whether the sizes of a group are rounded up, as far as is known before the graph is traced."""
        if group in self.exact:
            return False
        reason = self.symbols.refusal(group, sizes)
        if reason is not None:
            self._keep_exact(group, reason)
        return reason is None and self._smaller(group, sizes) is not None

    def _keep_exact(self, group: Group, reason: str) -> None:
        self.exact.add(group)
        self.sizing.note(reason)

    def _smaller(self, group: Group, sizes: tuple[int, ...]) -> int | None:
        """A size below the capacity, with which the graph is compared; None if torch.compile captured it for none."""
        own = sizes[group.members[0]]
        found = own if own < group.capacity else group.capacity - 1
        return found if found > 1 and self.symbols.allow(rounded(sizes, [group.of(found)])) else None

    def _compiled(self, groups: Sequence[Group], sizes: tuple[int, ...], tensors: list[torch.Tensor]) -> Program:
        full = rounded(sizes, groups)
        module = self._with(full, len(groups))
        if not groups:
            return Program(self.sizing.make(graphs.Tracing(module), tensors))
        axes = [self.symbols.axes_of(i, groups) for i in range(len(tensors))]
        device = next(t.device for t, own in zip(tensors, axes) if own)
        # The masks may be saved for a backward later on.
        with torch.inference_mode(False):
            tables = [(torch.arange(2 * group.capacity, device=device) < group.capacity) for group in groups]
        used = [table[: len(table) // 2] for table in tables]
        examples = [Like.of(t, {a: groups[g].capacity for a, g in own.items()}) for t, own in zip(tensors, axes)]
        try:
            flat = self._traced(module, [*examples, *used])
        except Exception as error:  # The model cannot take this size; for example, its table of positions is shorter.
            raise _Refused(groups[-1], f"the graph cannot be traced for sizes of {full}: {error}") from error
        arguments = [n for n in flat.graph.nodes if n.op == "placeholder"]
        labels = {arguments.index(node): label for node, label in labels_of(flat).items()}
        fills = [
            fills_of(t.dtype, {a: groups[g].capacity for a, g in own.items()}, labels.get(i))
            for i, (t, own) in enumerate(zip(tensors, axes))
        ]
        (results,) = next(n for n in flat.graph.nodes if n.op == "output").args
        cuts: list[list[Cut]] = [[] for _ in results]  # type: ignore[union-attr]
        repairs: list[tuple[Repair, int]] = []
        for index, group in enumerate(groups):
            small = self._smaller(group, sizes)
            assert small is not None, "other groups are not rounded up"
            parts = [Like.of(e, {a: small for a, g in own.items() if g == index}) for e, own in zip(examples, axes)]
            facts = [fact_of(part.shape, f) for part, f in zip(parts, fills)]
            known = [*facts, *(whole(mask.shape) for mask in used)]
            less = self._with(rounded(full, [group.of(small)]), len(groups))
            try:
                other = self._traced(less, [*parts, *used])
                proof = prove(flat, other, known, group.capacity - small, self.sizing.scaled)
            except Exception as error:  # A proof that fails for any reason is none.
                reason = str(error) if isinstance(error, Unprovable) else f"{type(error).__name__}: {error}"
                raise _Refused(group, reason) from error
            for fact, own_cuts in zip(proof.results, cuts):
                own_cuts += cuts_of(fact, index) if fact is not None else []
            repairs += [(one, index) for one in proof.repairs]
        named = [(one, one.user.name, one.source.name, index) for one, index in repairs]

        def edit(again: GraphModule) -> None:
            nodes: dict[str, Node] = {n.name: n for n in again.graph.nodes}
            masks = [n for n in again.graph.nodes if n.op == "placeholder"][-len(groups) :]
            repair(again, [(one._replace(user=nodes[u], source=nodes[s]), masks[i]) for one, u, s, i in named])

        run = self.sizing.make(graphs.Tracing(module, edit, flat), [*map(filled, tensors, fills), *used])
        same = {i: arguments.index(n) for i, n in enumerate(results) if n in arguments}  # type: ignore[arg-type]
        return Program(run, tuple(groups), tables, fills, cuts, same)

    def _traced(self, module: GraphModule, examples: Sequence[Any]) -> GraphModule:
        flat = graphs.flatten(module, examples)
        with_experts(flat, examples)
        return flat

    def _with(self, sizes: Sequence[int], count: int) -> GraphModule:
        """The graph with numbers for its integers, and `count` more arguments: the masks of used elements."""
        placeholders = [node for node in self.module.graph.nodes if node.op == "placeholder"]
        values: dict[Any, Any] = dict(zip((placeholders[i] for i in self.places), sizes))
        graph = torch.fx.Graph()
        output = graph.graph_copy(self.module.graph, values)
        last = [node for node in graph.nodes if node.op == "placeholder"][-1:]
        for index in reversed(range(count)):
            with graph.inserting_after(*last):
                graph.placeholder(f"te_used_{index}")
        graph.output(output)
        return GraphModule(self.module, graph)


class Like:
    """The form of a dense tensor, without its memory."""

    def __init__(self, shape: Sequence[int], like: Any) -> None:
        self.shape, self.dtype, self.device = tuple(shape), like.dtype, like.device
        self.requires_grad: bool = like.requires_grad

    @staticmethod
    def of(tensor: Any, sizes: Mapping[int, int]) -> Any:
        """A tensor, or its form if some of its sizes are others."""
        return Like([sizes.get(axis, size) for axis, size in enumerate(tensor.shape)], tensor) if sizes else tensor

    def untyped_storage(self) -> Any:
        raise NotImplementedError("it has no memory")

    def stride(self) -> tuple[int, ...]:
        return torch.empty(self.shape, device="meta").stride()
