"""Calls a torch.autograd.Function in a graph of dynamo as one op, so that tracing the graph does not lose its backward.

The op stays in PyTorch, which runs the Function's own backward; what is before and behind it is compiled.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

#: What dynamo calls for a torch.autograd.Function.
APPLY = torch.ops.higher_order.autograd_function_apply

#: The key of the calls of a traced graph in its `meta`.
CALLS = "te_calls"


class Call:
    """A call of a torch.autograd.Function, with those of its arguments that are no tensors.

    where: the line of the program that calls it, as `, at model.py:12`. is_pure: whether it draws no random numbers and
    writes to no operand, as far as it was run.
    """

    def __init__(self, where: str, arguments: Sequence[Any], options: dict[str, Any]) -> None:
        self.where, self.options, self.is_pure = where, options, not options.get("dirty_idx")
        leaves, self._spec = pytree.tree_flatten(list(arguments))
        self._given = {i: leaf for i, leaf in enumerate(leaves) if not isinstance(leaf, Tensor)}
        self._made: tuple[pytree.TreeSpec, dict[int, Any]] | None = None

    def __call__(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The tensors among the results, for the tensors among the arguments."""
        arguments = _filled(self._spec, self._given, tensors)
        if self._made is not None:
            return _tensors(APPLY(*arguments, **self.options))
        with _Watch(tensors) as watch:
            results = APPLY(*arguments, **self.options)
        self.is_pure &= watch.is_pure
        leaves, spec = pytree.tree_flatten(results)
        self._made = spec, {i: leaf for i, leaf in enumerate(leaves) if not isinstance(leaf, Tensor)}
        return _tensors(results)

    def results(self, tensors: Sequence[Tensor]) -> Any:
        """All results, of which `tensors` are the tensors."""
        assert self._made is not None, "the call was made"
        return _filled(*self._made, tensors)


class _Watch(TorchDispatchMode):
    """Notes random numbers, and writes to `tensors`."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        super().__init__()
        self._memory, self.is_pure = {_memory(t) for t in tensors}, True

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        written = [a.alias_info is not None and a.alias_info.is_write for a in function._schema.arguments]
        operands = [t for argument, is_written in zip(args, written) if is_written for t in _tensors(argument)]
        draws = torch.Tag.nondeterministic_seeded in function.tags
        if draws or any(_memory(t) in self._memory for t in operands):
            self.is_pure = False
        return function(*args, **(kwargs or {}))


def _memory(tensor: Tensor) -> Any:
    return tensor.untyped_storage()._cdata


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def _filled(spec: pytree.TreeSpec, others: dict[int, Any], tensors: Sequence[Tensor]) -> Any:
    given = iter(tensors)
    leaves = [others[i] if i in others else next(given) for i in range(spec.num_leaves)]
    return pytree.tree_unflatten(leaves, spec)


#: The calls of traced graphs, by number, as long as their graphs exist.
_calls: weakref.WeakValueDictionary[int, Call] = weakref.WeakValueDictionary()
_numbers = itertools.count()

_library = torch.library.Library("te_mlir_torch", "DEF")
_library.define("autograd_function(Tensor[] tensors, int number) -> Tensor[]")
# PyTorch differentiates what this runs. Tracing records the op before that.
_library.impl("autograd_function", lambda tensors, number: _calls[number](tensors), "CompositeImplicitAutograd")
OP = torch.ops.te_mlir_torch.autograd_function.default


class Calls:
    """The calls of torch.autograd.Functions in a graph that is traced, with the nodes of dynamo that make them."""

    def __init__(self) -> None:
        self._all: list[tuple[Node, Call]] = []

    def __call__(self, node: Node, where: str, arguments: Sequence[Any], options: dict[str, Any]) -> Any:
        """The results of the call that `node` makes."""
        call, number = Call(where, arguments, options), next(_numbers)
        _calls[number] = call
        self._all.append((node, call))
        return call.results(OP(_tensors(list(arguments)), number))

    def are_all_of(self, module: GraphModule) -> bool:
        """Whether all calls in the graphs of a module are ops, and have no side effects."""
        graphs = [part.graph for part in module.modules() if isinstance(part, GraphModule)]
        made = sum(node.target is APPLY for graph in graphs for node in graph.nodes)
        # A part that another op runs, such as the body of a checkpoint in a checkpoint, is traced without its calls.
        return made == len({node for node, _ in self._all}) and all(call.is_pure for _, call in self._all)


def reason_of(node: Node) -> str:
    """Why the op of a node stays in PyTorch."""
    where = _calls[node.args[1]].where  # type: ignore[index]
    return f"a torch.autograd.Function has a custom backward, which is not imported{where}"
