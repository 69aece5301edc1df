"""The symbols of the sizes of a graph, as torch.compile captures it from the second shape on, unless dynamic=False."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Node

from te_mlir.torch.capacities import Capacities


def is_size(example: Any) -> bool:
    """Whether an argument of a graph is an integer, such as a size of other arguments."""
    return isinstance(example, (int, torch.SymInt))


class Group(NamedTuple):
    """Sizes that have one value in a call, by their places, and the capacity that they are rounded up to."""

    members: tuple[int, ...]
    capacity: int

    def of(self, size: int) -> Group:
        """The same sizes with another capacity."""
        return self._replace(capacity=size)


def rounded(sizes: Sequence[int], groups: Sequence[Group]) -> tuple[int, ...]:
    """The sizes with the capacities of groups."""
    found = list(sizes)
    for group in groups:
        for member in group.members:
            found[member] = group.capacity
    return tuple(found)


class Symbols:
    """The symbols of a graph's sizes, and what torch.compile knows of them.

    places: the places of the integers among the arguments. fixed: those that are not rounded up.
    """

    def __init__(self, module: GraphModule, places: Sequence[int], fixed: Collection[int]) -> None:
        nodes = [node for node in module.graph.nodes if node.op == "placeholder"]
        values = [node.meta.get("example_value") for node in nodes]
        self.symbols = [_symbol(values[i]) for i in places]
        self.fixed = {self.symbols[k] for k, i in enumerate(places) if i in fixed}
        tensors = [value for i, value in enumerate(values) if i not in places]
        #: For each tensor, the symbols of its axes; None where the size is no symbol.
        self.axes = [[_symbol(size) for size in t.shape] if isinstance(t, torch.Tensor) else [] for t in tensors]
        environment = next((v.node.shape_env for v in values if isinstance(v, torch.SymInt)), None)
        self.guards = [environment.replace(guard.expr) for guard in environment.guards] if environment else []
        self.ranges = dict(environment.var_to_range) if environment else {}
        #: Symbols that are not rounded up, and why.
        self.exact: dict[Any, str] = {}
        for node in module.graph.nodes:
            value = node.meta.get("example_value")
            for size in value.shape if isinstance(value, torch.Tensor) else [value]:
                self._look(node, size)

    def _look(self, node: Node, size: Any) -> None:
        """Finds symbols in sizes that are no polynomials, and in sizes of arguments that are more than a symbol."""
        expression = size.node.expr if isinstance(size, torch.SymInt) else None
        if expression is None:
            return
        free = expression.free_symbols
        if not expression.is_polynomial(*free) or (node.op == "placeholder" and not expression.is_Symbol):
            self.exact.update(dict.fromkeys(free, f"'{node.name}' has a size of {expression}"))

    def groups(self, sizes: tuple[int, ...], capacities: Capacities) -> list[Group]:
        """The sizes of tensors in a call; those with one value together."""
        used = {symbol for own in self.axes for symbol in own if symbol is not None} - self.fixed
        by_value: dict[int, list[int]] = {}
        for place, size in enumerate(sizes):
            if self.symbols[place] in used:
                by_value.setdefault(size, []).append(place)
        return [Group(tuple(members), capacities.of(size)) for size, members in by_value.items()]

    def refusal(self, group: Group, sizes: tuple[int, ...]) -> str | None:
        """Why the sizes of a group may not be rounded up."""
        for member in group.members:
            if self.symbols[member] in self.exact:
                return self.exact[self.symbols[member]]
        if not self.allow(rounded(sizes, [group])):
            return f"torch.compile captured the graph for sizes that do not include {group.capacity}"
        return None

    def allow(self, sizes: Sequence[int]) -> bool:
        """Whether torch.compile captured the graph for these sizes, too."""
        values = {s: v for s, v in zip(self.symbols, sizes) if s is not None}
        inside = all(self.ranges[s].lower <= v <= self.ranges[s].upper for s, v in values.items() if s in self.ranges)
        return inside and all(bool(guard.subs(values) == True) for guard in self.guards)  # noqa: E712

    def axes_of(self, tensor: int, groups: Sequence[Group]) -> dict[int, int]:
        """The axes of a tensor that are padded, and the index of the group of each."""
        owners = {self.symbols[member]: index for index, group in enumerate(groups) for member in group.members}
        return {axis: owners[symbol] for axis, symbol in enumerate(self.axes[tensor]) if symbol in owners}


def _symbol(size: Any) -> Any:
    """The symbol of a size; None for a number or another expression."""
    expression = size.node.expr if isinstance(size, torch.SymInt) else None
    return expression if expression is not None and expression.is_Symbol else None
