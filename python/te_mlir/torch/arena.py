"""Instances of a region's programs. The arena of an instance stores the values that a forward saves for its backward."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch

from te_mlir import arrays
from te_mlir.program import Program
from te_mlir.runtime import Context, Instance

#: The pointers that a step takes.
Pointers = ctypes.Array[ctypes.c_void_p]


class Memory:
    """The tensors of an instance that is recorded as a CUDA graph, which uses the same addresses in every call.

    An input whose address changes between calls is copied to a tensor that this object owns.
    """

    def __init__(self) -> None:
        self.results: list[torch.Tensor] = []
        self.gradients: list[torch.Tensor] = []
        self.seen: list[int] = []
        #: Copies of the tensors that moved.
        self.own: dict[int, torch.Tensor] = {}

    def settle(self, tensors: Sequence[torch.Tensor], addresses: list[int], fixed: Sequence[bool]) -> list[int]:
        """The addresses that a recorded step uses; `fixed` tensors are not copied."""
        if addresses != self.seen:
            for index in arrays.changed(self.seen, addresses):
                if not fixed[index] and index not in self.own:
                    self.own[index] = torch.empty_like(tensors[index])
            self.seen = addresses
        if self.own:
            addresses = list(addresses)
        for index, own in self.own.items():
            source = tensors[index]
            own.copy_(source.detach() if source.requires_grad else source)
            addresses[index] = own.data_ptr()
        return addresses


class Arena:
    """An instance with the pointers of its calls, and with its memory if it is recorded."""

    def __init__(self, instance: Instance, pointers: Pointers, recorded: bool) -> None:
        self.instance, self.pointers = instance, pointers
        self.memory = Memory() if recorded else None
        #: The addresses of the inputs of the last forward.
        self.inputs: list[int] = []
        #: The addresses of the gradients that it adds to.
        self.mains: list[int] = []
        #: The addresses that the last backward used: the inputs of its forward, and those of them that are saved.
        self.found: tuple[list[int] | None, list[int] | None] = (None, None)
        self.cotangents = Memory()
        #: Gradients whose memory the forward uses for intermediates.
        self.gradients: list[torch.Tensor] = []
        #: Copies of the scales of the last forward, in the first column of [scales, 4].
        self.scales: torch.Tensor | None = None
        #: Whether `scales` are used, because the scales of the model changed since the forward.
        self.keeps_scales = False


class Pool:
    """The arenas of a program. template: the pointers of states; each call sets the others."""

    def __init__(self, program: Program, context: Context, template: list[int], recorded: bool) -> None:
        self.program, self.context, self.template, self.recorded = program, context, template, recorded
        self._type = ctypes.c_void_p * max(len(template), 1)
        #: The arenas that no forward uses.
        self.free: list[Arena] = []

    def take(self) -> Arena:
        """Returns an arena that no forward uses."""
        if self.free:
            return self.free.pop()
        # The pointers of states do not change; pointers that no call sets are never read.
        return Arena(self.program.instance(self.context), self._type(*self.template), self.recorded)
