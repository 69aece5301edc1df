"""The arguments and results of a region, the need for gradients, and the names of its weights in the model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from te_mlir import arrays
from te_mlir.recipes import Recipe
from te_mlir.torch.states import States, layer_of, renamed
from te_mlir.torch.tensors import Spec, addresses_of, check


class Options(NamedTuple):
    """How regions are compiled. pipeline: further options of the pipeline, by name."""

    recipe: Recipe | None = None
    backward_override: str | None = None
    target: str | None = None
    strict: bool = False
    #: Casts of weights are kept from call to call, until the next first micro-batch.
    cache_weights: bool = False
    #: Gradients of weights are added to their `main_grad`, in float32, and not returned to autograd.
    main_grad: bool = False
    #: Forward and backward are recorded once and replayed.
    cuda_graph: bool = False
    pipeline: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Signature:
    """The tensors of a region, in order, and indices in `inputs` and `outputs`.

    weights: inputs that are parameters or parts of one. wrt: inputs that need gradients. mains:
    those of `wrt` whose gradients are added to `main_grad`. given: the others, whose gradients are
    returned to autograd. through: outputs with cotangents. constants: outputs that cannot have
    gradients.
    """

    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    device: torch.device
    weights: tuple[int, ...]
    wrt: tuple[int, ...]
    mains: tuple[int, ...]
    given: tuple[int, ...]
    through: tuple[int, ...]
    constants: tuple[int, ...]

    @staticmethod
    def of(inputs: Sequence[Spec], outputs: Sequence[Spec], device: torch.device, main_grad: bool) -> Signature:
        wrt = [i for i, spec in enumerate(inputs) if spec.differentiable]
        mains = [i for i in wrt if main_grad and inputs[i].weight]
        constants = [i for i, spec in enumerate(outputs) if spec.constant]
        return Signature(
            tuple(inputs),
            tuple(outputs),
            device,
            weights=tuple(i for i, spec in enumerate(inputs) if spec.weight),
            wrt=tuple(wrt),
            mains=tuple(mains),
            given=tuple(i for i in wrt if i not in mains),
            through=tuple(i for i, spec in enumerate(outputs) if spec.differentiable),
            constants=tuple(constants),
        )


class Names:
    """The names of a region's weights in the model. Equal layers share a region, so the names change.

    current: names of the weights of the last call. owners: parameters of the next call, by the
    inputs that are parts of them. are_known: whether `current` also holds for the next call.
    """

    def __init__(self, signature: Signature, states: States) -> None:
        self.signature, self.states = signature, states
        self.current: tuple[str, ...] = tuple(signature.inputs[i].name for i in signature.weights)
        self.owners: dict[int, torch.Tensor] = {}
        self.are_known = False

    def belong_to(self, owners: dict[int, torch.Tensor]) -> None:
        """Sets the parameters of the next call. Copies of columns may have the addresses of those of another layer."""
        if any(self.owners.get(index) is not owner for index, owner in owners.items()):
            self.are_known = False
        self.owners = owners

    def update(self, tensors: Sequence[torch.Tensor]) -> None:
        """Names the weights of a call, which may be those of another layer."""
        self.current = tuple(self._name_of(i, tensors[i]) for i in self.signature.weights)
        self.are_known = True

    def _name_of(self, index: int, tensor: torch.Tensor) -> str:
        spec = self.signature.inputs[index]
        if spec.part is None:
            return self.states.name_of(tensor, spec.name)
        return spec.part.name(self.states.name_of(self.owners[index], spec.part.owner(spec.name)))

    def _by_captured(self) -> Mapping[str, str]:
        found = {}
        for i, name in zip(self.signature.weights, self.current):
            spec = self.signature.inputs[i]
            found[spec.name] = name
            # Layers have the names of the parts that they read.
            found.update((part.name(spec.name), part.name(name)) for part in spec.parts)
        return found

    def of_state(self, state: str) -> str:
        """The name in the model of a state that a program names after the layer of a weight."""
        return renamed(state, {layer_of(weight): layer_of(name) for weight, name in self._by_captured().items()})

    def of_cast(self, cast: str) -> str:
        """The name in the model of a cast that a program names after a weight."""
        return renamed(cast, self._by_captured())


class Guard:
    """Checks the tensors of a call, but only where they differ from those of the call before."""

    def __init__(self, signature: Signature, names: Names) -> None:
        self.signature, self.names = signature, names
        self._weights = frozenset(signature.weights)
        #: Bytes that each input takes.
        self._bytes = [s.dtype.itemsize * math.prod(s.shape) for s in signature.inputs]
        self._are_alike: Callable[..., bool] | None = None
        self._seen: list[int] = []

    def check(self, tensors: tuple[torch.Tensor, ...]) -> list[int]:
        """Addresses of the tensors; raises ArgumentError, naming the argument, unless the step can use them."""
        seen = addresses_of(tensors)
        if self._are_alike is None or not self._are_alike(*tensors):
            for spec, tensor in zip(self.signature.inputs, tensors):
                check(spec, tensor, self.signature.device)
            self._are_alike = arrays.torch_guard(tensors)
            self.names.are_known = False
        elif seen != self._seen:
            # The tensors are like those of the last call, so only their addresses are checked. A resized storage moves.
            moved = arrays.changed(self._seen, seen)
            if not self._weights.isdisjoint(moved):
                self.names.are_known = False
            for index in moved:
                tensor, address = tensors[index], seen[index]
                whole = not tensor.storage_offset() and len(tensor.untyped_storage()) >= self._bytes[index]
                if not address or address % 16 or not whole:
                    check(self.signature.inputs[index], tensor, self.signature.device)
        self._seen = seen
        return seen
