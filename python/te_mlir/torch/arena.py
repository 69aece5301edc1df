"""Instances of a region's programs, and their arenas: what a forward saves for its backward, and large gradients.

A step takes its arena from PyTorch's allocator, and gives it back after the backward, or after a
forward without one. Large gradients are tensors in the arena, in the place of values that the
backward no longer needs, so the memory is free again when the last of them is. A recorded step
keeps its arena, because a CUDA graph has fixed addresses, and all of its gradients are there.
While a gradient is alive, that arena is not used again.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any

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
    """An instance with the pointers of its calls, its memory, and with its tensors if it is recorded.

    make: creates a block of `size` bytes; None if the program has no temporaries.
    """

    def __init__(
        self, instance: Instance, pointers: Pointers, recorded: bool, make: Callable[[], torch.Tensor] | None, size: int
    ) -> None:
        self.instance, self.pointers = instance, pointers
        self.memory = Memory() if recorded else None
        self._make, self._size = make, size
        #: The memory for temporaries and large gradients, from PyTorch; a recorded step keeps it.
        self.block: torch.Tensor | None = None
        self._address = 0
        self._storage: Any = None
        self._uses = (0, 0)
        #: Whether gradients are copied out of the block.
        self.copies = False
        #: The addresses of the inputs of the last forward.
        self.inputs: list[int] = []
        #: The addresses of the gradients that it adds to.
        self.mains: list[int] = []
        #: The addresses that the last backward used: the inputs of its forward, and those of them that are saved.
        self.found: tuple[list[int] | None, list[int] | None] = (None, None)
        self.cotangents = Memory()
        #: Gradients outside of the block whose memory the forward uses for intermediates.
        self.gradients: list[torch.Tensor] = []
        #: Copies of the scales of the last forward, in the first column of [scales, 4].
        self.scales: torch.Tensor | None = None
        #: Whether `scales` are used, because the scales of the model changed since the forward.
        self.keeps_scales = False

    def begin(self) -> None:
        """Takes memory for work on the current stream."""
        if self.block is not None or self._make is None:
            return
        self.block = self._make()
        address = self.block.data_ptr()
        if address != self._address:
            self.instance.set_arena(address, self._size)
            self._address = address
        if self.memory is not None:
            self._storage = self.block.untyped_storage()
            self._uses = self._count_uses()

    def end(self) -> None:
        """Gives the memory back to PyTorch, which frees it once no gradient is in it."""
        if self.memory is None:
            self.block = None

    def is_held(self) -> bool:
        """Whether a gradient of a recorded step, or another user of its memory, is alive."""
        return self._storage is not None and self._count_uses() != self._uses

    def _count_uses(self) -> tuple[int, int]:
        """The number of tensors in the storage of the block, and of references to the object of the storage."""
        return torch._C._storage_Use_Count(self._storage._cdata), sys.getrefcount(self._storage)


#: So many arenas of a recorded step may be in use by gradients that a caller keeps; others copy their gradients.
_HELD = 2


class Pool:
    """The arenas of a program. template: the pointers of states; each call sets the others. make: that of Arena."""

    def __init__(
        self, program: Program, context: Context, template: list[int], recorded: bool, make: Callable[[], torch.Tensor]
    ) -> None:
        self.program, self.context, self.template, self.recorded = program, context, template, recorded
        self._type = ctypes.c_void_p * max(len(template), 1)
        self._size = program.arena_bytes
        self._make = make if self._size else None
        #: The arenas that no forward uses; the last one is taken first.
        self.free: list[Arena] = []

    def take(self) -> Arena:
        """Returns an arena that neither a forward nor, if it is recorded, a gradient uses."""
        # Several threads may take arenas.
        try:
            return self._take_unheld() if self.recorded else self.free.pop()
        except IndexError:
            return self._new()

    def _new(self) -> Arena:
        # The pointers of states do not change; pointers that no call sets are never read.
        instance = self.program.instance(self.context, arena=False)
        return Arena(instance, self._type(*self.template), self.recorded, self._make, self._size)

    def _take_unheld(self) -> Arena:
        held: list[Arena] = []
        try:
            while True:
                arena = self.free.pop()
                if not arena.is_held():
                    return arena
                held.append(arena)
        except IndexError:
            arena = self._new()
            arena.copies = len(held) >= _HELD
            return arena
        finally:
            self.free += reversed(held)

    def give(self, arena: Arena) -> None:
        """Takes an arena back, whose forward has ended or has had its backward."""
        arena.end()
        if arena.copies:
            # Others are preferred.
            self.free.insert(0, arena)
        else:
            self.free.append(arena)
