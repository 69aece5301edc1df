"""Graphs whose sizes are symbols, as torch.compile captures them from the second shape on, unless dynamic=False."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

#: A warning follows after this many sets of sizes.
_MANY = 32
#: Calls without gradients are compiled for this many sets. `generate` has another set for each token.
_WITHOUT_GRADIENTS = 8


def is_size(example: Any) -> bool:
    """Whether an argument of a graph is an integer, such as a size of other arguments."""
    return isinstance(example, (int, torch.SymInt))


class Specialised:
    """A graph with integers as arguments: it is compiled for each set of integers, at its first call.

    sizes: the places of the integers among the arguments. make: compiles a graph without them. leave: runs a call
    without gradients in PyTorch, for a reason, if there are too many sets; None if such calls are compiled, too.
    """

    def __init__(
        self,
        module: GraphModule,
        sizes: Sequence[int],
        make: Callable[[GraphModule, list[torch.Tensor]], Callable[..., Any]],
        leave: Callable[[str, Sequence[Any]], Any] | None,
    ) -> None:
        self.module, self.make, self.leave = module, make, leave
        self.limit = None if leave is None or torch.is_grad_enabled() else _WITHOUT_GRADIENTS
        self.sizes = frozenset(sizes)
        self.compiled: dict[tuple[int, ...], Callable[..., Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        sizes = tuple(int(arguments[i]) for i in sorted(self.sizes))
        tensors = [argument for i, argument in enumerate(arguments) if i not in self.sizes]
        if sizes not in self.compiled:
            if self.leave is not None and len(self.compiled) == self.limit:
                return self.leave(f"calls without gradients have more than {self.limit} sets of sizes", arguments)
            self.compiled[sizes] = self.make(self._with(sizes), tensors)
            if len(self.compiled) == _MANY:
                warnings.warn(
                    f"te: a graph was compiled for {_MANY} sets of sizes or other integers, {sizes} the last; pad inputs to "
                    "fewer shapes, and pass numbers that change in each call as tensors",
                    stacklevel=2,
                )
        return self.compiled[sizes](*tensors)

    def _with(self, sizes: Sequence[int]) -> GraphModule:
        """The graph with numbers for its integers."""
        placeholders = [node for node in self.module.graph.nodes if node.op == "placeholder"]
        values: dict[Any, Any] = dict(zip((placeholders[i] for i in sorted(self.sizes)), sizes))
        graph = torch.fx.Graph()
        graph.output(graph.graph_copy(self.module.graph, values))
        return GraphModule(self.module, graph)
