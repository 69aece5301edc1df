"""Instances of a region's programs: what the forward saves stays in the arena of one until its backward."""

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
    """What a recorded instance reads and writes: the same addresses in every call.

    A tensor that lies elsewhere than in the call before is copied to one kept here.
    """

    def __init__(self) -> None:
        self.results: list[torch.Tensor] = []
        self.gradients: list[torch.Tensor] = []
        self.seen: list[int] = []
        #: Copies of what moved.
        self.own: dict[int, torch.Tensor] = {}

    def settle(self, tensors: Sequence[torch.Tensor], addresses: list[int], fixed: Sequence[bool]) -> list[int]:
        """The addresses that a recorded step uses: of `fixed` tensors their own."""
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
    """An instance with the pointers of its calls, and with its memory where it is recorded."""

    def __init__(self, instance: Instance, pointers: Pointers, recorded: bool) -> None:
        self.instance, self.pointers = instance, pointers
        self.memory = Memory() if recorded else None
        #: Where the last forward read its inputs.
        self.inputs: list[int] = []
        #: Where gradients lie that it adds to.
        self.mains: list[int] = []
        #: What the last backward found: the inputs of its forward, and where those that are saved lay.
        self.found: tuple[list[int] | None, list[int] | None] = (None, None)
        self.cotangents = Memory()
        #: Gradients whose memory the forward uses already.
        self.gradients: list[torch.Tensor] = []
        #: Scales of the last forward [scales, 4], the first of each row, and whether they are there: others came since.
        self.scales: torch.Tensor | None = None
        self.keeps_scales = False


class Pool:
    """Arenas of a program. template: the pointers of states; the others are set by each call."""

    def __init__(self, program: Program, context: Context, template: list[int], recorded: bool) -> None:
        self.program, self.context, self.template, self.recorded = program, context, template, recorded
        self._type = ctypes.c_void_p * max(len(template), 1)
        #: Those that no forward waits with.
        self.free: list[Arena] = []

    def take(self) -> Arena:
        """An arena that no forward waits with."""
        if self.free:
            return self.free.pop()
        # The pointers of states stay; what no call fills in is never read.
        return Arena(self.program.instance(self.context), self._type(*self.template), self.recorded)
