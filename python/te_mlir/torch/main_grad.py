"""Gradients of weights that are added to `main_grad`, in float32, instead of being returned to autograd."""

from __future__ import annotations

import math
import operator
import threading
import weakref
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch

from te_mlir.errors import ArgumentError
from te_mlir.torch import groups
from te_mlir.torch.signature import Names, Signature
from te_mlir.torch.tensors import Spec, addresses_of, check

_main_grad = operator.attrgetter("main_grad")

#: A range of addresses (first, one after the last).
Span = tuple[int, int]


class MainGrads:
    """The sums that a region adds gradients of its weights to.

    shared: weights that have elements in common with other weights of the graph, in this or
    another region, and columns of parameters; each has a sum of its own, which PyTorch adds to
    that of the parameter. begun: weights for which this region sets the `main_grad` of the whole
    parameter to 0, because it uses them first and the steps do not write all of it.
    """

    def __init__(self, signature: Signature, names: Names, shared: Sequence[int], begun: Sequence[int]) -> None:
        self.signature, self.names = signature, names
        mains, inputs = signature.mains, signature.inputs
        self.shared = {
            i: SimpleNamespace(main_grad=torch.zeros(inputs[i].shape, dtype=torch.float32, device=signature.device))
            for i in mains
            if i in shared or inputs[i].is_copy
        }
        self.begun = [i for i in mains if i in begun]
        #: Weights that are not shared: their indices in `mains`, and the bytes of their sums.
        self.alone = [(k, 4 * math.prod(inputs[i].shape)) for k, i in enumerate(mains) if i not in self.shared]
        #: Those that are whole parameters: their indices in `mains` and in the inputs.
        self.whole = [(k, i) for k, i in enumerate(mains) if i not in self.shared and inputs[i].part is None]
        self._seen: list[int] = []

    def of_call(self, tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], list[int]]:
        """The `main_grad` of the weights, which are created as zeros if needed, and their addresses."""
        mains, shared = self.signature.mains, self.shared
        try:
            grads = list(map(_main_grad, [shared.get(i, tensors[i]) for i in mains]))
            addresses = addresses_of(grads)
        except (AttributeError, TypeError):
            grads = [shared[i].main_grad if i in shared else self.of(i, tensors[i]) for i in mains]
            addresses = addresses_of(grads)
        # A resized storage moves too.
        if addresses != self._seen:
            self._check_apart(grads)
            self._seen = addresses
        return grads, addresses

    def _check_apart(self, grads: Sequence[torch.Tensor]) -> None:
        spans = []
        for index, grad in zip(self.signature.mains, grads):
            spec = self.signature.inputs[index]
            check(Spec(f"{spec.name}.main_grad", spec.shape, torch.float32), grad, self.signature.device)
            if grad.numel():
                spans.append((grad.data_ptr(), 4 * grad.numel(), spec.name))
        spans.sort()
        for (begin, size, name), (after, _, other) in zip(spans, spans[1:]):
            if begin + size > after:
                raise ArgumentError(
                    f"argument '{other}.main_grad': expected memory of its own, but it overlaps '{name}.main_grad'"
                )

    def of(self, index: int, parameter: torch.Tensor) -> torch.Tensor:
        """The `main_grad` of a weight, which may be a part of a parameter; it is created if needed."""
        spec, grad = self.signature.inputs[index], self.of_owner(index, parameter)
        if spec.part is None:
            return grad
        whole = self.names.owners[index].shape
        check(Spec(f"{spec.part.owner(spec.name)}.main_grad", whole, torch.float32), grad, self.signature.device)
        return spec.part.of(grad)

    def of_owner(self, index: int, parameter: torch.Tensor) -> torch.Tensor:
        """The `main_grad` of the whole parameter of a weight; it is created if needed."""
        spec = self.signature.inputs[index]
        # Any attribute can be set on a tensor.
        owner: Any = parameter if spec.part is None else self.names.owners[index]
        grad = getattr(owner, "main_grad", None)
        if grad is None:
            if not owner.is_leaf:
                raise ArgumentError(
                    f"argument '{spec.name}': expected a parameter for 'main_grad', but got a tensor computed from one"
                )
            if groups.is_gathered(owner):
                raise ArgumentError(
                    f"argument '{spec.name}.main_grad': expected a parameter that is stored whole in each process, but "
                    "fully_shard gathered it, and returns only 'grad' to the shards; compile without main_grad"
                )
            grad = owner.main_grad = torch.zeros(owner.shape, dtype=torch.float32, device=self.signature.device)
        return grad


#: Protects the sums that wait for a backward, in all threads.
_lock = threading.Lock()


class Begin:
    """A first micro-batch between its forward and its backward, which overwrites the sums.

    Other backwards may write the same sums in the meantime. Their values are kept, so that a
    parameter that two graphs of a model use, or two calls of one graph, has the sum of both.
    mains, spans: the sums, which do not overlap in this call, and their addresses.
    """

    _waiting: weakref.WeakSet[Begin] = weakref.WeakSet()

    def __init__(self, mains: Sequence[torch.Tensor], spans: Sequence[Span]) -> None:
        self.mains, self.spans = mains, spans
        self.written: set[Span] = set()
        with _lock:
            self._waiting.add(self)

    def end(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """For each sum that was written since: (a copy of the written elements, with zeros for the others; the sum)."""
        with _lock:
            self._waiting.discard(self)
        found = []
        for main, (begin, end) in zip(self.mains, self.spans) if self.written else ():
            cuts = [(max(begin, first), min(end, last)) for first, last in self.written]
            cuts = [(first, last) for first, last in cuts if first < last]
            if cuts:
                kept = torch.zeros_like(main)
                for first, last in cuts:
                    cut = slice((first - begin) // 4, (last - begin) // 4)
                    kept.view(-1)[cut] = main.view(-1)[cut]
                found.append((kept, main))
        return found

    @classmethod
    def clear(cls, spans: Sequence[Span]) -> None:
        """Sets the sums at these addresses to 0 if a first micro-batch will overwrite them and nothing was written since.

        The backward that calls this adds to the sums before the backward that overwrites them has run.
        """
        with _lock:
            for begin in cls._waiting:
                for main, (own, _) in zip(begin.mains, begin.spans):
                    for first, last in spans:
                        first, last = max(first, own), min(last, own + 4 * main.numel())
                        if first < last and not any(a < last and first < b for a, b in begin.written):
                            main.view(-1)[(first - own) // 4 : (last - own) // 4].zero_()

    @classmethod
    def report(cls, spans: Sequence[Span]) -> None:
        """Records that the sums at these addresses were written."""
        with _lock:
            for begin in cls._waiting:
                begin.written.update(spans)
